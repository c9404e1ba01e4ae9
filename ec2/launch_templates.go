package ec2

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// ErrNotOurs is returned for a launch template that lacks our tag (R9).
var ErrNotOurs = errors.New("it does not carry our tag")

// Versions of a launch template that EC2 resolves itself.
const newest = "$Latest"

// LaunchTemplate reads one version of a launch template, by id or name; an empty
// version is the newest. The second value is false when there is no such template
// or version.
func (c *Client) LaunchTemplate(ctx context.Context, idOrName, version string) (capacity.LaunchTemplate, bool, error) {
	t, data, found, err := c.readTemplate(ctx, idOrName, version)
	if err != nil || !found {
		return capacity.LaunchTemplate{}, false, err
	}
	described, err := c.described(ctx, t, data)
	return described, err == nil, err
}

// described is a template with one version, and the AMI that a launch would take now.
func (c *Client) described(ctx context.Context, t types.LaunchTemplate, v types.LaunchTemplateVersion) (capacity.LaunchTemplate, error) {
	d := describe(t, v)
	if isParameter(d.ImageID) {
		image, err := c.resolvedImage(ctx, v)
		if err != nil {
			return capacity.LaunchTemplate{}, err
		}
		d.ImageID = aws.ToString(image)
	}
	return d, nil
}

// LaunchTemplates reads the newest versions of the templates of these names, by name. Names without
// a template are left out.
func (c *Client) LaunchTemplates(ctx context.Context, names []string) (map[string]capacity.LaunchTemplate, error) {
	if len(unique(names)) == 0 {
		return nil, nil
	}
	// A filter, since one unknown name would make EC2 refuse the whole call.
	all, err := c.newestVersions(ctx, filter("launch-template-name", unique(names)...))
	byName := map[string]capacity.LaunchTemplate{}
	for _, t := range all {
		byName[t.Name] = t
	}
	return byName, err
}

// TemplateVersion reads the version that ID[:VERSION] or NAME[:VERSION] names; by default the
// default one, as for a launch. It asks for less than LaunchTemplate: the answer has no tags, and
// names the image as the template does. The second value is false when there is no such template or
// version.
func (c *Client) TemplateVersion(ctx context.Context, reference string) (capacity.LaunchTemplate, bool, error) {
	spec := templateReference(reference)
	v, found, err := c.templateVersion(ctx, aws.ToString(spec.LaunchTemplateId)+aws.ToString(spec.LaunchTemplateName), aws.ToString(spec.Version))
	if err != nil || !found {
		return capacity.LaunchTemplate{}, false, err
	}
	return describe(types.LaunchTemplate{LaunchTemplateId: v.LaunchTemplateId, LaunchTemplateName: v.LaunchTemplateName}, v), true, nil
}

// versionKey is a version of a launch template, by its id and number. It never changes.
type versionKey struct{ id, number string }

// templateVersion reads one version of a launch template, which may be $Latest or $Default. EC2 is
// asked once for a number. The second value is false when there is none.
func (c *Client) templateVersion(ctx context.Context, idOrName, version string) (types.LaunchTemplateVersion, bool, error) {
	if idOrName == "" { // EC2 would describe any
		return types.LaunchTemplateVersion{}, false, nil
	}
	c.mu.Lock()
	known, ok := c.versions[versionKey{idOrName, version}]
	c.mu.Unlock()
	if ok {
		return known, true, nil
	}
	v, err := c.askVersion(ctx, templateReference(idOrName+":"+version), false)
	switch {
	case noTemplate(err) || errors.Is(err, ErrNotDescribed):
		return v, false, nil
	case err != nil:
		return v, false, fmt.Errorf("reading launch template %s in %s: %w", idOrName, c.region, err)
	}
	c.mu.Lock()
	c.versions[versionKey{aws.ToString(v.LaunchTemplateId), numberOf(v)}] = v
	c.mu.Unlock()
	return v, true, nil
}

