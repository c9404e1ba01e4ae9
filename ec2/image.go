package ec2

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Things that a launch template names, and that EC2 looks up only at a launch.

// Image holds the facts about an AMI that a launch depends on.
type Image struct {
	ID, Name string
	Owner    string // an account, or EC2's alias of one, such as amazon
	// Created and Deprecated are dates; Deprecated is "" for an image that EC2 goes on to offer.
	Created, Deprecated string
	Description         string
	Keywords            string // its name, its description and its tags in this account, in lower case
	Platform            string // in the words of a reservation ("Linux/UNIX"); "" if these have none for it
}

// Image describes an AMI. One that does not exist is an error with EC2's code InvalidAMIID.NotFound.
func (c *Client) Image(ctx context.Context, id string) (Image, error) {
	if isParameter(id) {
		return Image{}, fmt.Errorf(
			"image %s: EC2 resolves that in launch templates only; name the AMI, which `aws ssm get-parameter --name "+
				"%s` shows",
			id,
			strings.TrimPrefix(id, parameterPrefix),
		)
	}

	out, err := c.api.DescribeImages(ctx,
		&ec2.DescribeImagesInput{ImageIds: []string{id}, IncludeDeprecated: aws.Bool(true)})
	if err == nil && len(out.Images) == 0 {
		err = ErrNotDescribed
	}

	if err != nil {
		return Image{}, fmt.Errorf("describing image %s in %s: %w", id, c.region, err)
	}

	image := out.Images[0]
	found := Image{
		ID:          id,
		Name:        aws.ToString(image.Name),
		Description: aws.ToString(image.Description),
		Owner:       cmp.Or(aws.ToString(image.ImageOwnerAlias), aws.ToString(image.OwnerId)),
		Created:     dateIn(image.CreationDate),
		Deprecated:  dateIn(image.DeprecationTime),
		Platform:    reservationPlatform(aws.ToString(image.PlatformDetails)),
	}
	says := []string{found.Name, found.Description}
	for _, t := range image.Tags {
		says = append(says, aws.ToString(t.Key), aws.ToString(t.Value))
	}

	found.Keywords = strings.ToLower(strings.Join(says, " "))

	return found, nil
}

// String says what the image is: "NAME of OWNER, created 2026-05-22, deprecated as of 2028-05-22".
func (i Image) String() string {
	text := i.Name + " of " + i.Owner + ", created " + i.Created
	if i.Deprecated != "" {
		text += ", deprecated as of " + i.Deprecated
	}

	return text
}

// dateIn returns the date of a time as EC2 writes it.
func dateIn(written *string) string {
	date, _, _ := strings.Cut(aws.ToString(written), "T")
	return date
}

// SecurityGroups returns the rules of the existing ones among ids, by id.
func (c *Client) SecurityGroups(ctx context.Context, ids []string) (map[string][]Rule, error) {
	found := map[string][]Rule{}
	if len(unique(ids)) == 0 {
		return found, nil
	}
	// A filter, since one unknown id would make EC2 refuse the whole call.
	groups, err := listAll(ctx, c, "describing security groups", c.api.DescribeSecurityGroups,
		&ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("group-id", unique(ids)...)}},
		func(page *ec2.DescribeSecurityGroupsOutput) []types.SecurityGroup { return page.SecurityGroups })
	if err != nil {
		return nil, err
	}

	for _, g := range groups {
		found[aws.ToString(g.GroupId)] = append(rules(g.IpPermissions, false), rules(g.IpPermissionsEgress, true)...)
	}

	return found, nil
}

// reservationPlatforms maps the platform of an AMI to the platform of a reservation where EC2's
// names differ: EC2 User Guide, "AMI billing information fields"; EC2 API Reference,
// CreateCapacityReservation. EC2 has none for "Windows BYOL".
var reservationPlatforms = map[string]string{
	"Red Hat BYOL Linux":               "Linux/UNIX", // the licence is not EC2's
	"Red Hat Enterprise Linux with HA": "RHEL with HA",

	"Red Hat Enterprise Linux with SQL Server Standard":          "RHEL with SQL Server Standard",
	"Red Hat Enterprise Linux with SQL Server Enterprise":        "RHEL with SQL Server Enterprise",
	"Red Hat Enterprise Linux with SQL Server Web":               "RHEL with SQL Server Web",
	"Red Hat Enterprise Linux with SQL Server Standard and HA":   "RHEL with HA and SQL Server Standard",
	"Red Hat Enterprise Linux with SQL Server Enterprise and HA": "RHEL with HA and SQL Server Enterprise",

	"SQL Server Standard":   "Linux with SQL Server Standard",
	"SQL Server Enterprise": "Linux with SQL Server Enterprise",
	"SQL Server Web":        "Linux with SQL Server Web",
}

// reservationPlatform returns the platform of an AMI under EC2's name for reservations, mostly the same. It is "" for
// names that no reservation has in this version of the SDK: nobody knows which reservations would take such an image.
func reservationPlatform(details string) string {
	if name, ok := reservationPlatforms[details]; ok {
		return name
	}

	if !slices.Contains(types.CapacityReservationInstancePlatform("").Values(),
		types.CapacityReservationInstancePlatform(details)) {
		return ""
	}

	return details
}

// ImagePlatform returns the platform of the image of a launch template, ID[:VERSION] or NAME[:VERSION], and the version
// that this means now. Without permission, or without an image in the template, the platform is unknown and there is no
// error. A missing image is an error with EC2's code InvalidAMIID.NotFound; the version is returned even then.
func (c *Client) ImagePlatform(ctx context.Context, template string) (capacity.ImagePlatform, error) {
	t, pin, err := c.resolveTemplate(ctx, template)
	found := capacity.ImagePlatform{Template: pin}
	if err != nil || t.LaunchTemplateData == nil { // that is told
		return found, err
	}

	image := aws.ToString(t.LaunchTemplateData.ImageId)
	if isParameter(image) {
		image, err = c.resolvedImage(ctx, t)
	}

	if err == nil && image != "" {
		found.Platform, err = c.platform(ctx, image)
	}

	if isDenied(err) {
		c.addWithheld(err, "EC2 does not say what the image of launch template "+template+" runs")
		return found, nil
	}

	if err != nil {
		return found, fmt.Errorf("reading what launch template %s runs: %w", template, err)
	}

	return found, nil
}

// platform returns the platform of an AMI, which never changes.
func (c *Client) platform(ctx context.Context, image string) (string, error) {
	if known, ok := c.platforms.get(image); ok {
		return known, nil
	}

	described, err := c.Image(ctx, image)
	if err == nil {
		c.platforms.put(image, described.Platform)
	}

	return described.Platform, err
}
