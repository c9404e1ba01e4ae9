package ec2

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// dry calls the reads of EC2 with DryRun, by the action that IAM asks for.
var dry = map[string]func(*api, context.Context) error{
	"ec2:DescribeCapacityBlockStatus": func(api *api, ctx context.Context) error {
		_, err := api.DescribeCapacityBlockStatus(ctx, &ec2.DescribeCapacityBlockStatusInput{DryRun: aws.Bool(true)})
		return err
	},
	"ec2:DescribeCapacityBlocks": func(api *api, ctx context.Context) error {
		_, err := api.DescribeCapacityBlocks(ctx, &ec2.DescribeCapacityBlocksInput{DryRun: aws.Bool(true)})
		return err
	},
	"ec2:DescribeCapacityReservations": func(api *api, ctx context.Context) error {
		_, err := api.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{DryRun: aws.Bool(true)})
		return err
	},
	"ec2:DescribeImages": func(api *api, ctx context.Context) error {
		_, err := api.DescribeImages(ctx, &ec2.DescribeImagesInput{DryRun: aws.Bool(true), Owners: []string{"self"}})
		return err
	},
	"ec2:DescribeInstances": func(api *api, ctx context.Context) error {
		_, err := api.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: aws.Bool(true)})
		return err
	},
	"ec2:DescribeLaunchTemplateVersions": func(api *api, ctx context.Context) error {
		_, err := api.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{DryRun: aws.Bool(true), Versions: []string{newest}})
		return err
	},
	"ec2:DescribeLaunchTemplates": func(api *api, ctx context.Context) error {
		_, err := api.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{DryRun: aws.Bool(true)})
		return err
	},
	"ec2:DescribeSubnets": func(api *api, ctx context.Context) error {
		_, err := api.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{DryRun: aws.Bool(true)})
		return err
	},
}

// Reads are the actions that TryRead knows.
var Reads = slices.Sorted(maps.Keys(dry))

// TryRead asks EC2 whether the caller may call one of Reads, and reads nothing: nil means yes.
func (c *Client) TryRead(ctx context.Context, action string) error {
	return tried(dry[action](c.api, ctx), "asking for "+action)
}

// TryTerminate asks EC2 whether the caller may end an instance, and ends nothing.
func (c *Client) TryTerminate(ctx context.Context, id string) error {
	_, err := c.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}, DryRun: aws.Bool(true)})
	return tried(err, "asking to terminate "+id)
}

// DeniedAction is the action of EC2 or PCS that the caller has no permission for; "" if err is
// something else.
func DeniedAction(err error) string {
	var d *awsconfig.Denied
	if errors.As(err, &d) {
		return d.Action
	}
	return ""
}

// DeniedCaller is the caller of a denied call, as AWS names it; "" if it does not.
func DeniedCaller(err error) string {
	var d *awsconfig.Denied
	if errors.As(err, &d) {
		return d.Caller
	}
	return ""
}