// askVersion asks EC2 for one version of a launch template. resolved: with the AMI that a launch would take now, which
// takes the permission ssm:GetParameters.
func (c *Client) askVersion(ctx context.Context, t *types.LaunchTemplateSpecification, resolved bool) (types.LaunchTemplateVersion, error) {
	in := &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: t.LaunchTemplateId, LaunchTemplateName: t.LaunchTemplateName, Versions: []string{aws.ToString(t.Version)}}
	if resolved {
		in.ResolveAlias = aws.Bool(true)
	}
	out, err := c.api.DescribeLaunchTemplateVersions(ctx, in)
	switch {
	case err != nil:
		return types.LaunchTemplateVersion{}, err
	case len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil:
		return types.LaunchTemplateVersion{}, ErrNotDescribed
	}
	return out.LaunchTemplateVersions[0], nil
}

func numberOf(v types.LaunchTemplateVersion) string {
	return strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10)
}

// parameterPrefix begins the ImageId of a launch template whose AMI is named by a
// parameter of AWS Systems Manager.
const parameterPrefix = "resolve:ssm:"

func isParameter(imageID string) bool { return strings.HasPrefix(imageID, parameterPrefix) }

// resolvedImage is the AMI that a launch from this version would take now.
func (c *Client) resolvedImage(ctx context.Context, v types.LaunchTemplateVersion) (*string, error) {
	resolved, err := c.askVersion(ctx, &types.LaunchTemplateSpecification{LaunchTemplateId: v.LaunchTemplateId, Version: aws.String(numberOf(v))}, true)
	if err != nil {
		return nil, fmt.Errorf("resolving image %s of launch template %s: %w", aws.ToString(v.LaunchTemplateData.ImageId), aws.ToString(v.LaunchTemplateName), err)
	}
	return resolved.LaunchTemplateData.ImageId, nil
}

// PlannedTemplate is the version that EnsureLaunchTemplate would leave behind, without an id where
// there is none yet. It changes nothing.
func (c *Client) PlannedTemplate(ctx context.Context, spec capacity.LaunchTemplateSpec) (capacity.LaunchTemplate, error) {
	data, err := c.templateData(ctx, spec)
	if err != nil {
		return capacity.LaunchTemplate{}, err
	}
	wanted, err := digest(data)
	if err != nil {
		return capacity.LaunchTemplate{}, err
	}
	written, err := writtenVersion(data, versionDescription(spec, wanted))
	if err != nil {
		return capacity.LaunchTemplate{}, err
	}
	t := describe(types.LaunchTemplate{LaunchTemplateName: aws.String(spec.Name)}, written)
	t.Version, t.Tags = "", spec.Tags
	return t, nil
}

// EnsureLaunchTemplate makes the newest version of the template with the spec's name match the
// spec: it creates the template, adds a version, or does nothing. Versions never change, so the
// digest in a description identifies the wanted one. A template of that name without the cluster
// tag of the spec is left alone: ErrNotOurs.
func (c *Client) EnsureLaunchTemplate(ctx context.Context, spec capacity.LaunchTemplateSpec) (capacity.LaunchTemplate, error) {
	data, err := c.templateData(ctx, spec)
	if err != nil {
		return capacity.LaunchTemplate{}, err
	}
	wanted, err := digest(data)
	if err != nil {
		return capacity.LaunchTemplate{}, err
	}
	there, err := c.LaunchTemplates(ctx, []string{spec.Name})
	if err != nil {
		return capacity.LaunchTemplate{}, err
	}
	now, found := there[spec.Name]
	if !found {
		created, err := c.createTemplate(ctx, spec, data, wanted)
		if !nameTaken(err) {
			return created, err
		}
		// Somebody was faster, or an earlier run of ours was: names are unique.
		if now, err = c.shownTemplate(ctx, spec.Name, ""); err != nil {
			return capacity.LaunchTemplate{}, fmt.Errorf("launch template %s exists: %w; run this again", spec.Name, err)
		}
	}
	if now.Tags[capacity.TagCluster] != spec.Tags[capacity.TagCluster] {
		return capacity.LaunchTemplate{}, fmt.Errorf("launch template %s (%s): %w", now.Name, now.ID, ErrNotOurs)
	}
	if now.Digest == wanted {
		return now, nil
	}
	return c.addVersion(ctx, now, spec, data, wanted)
}

