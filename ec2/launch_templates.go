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
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// ErrNotOurs is returned for a launch template that lacks our tag (R9).
var ErrNotOurs = errors.New("it does not carry our tag")

// latestVersion is a version of a launch template that EC2 resolves itself.
const latestVersion = "$Latest"

// LaunchTemplate reads one version of a launch template, by id or name; an empty version is the newest. The second
// value is false when there is no such template or version.
func (c *Client) LaunchTemplate(
	ctx context.Context, idOrName, version string,
) (t capacity.LaunchTemplate, found bool, err error) {
	if idOrName == "" { // EC2 would describe any
		return t, false, nil
	}

	in := &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{idOrName}}
	if strings.HasPrefix(idOrName, "lt-") {
		in = &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: in.LaunchTemplateNames}
	}

	var (
		out *ec2.DescribeLaunchTemplatesOutput
		v   types.LaunchTemplateVersion
	)

	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) { out, err = c.api.DescribeLaunchTemplates(readCtx, in); return err })
	reads.Go(func() (err error) {
		v, err = c.version(readCtx, idOrName+":"+cmp.Or(version, latestVersion), 0)
		return err
	})

	switch err := reads.Wait(); {
	case isTemplateMissing(err) || err == nil && len(out.LaunchTemplates) == 0:
		return t, false, nil
	case err != nil:
		return t, false, fmt.Errorf("describing launch template %s in %s: %w", idOrName, c.region, err)
	}

	t, err = c.withImage(ctx, out.LaunchTemplates[0], v)

	return t, err == nil, err
}

// withImage describes one version of a template, with the AMI that a launch would use now.
func (c *Client) withImage(
	ctx context.Context, t types.LaunchTemplate, v types.LaunchTemplateVersion,
) (capacity.LaunchTemplate, error) {
	d := launchTemplate(t, v)
	if isParameter(d.ImageID) {
		image, err := c.resolvedImage(ctx, v)
		if err != nil {
			return capacity.LaunchTemplate{}, err
		}

		d.ImageID = image
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

// TemplateVersion reads the version that ID[:VERSION] or NAME[:VERSION] names; by default the default one, as for a
// launch. It asks for less than LaunchTemplate: the answer has no tags, and names the image as the template does. The
// second value is false when there is no such template or version.
func (c *Client) TemplateVersion(ctx context.Context, reference string) (capacity.LaunchTemplate, bool, error) {
	if id, _, _ := strings.Cut(reference, ":"); id == "" {
		return capacity.LaunchTemplate{}, false, nil
	}

	v, err := c.version(ctx, reference, 0)
	if isTemplateMissing(err) {
		return capacity.LaunchTemplate{}, false, nil
	}

	if err != nil {
		return capacity.LaunchTemplate{}, false, err
	}

	return launchTemplate(
		types.LaunchTemplate{LaunchTemplateId: v.LaunchTemplateId, LaunchTemplateName: v.LaunchTemplateName},
		v,
	), true, nil
}

// templateRead is a version of a launch template, and when it was read.
type templateRead struct {
	types.LaunchTemplateVersion
	at time.Time
}

// version reads the version that a reference means. EC2 is asked once for a number, which never changes; what
// anything else means is kept for a time.
func (c *Client) version(
	ctx context.Context, reference string, keep time.Duration,
) (types.LaunchTemplateVersion, error) {
	// A numbered version never changes, so it may be kept for good.
	known, ok := c.versions.get(reference)
	if ok && (pinnedRef(known.LaunchTemplateVersion) == reference || time.Since(known.at) < keep) {
		return known.LaunchTemplateVersion, nil
	}

	v, err := c.describeVersion(ctx, templateReference(reference), false)
	if err != nil {
		return v, fmt.Errorf("reading launch template %s in %s: %w", reference, c.region, err)
	}

	for _, name := range []string{reference, pinnedRef(v)} {
		c.versions.put(name, templateRead{v, time.Now()})
	}

	return v, nil
}

// describeVersion asks EC2 for one version of a launch template. resolved: with the AMI that a launch would take now,
// which takes the permission ssm:GetParameters.
func (c *Client) describeVersion(
	ctx context.Context, t *types.LaunchTemplateSpecification, resolved bool,
) (v types.LaunchTemplateVersion, err error) {
	in := &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId:   t.LaunchTemplateId,
		LaunchTemplateName: t.LaunchTemplateName,
		Versions:           []string{aws.ToString(t.Version)},
	}
	if resolved {
		in.ResolveAlias = aws.Bool(true)
	}

	out, err := c.api.DescribeLaunchTemplateVersions(ctx, in)
	switch {
	case err != nil:
		return v, err
	case len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil:
		return v, ErrNotDescribed
	}

	return out.LaunchTemplateVersions[0], nil
}

func versionNumber(v types.LaunchTemplateVersion) string {
	return strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10)
}

