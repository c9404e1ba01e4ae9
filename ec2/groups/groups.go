// Package groups talks to AWS Resource Groups about Capacity Reservation groups: a launch that names a group as its
// target goes into any reservation of the group that has room. No type of the AWS SDK leaves it.
//
// It is apart from package ec2, whose callers include the programs that Slurm runs: they link no SDK for groups.
package groups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroups"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroups/types"
	"github.com/aws/smithy-go"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Client talks to Resource Groups in one region.
type Client struct{ api *resourcegroups.Client }

// From makes a client that shares credentials and deadlines with the clients of other services.
func From(shared *awsconfig.Shared) *Client {
	return &Client{resourcegroups.NewFromConfig(shared.Config, func(o *resourcegroups.Options) {
		o.APIOptions = append(o.APIOptions, awsconfig.Advise(remedies))
	})}
}

// remedies say what to do about the errors of Resource Groups that need a person.
var remedies = awsconfig.Remedies(nil, "the caller's policy does not allow the call", awsconfig.Allow,
	"AccessDeniedException", "ForbiddenException")

// errNotDescribed is an answer without the thing asked for; perhaps it does not come from AWS.
var errNotDescribed = errors.New("AWS left it out of its answer")

// IsNotFound reports whether an error says that there is no such group.
func IsNotFound(err error) bool { return awsconfig.Code(err) == "NotFoundException" }

// Find reads a group with its tags.
func (c *Client) Find(ctx context.Context, name string) (group capacity.ReservationGroup, found bool, err error) {
	fail := func(err error) (capacity.ReservationGroup, bool, error) {
		if IsNotFound(err) {
			return capacity.ReservationGroup{}, false, nil
		}
		return capacity.ReservationGroup{}, false, fmt.Errorf("reading the capacity reservation group %s: %w", name, err)
	}

	out, err := c.api.GetGroup(ctx, &resourcegroups.GetGroupInput{Group: &name})
	if err != nil {
		return fail(err)
	}

	group, err = newGroup(out.Group, nil)
	if err != nil {
		return fail(err)
	}

	tags, err := c.api.GetTags(ctx, &resourcegroups.GetTagsInput{Arn: &group.ARN})
	if err != nil {
		return fail(err)
	}

	group.Tags = tags.Tags

	return group, true, nil
}

// Create makes an empty group that launches can target. A name has letters, digits and "._-", begins not with
// "aws", and is the only one of its region and account: AWS refuses one that exists.
func (c *Client) Create(ctx context.Context, name string, tags map[string]string) (capacity.ReservationGroup, error) {
	// What a group for launches needs: EC2 User Guide, "Create a Capacity Reservation group".
	configuration := []types.GroupConfigurationItem{
		{Type: aws.String("AWS::EC2::CapacityReservationPool")},
		{
			Type: aws.String("AWS::ResourceGroups::Generic"),
			Parameters: []types.GroupConfigurationParameter{{
				Name:   aws.String("allowed-resource-types"),
				Values: []string{"AWS::EC2::CapacityReservation"},
			}},
		},
	}

	out, err := c.api.CreateGroup(ctx, &resourcegroups.CreateGroupInput{
		Name:          &name,
		Configuration: configuration,
		Tags:          maps.Clone(tags),
	})

	var group capacity.ReservationGroup
	if err == nil {
		group, err = newGroup(out.Group, out.Tags)
	}

	if err != nil {
		return capacity.ReservationGroup{}, fmt.Errorf("creating the capacity reservation group %s: %w", name, err)
	}

	return group, nil
}

func newGroup(g *types.Group, tags map[string]string) (capacity.ReservationGroup, error) {
	if g == nil || aws.ToString(g.GroupArn) == "" {
		return capacity.ReservationGroup{}, errNotDescribed
	}
	return capacity.ReservationGroup{Name: aws.ToString(g.Name), ARN: *g.GroupArn, Tags: tags}, nil
}

// Members returns the ids of the reservations in a group. One whose addition is pending is no member yet. The
// reservations of a group may be over: EC2 does not say when it removes one that was cancelled.
func (c *Client) Members(ctx context.Context, name string) (reservationIDs []string, err error) {
	pages := resourcegroups.NewListGroupResourcesPaginator(c.api,
		&resourcegroups.ListGroupResourcesInput{Group: &name})

	return awsconfig.All(ctx, "listing the capacity reservation group "+name, pages,
		func(page *resourcegroups.ListGroupResourcesOutput) (ids []string) {
			for _, r := range page.Resources {
				if r.Identifier == nil || r.Status != nil && r.Status.Name == types.ResourceStatusValuePending {
					continue
				}

				// arn:aws:ec2:REGION:ACCOUNT:capacity-reservation/ID
				_, id, is := strings.Cut(aws.ToString(r.Identifier.ResourceArn), ":capacity-reservation/")
				if is {
					ids = append(ids, id)
				}
			}

			return ids
		})
}

// maxAdded is the most ARNs that GroupResources takes.
const maxAdded = 10

// Add puts reservations into a group, by their ARNs; one that is a member already stays. An error names those that were
// refused, such as one that is not active yet; the others are added. AWS may add one later (Pending): it is no error,
// and Members shows it once it is done.
//
// A new member does not keep all its room for the next launch. Instances that were launched into the group and now run
// outside a reservation, because theirs was cancelled, move into the new one by themselves if type and zone fit: EC2
// User Guide, "Instance lifecycle in a group".
func (c *Client) Add(ctx context.Context, name string, reservationARNs []string) error {
	var refused error
	for arns := range slices.Chunk(reservationARNs, maxAdded) {
		out, err := c.api.GroupResources(ctx, &resourcegroups.GroupResourcesInput{Group: &name, ResourceArns: arns})
		if err != nil {
			return errors.Join(refused, fmt.Errorf("adding to the capacity reservation group %s: %w", name, err))
		}

		for _, f := range out.Failed {
			err := &smithy.GenericAPIError{Code: aws.ToString(f.ErrorCode), Message: aws.ToString(f.ErrorMessage)}
			refused = errors.Join(refused, fmt.Errorf("adding %s to the capacity reservation group %s: %w",
				aws.ToString(f.ResourceArn), name, err))
		}
	}

	return refused
}

// Delete deletes a group; its reservations stay. One that does not exist is no error.
func (c *Client) Delete(ctx context.Context, name string) error {
	_, err := c.api.DeleteGroup(ctx, &resourcegroups.DeleteGroupInput{Group: &name})
	if err != nil && !IsNotFound(err) {
		return fmt.Errorf("deleting the capacity reservation group %s: %w", name, err)
	}

	return nil
}
