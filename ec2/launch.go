package ec2

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// LaunchRequest is one launch, which succeeds whole or not at all.
type LaunchRequest struct {
	// ClientToken makes a repetition of the request the same launch; at most 64
	// characters. It is bound to the request: see TokenUsed.
	ClientToken string
	// LaunchTemplate is an id or a name, with ":VERSION" for one that is not the
	// template's default version.
	LaunchTemplate string
	InstanceType   string
	SubnetID       string
	// ReservationID is where the instances go; "" with Kind OnDemand.
	ReservationID string
	Kind          capacity.Kind
	// Count is the number of instances.
	Count int
	// Tags are written on the instances and their volumes.
	Tags map[string]string
}

// Launch starts instances with one RunInstances call that asks for exactly Count. A
// template that has network interfaces is launched with those, each in the subnet.
// Codes to expect: InsufficientInstanceCapacity, ReservationCapacityExceeded,
// InvalidCapacityReservationState.PendingActivation.
func (c *Client) Launch(ctx context.Context, r LaunchRequest) ([]Instance, error) {
	template, err := c.launchable(ctx, r.LaunchTemplate)
	if err != nil {
		return nil, err
	}
	in := &ec2.RunInstancesInput{
		MinCount:                         aws.Int32(int32(r.Count)),
		MaxCount:                         aws.Int32(int32(r.Count)),
		ClientToken:                      aws.String(r.ClientToken),
		LaunchTemplate:                   templateReference(template.pinned),
		InstanceType:                     types.InstanceType(r.InstanceType),
		CapacityReservationSpecification: target(r.Kind, r.ReservationID),
		TagSpecifications:                tagged(r.Tags, types.ResourceTypeInstance, types.ResourceTypeVolume),
	}
	if len(template.interfaces) == 0 {
		in.SubnetId = aws.String(r.SubnetID)
	} else if in.NetworkInterfaces, err = interfacesIn(r.SubnetID, template.interfaces); err != nil {
		return nil, fmt.Errorf("copying the network interfaces of launch template %s: %w", r.LaunchTemplate, err)
	}
	if market := marketType(r.Kind); market != "" {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: market}
	}
	out, err := c.api.RunInstances(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("launching %d × %s in %s: %w", r.Count, r.InstanceType, c.region, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var launched []Instance
	for _, a := range out.Instances {
		launched = append(launched, instance(a))
		c.launched[aws.ToString(a.InstanceId)] = c.Now()
	}
	return launched, nil
}

// target sends a launch to a reservation. Without one it keeps the launch out of all
// reservations: by EC2's default it would use up anybody's open ODCR.
func target(kind capacity.Kind, reservationID string) *types.CapacityReservationSpecification {
	if kind == capacity.OnDemand || reservationID == "" {
		return &types.CapacityReservationSpecification{CapacityReservationPreference: types.CapacityReservationPreferenceNone}
	}
	return &types.CapacityReservationSpecification{
		CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: aws.String(reservationID)},
	}
}

// marketType is the purchasing option that EC2 demands beside the target; none for an
// ODCR, for which EC2 refuses one.
func marketType(kind capacity.Kind) types.MarketType {
	switch kind {
	case capacity.CapacityBlock:
		return types.MarketTypeCapacityBlock
	case capacity.InterruptibleODCR:
		return types.MarketTypeInterruptibleCapacityReservation
	}
	return ""
}

// TokenUsed reports whether EC2 refused a launch for its ClientToken alone: the instances
// of the launch that used it have terminated, or that launch asked for something else. A
// failed launch binds its token too. Another token is needed.
func TokenUsed(err error) bool {
	code := Code(err)
	return code == "IdempotentInstanceTerminated" || code == "IdempotentParameterMismatch"
}