// createTemplate leaves the ClientToken to the SDK: the unique name already keeps a
// second template out, while a token made from the spec would, after the template was
// deleted, give back the deleted one.
func (c *Client) createTemplate(ctx context.Context, spec capacity.LaunchTemplateSpec, data *types.RequestLaunchTemplateData, digest string) (capacity.LaunchTemplate, error) {
	out, err := c.api.CreateLaunchTemplate(ctx, createInput(spec, data, digest))
	if err == nil && out.LaunchTemplate == nil {
		err = ErrNotDescribed
	}
	if err != nil {
		return capacity.LaunchTemplate{}, fmt.Errorf("creating launch template %s in %s: %w", spec.Name, c.region, err)
	}
	written, err := writtenVersion(data, versionDescription(spec, digest))
	if err != nil {
		return capacity.LaunchTemplate{}, err
	}
	return c.settled(ctx, describe(*out.LaunchTemplate, written))
}

func createInput(spec capacity.LaunchTemplateSpec, data *types.RequestLaunchTemplateData, digest string) *ec2.CreateLaunchTemplateInput {
	return &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(spec.Name),
		LaunchTemplateData: data,
		VersionDescription: aws.String(versionDescription(spec, digest)),
		TagSpecifications:  tagged(spec.Tags, types.ResourceTypeLaunchTemplate),
	}
}

// writtenVersion is the first version of a template as EC2 will show it: the answer of
// CreateLaunchTemplate does not.
func writtenVersion(data *types.RequestLaunchTemplateData, description string) (types.LaunchTemplateVersion, error) {
	v := types.LaunchTemplateVersion{VersionNumber: aws.Int64(1), VersionDescription: aws.String(description), LaunchTemplateData: &types.ResponseLaunchTemplateData{}}
	return v, copyByName(data, v.LaunchTemplateData)
}

// settled returns a template as written, once EC2 shows that version to readers such as PCS, or
// after settleTime.
func (c *Client) settled(ctx context.Context, t capacity.LaunchTemplate) (capacity.LaunchTemplate, error) {
	err := c.againWhile(ctx, notShown, func() error {
		_, found, err := c.templateVersion(ctx, t.ID, t.Version)
		if err == nil && !found {
			err = errNotShown
		}
		return err
	})
	if err != nil && !notShown(err) {
		return capacity.LaunchTemplate{}, err
	}
	return t, nil
}

// shownTemplate is LaunchTemplate of a version that exists, which EC2 may not show yet.
func (c *Client) shownTemplate(ctx context.Context, idOrName, version string) (capacity.LaunchTemplate, error) {
	var t capacity.LaunchTemplate
	err := c.againWhile(ctx, notShown, func() (err error) {
		var found bool
		if t, found, err = c.LaunchTemplate(ctx, idOrName, version); err == nil && !found {
			err = errNotShown
		}
		return err
	})
	return t, err
}

// addVersion derives the ClientToken from the version that it follows, so that two
// runs at the same time add one version.
func (c *Client) addVersion(ctx context.Context, now capacity.LaunchTemplate, spec capacity.LaunchTemplateSpec, data *types.RequestLaunchTemplateData, digest string) (capacity.LaunchTemplate, error) {
	if now.Tags[capacity.TagReservation] != spec.Tags[capacity.TagReservation] {
		if err := c.TagLaunchTemplate(ctx, now.ID, spec.Tags); err != nil {
			return capacity.LaunchTemplate{}, err
		}
		now.Tags = maps.Clone(now.Tags)
		maps.Copy(now.Tags, spec.Tags)
	}
	out, err := c.api.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId:   aws.String(now.ID),
		LaunchTemplateData: data,
		VersionDescription: aws.String(versionDescription(spec, digest)),
		// EC2 takes 64 characters.
		ClientToken: aws.String(fmt.Sprintf("%s-%s-%.32s", now.ID, now.Version, digest)),
	})
	if err == nil && out.LaunchTemplateVersion == nil {
		err = ErrNotDescribed
	}
	if err != nil {
		return capacity.LaunchTemplate{}, fmt.Errorf("adding a version to launch template %s: %w", now.Name, err)
	}
	t := types.LaunchTemplate{LaunchTemplateId: aws.String(now.ID), LaunchTemplateName: aws.String(now.Name), Tags: tagList(now.Tags)}
	return c.settled(ctx, describe(t, *out.LaunchTemplateVersion))
}

// TagLaunchTemplate adds tags to a launch template; its other tags stay.
func (c *Client) TagLaunchTemplate(ctx context.Context, id string, tags map[string]string) error {
	if _, err := c.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList(tags)}); err != nil {
		return fmt.Errorf("tagging launch template %s: %w", id, err)
	}
	return nil
}

