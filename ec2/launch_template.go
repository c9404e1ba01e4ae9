package ec2

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// launchable is one version of a launch template, as far as a launch needs it.
type launchable struct {
	// pinned is ID:NUMBER.
	pinned     string
	interfaces []types.LaunchTemplateInstanceNetworkInterfaceSpecification
	// version is EC2's answer; its zero value if the caller may not read it.
	version types.LaunchTemplateVersion
	read    time.Time
}

// pinTime is how long the meaning of $Default or $Latest is kept: all launches of one power-up
// share it.
const pinTime = time.Minute

// PinTemplate is the version, as ID:NUMBER, that ID[:VERSION] or NAME[:VERSION] means
// now; without a version it is the template's default one. A launch and its repetition
// are the same only with the same version. A caller without the permission
// ec2:DescribeLaunchTemplateVersions gets back what was given.
func (c *Client) PinTemplate(ctx context.Context, reference string) (string, error) {
	t, err := c.launchable(ctx, reference)
	return t.pinned, err
}

func (c *Client) launchable(ctx context.Context, reference string) (launchable, error) {
	c.mu.Lock() // concurrent launches of one power-up ask once
	defer c.mu.Unlock()
	known, ok := c.launchables[reference]
	if ok && (known.pinned == reference || time.Since(known.read) < pinTime) {
		return known, nil
	}
	spec := templateReference(reference)
	out, err := c.api.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: spec.LaunchTemplateId, LaunchTemplateName: spec.LaunchTemplateName, Versions: []string{aws.ToString(spec.Version)},
	})
	switch {
	case notAllowed(err):
		c.without(err, "whether launch template "+reference+" has network interfaces is not known, nor its version")
		return launchable{pinned: reference}, nil
	case err != nil:
		return launchable{}, fmt.Errorf("reading launch template %s in %s: %w", reference, c.region, err)
	case len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil:
		return launchable{}, fmt.Errorf("reading launch template %s in %s: %w", reference, c.region, ErrNotDescribed)
	}
	v := out.LaunchTemplateVersions[0]
	t := launchable{
		pinned:     aws.ToString(v.LaunchTemplateId) + ":" + strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10),
		interfaces: v.LaunchTemplateData.NetworkInterfaces,
		version:    v,
		read:       time.Now(),
	}
	c.launchables[reference], c.launchables[t.pinned] = t, t
	return t, nil
}

// templateReference reads ID[:VERSION] or NAME[:VERSION]; names have no colon.
func templateReference(s string) *types.LaunchTemplateSpecification {
	name, version, _ := strings.Cut(s, ":")
	if version == "" {
		version = "$Default"
	}
	spec := &types.LaunchTemplateSpecification{Version: aws.String(version)}
	if strings.HasPrefix(name, "lt-") {
		spec.LaunchTemplateId = aws.String(name)
	} else {
		spec.LaunchTemplateName = aws.String(name)
	}
	return spec
}

// interfacesIn are the interfaces of a template as a launch sends them, in a subnet: EC2 refuses a
// subnet together with interfaces (InvalidParameterCombination), from the call or the template.
func interfacesIn(subnetID string, template []types.LaunchTemplateInstanceNetworkInterfaceSpecification) ([]types.InstanceNetworkInterfaceSpecification, error) {
	var out []types.InstanceNetworkInterfaceSpecification
	if err := copyByName(template, &out); err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].NetworkInterfaceId == nil { // one that exists is in its subnet
			out[i].SubnetId = aws.String(subnetID)
		}
	}
	return out, nil
}
