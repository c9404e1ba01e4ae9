package ec2

import (
	"cmp"
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Launch starts instances with one RunInstances call. The network interfaces of a template, if it
// has any, are sent along, each in the subnet. capacity.OutcomeOf reads the outcome from an error.
func (c *Client) Launch(ctx context.Context, l capacity.Launch) ([]capacity.Instance, error) {
	in, err := c.launchInput(ctx, l)
	if err != nil {
		return nil, err
	}
	var out *ec2.RunInstancesOutput
	err = c.againWhile(ctx, func(err error) bool { return l.Fresh && notYet(err) }, func() (err error) {
		out, err = c.api.RunInstances(ctx, in)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("launching %d × %s in %s: %w", l.Count, l.InstanceType, c.region, withOutcome(err))
	}
	return c.register(out.Instances), nil
}

// register notes when the instances were launched: EC2 may not show them yet.
func (c *Client) register(started []types.Instance) []capacity.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	var launched []capacity.Instance
	for _, a := range started {
		launched = append(launched, instance(a))
		c.launched[aws.ToString(a.InstanceId)] = c.Now()
	}
	return launched
}

func (c *Client) launchInput(ctx context.Context, l capacity.Launch) (*ec2.RunInstancesInput, error) {
	template, err := c.launchable(ctx, l.LaunchTemplate)
	if err != nil {
		return nil, err
	}
	in := &ec2.RunInstancesInput{
		MinCount:                         aws.Int32(int32(cmp.Or(l.Least, l.Count))),
		MaxCount:                         aws.Int32(int32(l.Count)),
		ClientToken:                      aws.String(l.ClientToken),
		LaunchTemplate:                   templateReference(template.pinned),
		InstanceType:                     types.InstanceType(l.InstanceType),
		CapacityReservationSpecification: target(l.Kind, l.ReservationID),
		TagSpecifications:                tagged(l.Tags, types.ResourceTypeInstance, types.ResourceTypeVolume),
	}
	if len(template.interfaces) == 0 {
		in.SubnetId = aws.String(l.SubnetID)
	} else if in.NetworkInterfaces, err = interfacesIn(l.SubnetID, template.interfaces); err != nil {
		return nil, fmt.Errorf("copying the network interfaces of launch template %s: %w", l.LaunchTemplate, err)
	}
	if l.PlacementGroup != "" {
		in.Placement = &types.Placement{GroupName: aws.String(l.PlacementGroup)}
	}
	if market := types.MarketType(l.Kind.Market()); market != "" {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: market}
	}
	return in, nil
}

// target sends a launch to a reservation. Without one it keeps the launch out of all
// reservations: by EC2's default it would use up anybody's open ODCR.
func target(kind capacity.Kind, reservationID string) *types.CapacityReservationSpecification {
	if !kind.Reserved() || reservationID == "" {
		return &types.CapacityReservationSpecification{CapacityReservationPreference: types.CapacityReservationPreferenceNone}
	}
	return &types.CapacityReservationSpecification{
		CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &types.CapacityReservationTarget{CapacityReservationId: aws.String(reservationID)},
	}
}