// DeleteLaunchTemplate deletes a launch template with all its versions, if it carries
// the cluster tag (else ErrNotOurs). One that is gone already is no error.
func (c *Client) DeleteLaunchTemplate(ctx context.Context, idOrName, cluster string) error {
	t, found, err := c.LaunchTemplate(ctx, idOrName, "")
	if err != nil || !found {
		return err
	}
	if t.Tags[capacity.TagCluster] != cluster {
		return fmt.Errorf("launch template %s (%s): %w", t.Name, t.ID, ErrNotOurs)
	}
	_, err = c.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(t.ID)})
	if err != nil && !noTemplate(err) {
		return fmt.Errorf("deleting launch template %s: %w", t.Name, err)
	}
	return nil
}

// LaunchTemplatesByTag lists the newest versions of all templates with the tags.
func (c *Client) LaunchTemplatesByTag(ctx context.Context, tags map[string]string) ([]capacity.LaunchTemplate, error) {
	var filters []types.Filter
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		filters = append(filters, tagFilter(key, tags[key]))
	}
	return c.newestVersions(ctx, filters...)
}

// newestVersions lists templates with their newest versions, which are read side by side.
func (c *Client) newestVersions(ctx context.Context, filters ...types.Filter) ([]capacity.LaunchTemplate, error) {
	listed, err := c.listTemplates(ctx, filters...)
	if err != nil {
		return nil, err
	}
	all, found := make([]capacity.LaunchTemplate, len(listed)), make([]bool, len(listed))
	reads, readCtx := errgroup.WithContext(ctx)
	reads.SetLimit(templatesAtOnce)
	for i, t := range listed {
		reads.Go(func() (err error) {
			var v types.LaunchTemplateVersion
			v, found[i], err = c.templateVersion(readCtx, aws.ToString(t.LaunchTemplateId), strconv.FormatInt(aws.ToInt64(t.LatestVersionNumber), 10))
			if err == nil && found[i] {
				all[i], err = c.described(readCtx, t, v)
			}
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	var there []capacity.LaunchTemplate
	for i, t := range all {
		if found[i] {
			there = append(there, t)
		}
	}
	return there, nil
}

// templatesAtOnce keeps well below what EC2 takes of one call: 100 at once, then 20 a second (EC2
// Developer Guide, "Request throttling").
const templatesAtOnce = 10

func (c *Client) listTemplates(ctx context.Context, filters ...types.Filter) (all []types.LaunchTemplate, err error) {
	for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeLaunchTemplates, &ec2.DescribeLaunchTemplatesInput{Filters: filters})) {
		if err != nil {
			return nil, fmt.Errorf("describing launch templates in %s: %w", c.region, err)
		}
		all = append(all, page.LaunchTemplates...)
	}
	return all, nil
}

// MadeTemplates are the launch templates with our tag for a cluster, by its mark. The name of one that setup made is prefix and slot.
func (c *Client) MadeTemplates(ctx context.Context, mark, prefix string) ([]capacity.Made, error) {
	listed, err := c.listTemplates(ctx, tagFilter(capacity.TagCluster, mark))
	var made []capacity.Made
	for _, a := range listed {
		tags := tagMap(a.Tags)
		t := capacity.Made{What: capacity.MadeTemplate, Name: aws.ToString(a.LaunchTemplateName), ID: aws.ToString(a.LaunchTemplateId),
			Queue: tags[capacity.TagPartition], Reservation: tags[capacity.TagReservation]}
		if slot, named := strings.CutPrefix(t.Name, prefix); named {
			t.Slot = slot
		}
		made = append(made, t)
	}
	return made, err
}

// readTemplate reads a template's tags and one version's data.
func (c *Client) readTemplate(ctx context.Context, idOrName, version string) (types.LaunchTemplate, types.LaunchTemplateVersion, bool, error) {
	in := &ec2.DescribeLaunchTemplatesInput{}
	if idOrName == "" {
		return types.LaunchTemplate{}, types.LaunchTemplateVersion{}, false, nil
	}
	if strings.HasPrefix(idOrName, "lt-") {
		in.LaunchTemplateIds = []string{idOrName}
	} else {
		in.LaunchTemplateNames = []string{idOrName}
	}
	if version == "" {
		version = newest
	}
	var out *ec2.DescribeLaunchTemplatesOutput
	var data types.LaunchTemplateVersion
	var found bool
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		if out, err = c.api.DescribeLaunchTemplates(readCtx, in); noTemplate(err) {
			out, err = &ec2.DescribeLaunchTemplatesOutput{}, nil
		}
		return err
	})
	reads.Go(func() (err error) { data, found, err = c.templateVersion(readCtx, idOrName, version); return err })
	switch err := reads.Wait(); {
	case err != nil:
		return types.LaunchTemplate{}, data, false, fmt.Errorf("describing launch template %s in %s: %w", idOrName, c.region, err)
	case len(out.LaunchTemplates) == 0 || !found:
		return types.LaunchTemplate{}, data, false, nil
	}
	return out.LaunchTemplates[0], data, true, nil
}