// pinnedRef returns the reference ID:NUMBER of a version.
func pinnedRef(v types.LaunchTemplateVersion) string {
	return aws.ToString(v.LaunchTemplateId) + ":" + versionNumber(v)
}

// parameterPrefix begins the ImageId of a launch template whose AMI is named by a parameter of AWS Systems Manager.
const parameterPrefix = "resolve:ssm:"

func isParameter(imageID string) bool { return strings.HasPrefix(imageID, parameterPrefix) }

// resolvedImage returns the AMI that a launch from this version would take now.
func (c *Client) resolvedImage(ctx context.Context, v types.LaunchTemplateVersion) (string, error) {
	resolved, err := c.describeVersion(ctx, templateReference(pinnedRef(v)), true)
	if err != nil {
		return "", fmt.Errorf("resolving image %s of launch template %s: %w",
			aws.ToString(v.LaunchTemplateData.ImageId), aws.ToString(v.LaunchTemplateName), err)
	}

	return aws.ToString(resolved.LaunchTemplateData.ImageId), nil
}

// PlannedTemplate returns the version that EnsureLaunchTemplate would leave behind, without an id where
// there is none yet. It changes nothing.
func (c *Client) PlannedTemplate(
	ctx context.Context, spec capacity.LaunchTemplateSpec,
) (capacity.LaunchTemplate, error) {
	_, written, err := c.planTemplate(ctx, spec)
	if err != nil {
		return capacity.LaunchTemplate{}, err
	}

	t := launchTemplate(types.LaunchTemplate{LaunchTemplateName: aws.String(spec.Name)}, written)
	t.Version, t.Tags = "", spec.Tags

	return t, nil
}

// planTemplate returns the request for a spec, and the first version of its template as EC2 will show it: the answer of
// CreateLaunchTemplate does not.
func (c *Client) planTemplate(
	ctx context.Context, spec capacity.LaunchTemplateSpec,
) (data *types.RequestLaunchTemplateData, v types.LaunchTemplateVersion, err error) {
	data, err = c.templateData(ctx, spec)
	if err != nil {
		return data, v, err
	}

	digest, err := digest(data)
	if err != nil {
		return data, v, err
	}

	// EC2 shows the description with the version, and nothing else of ours: the digest in it tells what was asked for.
	about := fmt.Sprintf("pcs-capacity for %s, sha256:%s", cmp.Or(spec.ReservationID, spec.Tags[capacity.TagPartition]),
		digest)
	v = types.LaunchTemplateVersion{
		VersionNumber:      aws.Int64(1),
		VersionDescription: aws.String(about),
		LaunchTemplateData: &types.ResponseLaunchTemplateData{},
	}

	return data, v, copyByName(data, v.LaunchTemplateData)
}

// EnsureLaunchTemplate makes the newest version of the template with the spec's name match the spec: it creates the
// template, adds a version, or does nothing. Versions never change, so the digest in a description identifies the
// wanted one. A template of that name without the cluster tag of the spec is left alone: ErrNotOurs.
func (c *Client) EnsureLaunchTemplate(
	ctx context.Context, spec capacity.LaunchTemplateSpec,
) (t capacity.LaunchTemplate, err error) {
	data, written, err := c.planTemplate(ctx, spec)
	if err != nil {
		return t, err
	}

	there, err := c.LaunchTemplates(ctx, []string{spec.Name})
	if err != nil {
		return t, err
	}

	now, found := there[spec.Name]
	if !found {
		created, err := c.createTemplate(ctx, spec, data, written)
		if !isNameTaken(err) {
			return created, err
		}
		// Somebody was faster, or an earlier run of ours was: names are unique.
		err = c.retryWhile(ctx, isTemplateMissing, func() error {
			now, found, err = c.LaunchTemplate(ctx, spec.Name, "")
			if err == nil && !found {
				err = ErrNotDescribed
			}

			return err
		})
		if err != nil {
			return t, fmt.Errorf("launch template %s exists: %w; run this again", spec.Name, err)
		}
	}

	switch {
	case now.Tags[capacity.TagCluster] != spec.Tags[capacity.TagCluster]:
		return t, fmt.Errorf("launch template %s (%s): %w", now.Name, now.ID, ErrNotOurs)
	case now.Digest == launchTemplate(types.LaunchTemplate{}, written).Digest:
		return now, nil
	}

	return c.addVersion(ctx, now, spec, data, written)
}

