package ec2

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Launch starts instances with one RunInstances call, which is sent once: the caller keeps the account's limit. The
// network interfaces of a template, if it has any, are sent along, each in the subnet. The error has the outcome: see
// Outcome.
func (c *Client) Launch(ctx context.Context, l capacity.Launch) ([]capacity.Instance, error) {
	in, err := c.launchInput(ctx, l)
	if err != nil {
		return nil, err
	}

	var out *ec2.RunInstancesOutput

	err = c.retryWhile(ctx, func(err error) bool { return l.Fresh && isMaybeTooNew(err) }, func() (err error) {
		out, err = c.api.RunInstances(ctx, in, sendOnce)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("launching %d × %s in %s: %w", l.Count, l.InstanceType, c.region,
			withOutcome(err, elsewhereCodes...))
	}

	var launched []capacity.Instance
	for _, a := range out.Instances {
		launched = append(launched, instance(a))
	}

	return launched, nil
}

func (c *Client) launchInput(ctx context.Context, l capacity.Launch) (*ec2.RunInstancesInput, error) {
	template, pin, err := c.resolveTemplate(ctx, l.LaunchTemplate)
	if err != nil {
		return nil, err
	}

	in := &ec2.RunInstancesInput{
		MinCount:          aws.Int32(int32(l.Count)),
		MaxCount:          aws.Int32(int32(l.Count)),
		ClientToken:       aws.String(l.ClientToken),
		LaunchTemplate:    templateReference(pin),
		InstanceType:      types.InstanceType(l.InstanceType),
		TagSpecifications: tagged(l.Tags, types.ResourceTypeInstance, types.ResourceTypeVolume),
	}
	if template.LaunchTemplateData != nil {
		if err := copyByName(template.LaunchTemplateData.NetworkInterfaces, &in.NetworkInterfaces); err != nil {
			return nil, fmt.Errorf("copying the network interfaces of launch template %s: %w", l.LaunchTemplate, err)
		}
	}

	if setSubnet(in.NetworkInterfaces, l.SubnetID); len(in.NetworkInterfaces) == 0 {
		in.SubnetId = aws.String(l.SubnetID)
	}

	setTarget(in, l)

	return in, nil
}

// setTarget sends a launch to its reservation, market and placement group. A launch on demand keeps the group of
// reservations that it has from a launch template.
func setTarget(in *ec2.RunInstancesInput, l capacity.Launch) {
	target := in.CapacityReservationSpecification
	keeps := target != nil && target.CapacityReservationTarget != nil &&
		target.CapacityReservationTarget.CapacityReservationResourceGroupArn != nil && !l.Kind.IsReserved()
	if !keeps {
		in.CapacityReservationSpecification = reservationTarget(l.Kind, l.ReservationID)
	}

	in.InstanceMarketOptions = nil
	if market := types.MarketType(l.Kind.Market()); market != "" {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: market}
	}

	if l.PlacementGroup != "" {
		in.Placement = &types.Placement{GroupName: aws.String(l.PlacementGroup)}
	}
}

// reservationTarget sends a launch to a reservation. Without one it keeps the launch out of all
// reservations: by EC2's default it would use up anybody's open ODCR.
func reservationTarget(kind capacity.Kind, reservationID string) *types.CapacityReservationSpecification {
	if !kind.IsReserved() || reservationID == "" {
		return &types.CapacityReservationSpecification{
			CapacityReservationPreference: types.CapacityReservationPreferenceNone,
		}
	}

	return &types.CapacityReservationSpecification{
		CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget: &types.CapacityReservationTarget{
			CapacityReservationId: aws.String(reservationID),
		},
	}
}

// New things may not show at once in later calls: EC2 Developer Guide, "Eventual consistency". So
// nothing relies on a read right after a create, and "not found" is not believed at once.
//
// settleTime must pass before "not found" is believed; nearly everything shows within seconds.
const settleTime = 15 * time.Second

// retryWhile repeats a call, with growing pauses, while its error means "not found", for settleTime
// and as long as ctx allows. It returns the last error.
func (c *Client) retryWhile(ctx context.Context, absent func(error) bool, call func() error) error {
	began := time.Now()
	for pause := c.shared.settle / 64; ; pause *= 2 {
		err := call()
		if err == nil || !absent(err) || time.Since(began)+pause > c.shared.settle {
			return err
		}

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// pinTime bounds how long the version of $Default or $Latest is remembered: all launches of one power-up share it.
const pinTime = time.Minute

// PinTemplate returns the version, as ID:NUMBER, that ID[:VERSION] or NAME[:VERSION] means now; without a version it is
// the template's default one. A launch and its repetition are the same only with the same version. A caller without the
// permission ec2:DescribeLaunchTemplateVersions gets back what was given.
func (c *Client) PinTemplate(ctx context.Context, reference string) (string, error) {
	_, pin, err := c.resolveTemplate(ctx, reference)
	return pin, err
}

// resolveTemplate returns the version of a launch template that is launched from, and its ID:NUMBER. A caller who may
// not read it gets no version, and what was given.
func (c *Client) resolveTemplate(
	ctx context.Context, reference string,
) (v types.LaunchTemplateVersion, pin string, err error) {
	c.pinning.Lock() // concurrent launches of one power-up ask once
	defer c.pinning.Unlock()

	v, err = c.version(ctx, reference, pinTime)
	switch {
	case isDenied(err):
		c.addWithheld(err, "EC2 does not say which version launch template "+reference+" has, nor its network interfaces")
		return types.LaunchTemplateVersion{}, reference, nil
	case err != nil:
		return v, "", err
	}

	return v, pinnedRef(v), nil
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

// setSubnet puts new network interfaces into a subnet: EC2 refuses a subnet together with interfaces
// (InvalidParameterCombination), from the call or the template.
func setSubnet(interfaces []types.InstanceNetworkInterfaceSpecification, subnetID string) {
	for i := range interfaces {
		if interfaces[i].NetworkInterfaceId == nil { // one that exists is in its subnet
			interfaces[i].SubnetId = aws.String(subnetID)
		}
	}
}