func describe(t types.LaunchTemplate, v types.LaunchTemplateVersion) capacity.LaunchTemplate {
	d := v.LaunchTemplateData
	out := capacity.LaunchTemplate{
		ID:               aws.ToString(t.LaunchTemplateId),
		Name:             aws.ToString(t.LaunchTemplateName),
		Version:          numberOf(v),
		Tags:             tagMap(t.Tags),
		ImageID:          aws.ToString(d.ImageId),
		InstanceType:     string(d.InstanceType),
		KeyName:          aws.ToString(d.KeyName),
		SecurityGroupIDs: slices.Clone(d.SecurityGroupIds),
	}
	out.UserData, _ = base64.StdEncoding.DecodeString(aws.ToString(d.UserData)) // EC2 takes nothing else
	for _, n := range d.NetworkInterfaces {
		out.SecurityGroupIDs = unique(append(out.SecurityGroupIDs, n.Groups...))
		out.NetworkInterfaces = append(out.NetworkInterfaces, networkInterface(n.NetworkCardIndex, n.DeviceIndex, n.InterfaceType))
	}
	if c := d.CpuOptions; c != nil {
		out.Cores, out.ThreadsPerCore = int(aws.ToInt32(c.CoreCount)), int(aws.ToInt32(c.ThreadsPerCore))
	}
	if len(d.NetworkInterfaces) == 1 {
		out.PublicAddress = d.NetworkInterfaces[0].AssociatePublicIpAddress
	}
	for _, m := range d.BlockDeviceMappings {
		if m.Ebs != nil && m.Ebs.KmsKeyId != nil {
			out.VolumeKeys = unique(append(out.VolumeKeys, *m.Ebs.KmsKeyId))
		}
	}
	out.Protected = aws.ToBool(d.DisableApiTermination)
	if p := d.IamInstanceProfile; p != nil {
		out.InstanceProfile = aws.ToString(p.Arn) + aws.ToString(p.Name) // EC2 allows one of them
	}
	if s := d.CapacityReservationSpecification; s != nil {
		out.NoTarget = s.CapacityReservationTarget == nil && s.CapacityReservationPreference != types.CapacityReservationPreferenceNone
		if s.CapacityReservationTarget != nil {
			out.ReservationID = aws.ToString(s.CapacityReservationTarget.CapacityReservationId)
		}
	}
	if m := d.InstanceMarketOptions; m != nil {
		out.Market = string(m.MarketType)
	}
	if m := d.MetadataOptions; m != nil {
		out.MetadataTags = m.InstanceMetadataTags == types.LaunchTemplateInstanceMetadataTagsStateEnabled
		out.NoMetadataTags = m.InstanceMetadataTags == types.LaunchTemplateInstanceMetadataTagsStateDisabled
	}
	for _, spec := range d.TagSpecifications {
		for _, tag := range spec.Tags {
			if spec.ResourceType == types.ResourceTypeInstance {
				out.InstanceTagKeys = append(out.InstanceTagKeys, aws.ToString(tag.Key))
			}
		}
	}
	if found := digestInDescription.FindStringSubmatch(aws.ToString(v.VersionDescription)); found != nil {
		out.Digest = found[1]
	}
	return out
}

var digestInDescription = regexp.MustCompile(`^pcs-capacity .*sha256:([0-9a-f]{64})`)

func versionDescription(spec capacity.LaunchTemplateSpec, digest string) string {
	what := cmp.Or(spec.ReservationID, spec.Tags[capacity.TagPartition])
	return fmt.Sprintf("pcs-capacity for %s, sha256:%s", what, digest)
}