// createTemplate leaves the ClientToken to the SDK: the unique name already keeps a second template out, while a token
// made from the spec would, after the template was deleted, give back the deleted one.
func (c *Client) createTemplate(
	ctx context.Context,
	spec capacity.LaunchTemplateSpec,
	data *types.RequestLaunchTemplateData,
	written types.LaunchTemplateVersion,
) (t capacity.LaunchTemplate, err error) {
	out, err := c.api.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(spec.Name),
		LaunchTemplateData: data,
		VersionDescription: written.VersionDescription,
		TagSpecifications:  tagged(spec.Tags, types.ResourceTypeLaunchTemplate),
	})
	if err == nil && out.LaunchTemplate == nil {
		err = ErrNotDescribed
	}

	if err != nil {
		return t, fmt.Errorf("creating launch template %s in %s: %w", spec.Name, c.region, err)
	}

	return c.waitSettled(ctx, launchTemplate(*out.LaunchTemplate, written))
}

// waitSettled returns a template as written, once EC2 shows that version to readers such as PCS, or after settleTime.
func (c *Client) waitSettled(ctx context.Context, t capacity.LaunchTemplate) (capacity.LaunchTemplate, error) {
	err := c.retryWhile(ctx, isTemplateMissing,
		func() error { _, err := c.version(ctx, t.ID+":"+t.Version, 0); return err })
	if err != nil && !isTemplateMissing(err) {
		return capacity.LaunchTemplate{}, err
	}

	return t, nil
}

// addVersion derives the ClientToken from the version that it follows, so that two
// runs at the same time add one version.
func (c *Client) addVersion(
	ctx context.Context,
	now capacity.LaunchTemplate,
	spec capacity.LaunchTemplateSpec,
	data *types.RequestLaunchTemplateData,
	written types.LaunchTemplateVersion,
) (t capacity.LaunchTemplate, err error) {
	// The tag first: if this run stops here, the next one still sees an old digest and adds the version.
	if now.Tags[capacity.TagReservation] != spec.Tags[capacity.TagReservation] {
		if err := c.TagLaunchTemplate(ctx, now.ID, spec.Tags); err != nil {
			return t, err
		}

		now.Tags = maps.Clone(now.Tags)
		maps.Copy(now.Tags, spec.Tags)
	}

	out, err := c.api.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId:   aws.String(now.ID),
		LaunchTemplateData: data,
		VersionDescription: written.VersionDescription,
		// EC2 takes 64 characters.
		ClientToken: aws.String(
			fmt.Sprintf("%s-%s-%.32s", now.ID, now.Version, launchTemplate(types.LaunchTemplate{}, written).Digest),
		),
	})
	if err == nil && out.LaunchTemplateVersion == nil {
		err = ErrNotDescribed
	}

	if err != nil {
		return t, fmt.Errorf("adding a version to launch template %s: %w", now.Name, err)
	}

	// EC2's answer names the version only.
	of := types.LaunchTemplate{
		LaunchTemplateId:   aws.String(now.ID),
		LaunchTemplateName: aws.String(now.Name),
		Tags:               tagList(now.Tags),
	}

	return c.waitSettled(ctx, launchTemplate(of, *out.LaunchTemplateVersion))
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
	if err != nil && !isTemplateMissing(err) {
		return fmt.Errorf("deleting launch template %s: %w", t.Name, err)
	}

	return nil
}

// LaunchTemplatesByTag lists the newest versions of all templates with the tags.
func (c *Client) LaunchTemplatesByTag(ctx context.Context, tags map[string]string) ([]capacity.LaunchTemplate, error) {
	return c.newestVersions(ctx, tagFilters(tags)...)
}

