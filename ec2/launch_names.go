package ec2

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Things that a launch template names, and that EC2 looks up only at a launch.

// Image holds the facts about an AMI that a launch depends on.
type Image struct {
	ID, Name string
	// Owner is an account, or EC2's alias of one, such as amazon.
	Owner string
	// Created and Deprecated are dates; Deprecated is "" for an image that EC2 goes on to offer.
	Created, Deprecated string
	Description         string
	// Says is its name, its description and its tags in this account, in lower case.
	Says string
	// Source is the id of the image that it was made from; "" where EC2 does not know.
	Source string
	// Platform is in the words of a reservation ("Linux/UNIX"); "" if these have none for it.
	Platform string
	// Architecture is x86_64 or arm64.
	Architecture string
}

// Image describes an AMI. One that does not exist is an error with EC2's code
// InvalidAMIID.NotFound.
func (c *Client) Image(ctx context.Context, id string) (Image, error) {
	if isParameter(id) {
		return Image{}, fmt.Errorf("image %s: EC2 resolves that in launch templates only; name the AMI, which `aws ssm get-parameter --name %s` shows", id, strings.TrimPrefix(id, parameterPrefix))
	}
	out, err := c.api.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}, IncludeDeprecated: aws.Bool(true)})
	if err == nil && len(out.Images) == 0 {
		err = ErrNotDescribed
	}
	if err != nil {
		return Image{}, fmt.Errorf("describing image %s in %s: %w", id, c.region, err)
	}
	image := out.Images[0]
	found := Image{
		ID: id, Name: aws.ToString(image.Name), Description: aws.ToString(image.Description), Owner: cmp.Or(aws.ToString(image.ImageOwnerAlias), aws.ToString(image.OwnerId)),
		Created: dateOf(image.CreationDate), Deprecated: dateOf(image.DeprecationTime), Source: aws.ToString(image.SourceImageId),
		Platform: reservationPlatform(aws.ToString(image.PlatformDetails)), Architecture: string(image.Architecture),
	}
	says := []string{found.Name, found.Description}
	for _, t := range image.Tags {
		says = append(says, aws.ToString(t.Key), aws.ToString(t.Value))
	}
	found.Says = strings.ToLower(strings.Join(says, " "))
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

// dateOf is the date in a time as EC2 writes it.
func dateOf(written *string) string {
	date, _, _ := strings.Cut(aws.ToString(written), "T")
	return date
}

// SecurityGroups describes the existing ones among ids, by id.
func (c *Client) SecurityGroups(ctx context.Context, ids []string) (map[string]SecurityGroup, error) {
	found := map[string]SecurityGroup{}
	if len(unique(ids)) == 0 {
		return found, nil
	}
	// A filter, since one unknown id would make EC2 refuse the whole call.
	in := &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("group-id", unique(ids)...)}}
	for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeSecurityGroups, in)) {
		if err != nil {
			return nil, fmt.Errorf("describing security groups in %s: %w", c.region, err)
		}
		for _, g := range page.SecurityGroups {
			id := aws.ToString(g.GroupId)
			found[id] = SecurityGroup{id, aws.ToString(g.VpcId), append(rules(g.IpPermissions, false), rules(g.IpPermissionsEgress, true)...)}
		}
	}
	return found, nil
}

// HasKeyPair reports whether there is a key pair of that name.
func (c *Client) HasKeyPair(ctx context.Context, name string) (bool, error) {
	_, err := c.api.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{KeyNames: []string{name}})
	if Code(err) == "InvalidKeyPair.NotFound" {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("describing key pair %s in %s: %w", name, c.region, err)
	}
	return true, nil
}

// HasPlacementGroup reports whether this account has a placement group of that name.
func (c *Client) HasPlacementGroup(ctx context.Context, name string) (bool, error) {
	_, err := c.api.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{GroupNames: []string{name}})
	if Code(err) == "InvalidPlacementGroup.Unknown" {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("describing placement group %s in %s: %w", name, c.region, err)
	}
	return true, nil
}
