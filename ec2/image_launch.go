package ec2

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// LaunchImage starts instances of an image without a launch template, in the VPC's default security
// group. An instance that shuts down is terminated. capacity.OutcomeOf reads the outcome from an error.
func (c *Client) LaunchImage(ctx context.Context, l capacity.Launch, imageID, userData string) ([]capacity.Instance, error) {
	in := imageInput(l, imageID)
	in.InstanceInitiatedShutdownBehavior = types.ShutdownBehaviorTerminate
	in.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(userData)))
	in.SubnetId = aws.String(l.SubnetID)
	out, err := c.api.RunInstances(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("launching %d × %s in %s: %w", l.Count, l.InstanceType, c.region, withOutcome(err))
	}
	return c.register(out.Instances), nil
}

// TryInterfaces asks EC2 by DryRun for a launch on demand with every network interface of the type,
// as setup would write them, and returns how many there are.
func (c *Client) TryInterfaces(ctx context.Context, l capacity.Launch, imageID string) (int, error) {
	found, err := c.InstanceTypes(ctx, []string{l.InstanceType})
	if err != nil {
		return 0, err
	}
	t, ok := found[l.InstanceType]
	if !ok {
		return 0, fmt.Errorf("EC2 has no instance type %s in %s", l.InstanceType, c.region)
	}
	planned, err := networkInterfaces(t, capacity.EFAOnly, l.SubnetID, nil)
	if err != nil {
		return 0, err
	}
	in := imageInput(l, imageID)
	if err := copyByName(planned, &in.NetworkInterfaces); err != nil {
		return 0, err
	}
	in.DryRun = aws.Bool(true)
	_, err = c.api.RunInstances(ctx, in)
	return len(planned), tried(err, fmt.Sprintf("asking to launch %s with %d network interfaces in %s", l.InstanceType, len(planned), c.region))
}

func imageInput(l capacity.Launch, imageID string) *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		MinCount:                         aws.Int32(int32(l.Count)),
		MaxCount:                         aws.Int32(int32(l.Count)),
		ClientToken:                      aws.String(l.ClientToken),
		ImageId:                          aws.String(imageID),
		InstanceType:                     types.InstanceType(l.InstanceType),
		CapacityReservationSpecification: target(l.Kind, l.ReservationID),
		TagSpecifications:                tagged(l.Tags, types.ResourceTypeInstance, types.ResourceTypeVolume),
	}
}

// Terminated reports whether EC2 shows every one of the instances as terminated; what it does not
// show may be too new.
func (c *Client) Terminated(ctx context.Context, ids []string) (bool, error) {
	found := 0
	in := &ec2.DescribeInstancesInput{Filters: []types.Filter{filter("instance-id", ids...), filter("instance-state-name", "terminated")}}
	for pages := ec2.NewDescribeInstancesPaginator(c.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return false, fmt.Errorf("describing instances in %s: %w", c.region, err)
		}
		for _, launch := range page.Reservations {
			found += len(launch.Instances)
		}
	}
	return found == len(ids), nil
}