// newestVersions lists templates with their newest versions, which are read side by side.
func (c *Client) newestVersions(
	ctx context.Context, filters ...types.Filter,
) (there []capacity.LaunchTemplate, err error) {
	templates, err := listAll(ctx, c, "describing launch templates", c.api.DescribeLaunchTemplates,
		&ec2.DescribeLaunchTemplatesInput{Filters: filters},
		func(page *ec2.DescribeLaunchTemplatesOutput) []types.LaunchTemplate { return page.LaunchTemplates })
	if err != nil {
		return nil, err
	}

	all := make([]capacity.LaunchTemplate, len(templates))
	reads, readCtx := errgroup.WithContext(ctx)
	reads.SetLimit(templatesAtOnce)

	for i, t := range templates {
		reads.Go(func() error {
			v, err := c.version(readCtx,
				fmt.Sprintf("%s:%d", aws.ToString(t.LaunchTemplateId), aws.ToInt64(t.LatestVersionNumber)), 0)
			if err == nil {
				all[i], err = c.withImage(readCtx, t, v)
			}

			if isTemplateMissing(err) { // deleted since
				return nil
			}

			return err
		})
	}

	err = reads.Wait()
	for _, t := range all {
		if err == nil && t.ID != "" {
			there = append(there, t)
		}
	}

	return there, err
}

// templatesAtOnce keeps well below what EC2 takes of one call: 100 at once, then 20 a second (EC2
// Developer Guide, "Request throttling").
const templatesAtOnce = 10

func launchTemplate(t types.LaunchTemplate, v types.LaunchTemplateVersion) capacity.LaunchTemplate {
	d := v.LaunchTemplateData
	out := capacity.LaunchTemplate{
		ID:               aws.ToString(t.LaunchTemplateId),
		Name:             aws.ToString(t.LaunchTemplateName),
		Version:          versionNumber(v),
		Tags:             tagMap(t.Tags),
		ImageID:          aws.ToString(d.ImageId),
		InstanceType:     string(d.InstanceType),
		KeyName:          aws.ToString(d.KeyName),
		SecurityGroupIDs: slices.Clone(d.SecurityGroupIds),
	}
	out.UserData, _ = base64.StdEncoding.DecodeString(aws.ToString(d.UserData)) // EC2 takes nothing else
	for _, n := range d.NetworkInterfaces {
		out.SecurityGroupIDs = unique(append(out.SecurityGroupIDs, n.Groups...))
		out.NetworkInterfaces = append(out.NetworkInterfaces,
			networkInterface(n.NetworkCardIndex, n.DeviceIndex, n.InterfaceType))
	}

	if c := d.CpuOptions; c != nil {
		out.Cores, out.ThreadsPerCore = int(aws.ToInt32(c.CoreCount)), int(aws.ToInt32(c.ThreadsPerCore))
	}

	if len(d.NetworkInterfaces) == 1 {
		out.PublicAddress = d.NetworkInterfaces[0].AssociatePublicIpAddress
	}

	if p := d.IamInstanceProfile; p != nil {
		out.InstanceProfile = aws.ToString(p.Arn) + aws.ToString(p.Name) // EC2 allows one of them
	}

	if s := d.CapacityReservationSpecification; s != nil {
		out.NoTarget = s.CapacityReservationTarget == nil &&
			s.CapacityReservationPreference != types.CapacityReservationPreferenceNone
		if s.CapacityReservationTarget != nil {
			out.ReservationID = aws.ToString(s.CapacityReservationTarget.CapacityReservationId)
			out.ReservationGroup = aws.ToString(s.CapacityReservationTarget.CapacityReservationResourceGroupArn)
		}
	}

	if p := d.Placement; p != nil {
		out.PlacementGroup = cmp.Or(aws.ToString(p.GroupName), aws.ToString(p.GroupId))
	}

	if m := d.InstanceMarketOptions; m != nil {
		out.Market = string(m.MarketType)
	}

	if m := d.MetadataOptions; m != nil {
		out.MetadataTags = m.InstanceMetadataTags == types.LaunchTemplateInstanceMetadataTagsStateEnabled
		out.TokensRequired = m.HttpTokens == types.LaunchTemplateHttpTokensStateRequired
	}

	if found := digestInDescription.FindStringSubmatch(aws.ToString(v.VersionDescription)); found != nil {
		out.Digest = found[1]
	}

	return out
}

var digestInDescription = regexp.MustCompile(`^pcs-capacity .*sha256:([0-9a-f]{64})`)
