package ec2

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Hold makes an On-Demand Capacity Reservation (ODCR), which costs money from then on. It is always
// targeted and has an end, a ClientToken and tags (R4); an order that lacks one is an error.
// capacity.OutcomeOf reads the outcome from an error.
func (c *Client) Hold(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error) {
	tags := maps.Clone(o.Tags)
	tags[capacity.TagToken] = o.ClientToken
	r, err := c.createODCR(ctx, &ec2.CreateCapacityReservationInput{
		ClientToken:        aws.String(o.ClientToken),
		InstanceType:       aws.String(o.InstanceType),
		InstancePlatform:   types.CapacityReservationInstancePlatform(o.Platform),
		InstanceCount:      aws.Int32(int32(o.Count)),
		AvailabilityZoneId: aws.String(o.AZID),
		EndDate:            aws.Time(o.End),
	}, capacity.TagHold, tags)
	if err != nil {
		return capacity.Reservation{}, fmt.Errorf("holding %d × %s in %s: %w", o.Count, o.InstanceType, o.AZID, withOutcome(err, noHold...))
	}
	return r, nil
}

// createODCR makes an ODCR for launches that name it. Nothing is sent without a ClientToken, an
// end, and our tags, of which mark holds the purpose.
func (c *Client) createODCR(ctx context.Context, in *ec2.CreateCapacityReservationInput, mark string, tags map[string]string, options ...func(*ec2.Options)) (capacity.Reservation, error) {
	if aws.ToString(in.ClientToken) == "" || aws.ToTime(in.EndDate).IsZero() || tags[capacity.TagCluster] == "" || tags[mark] == "" {
		return capacity.Reservation{}, fmt.Errorf("%w: the order has no token, end or mark of ours", ErrNotSent)
	}
	in.Tenancy = types.CapacityReservationTenancyDefault
	in.InstanceMatchCriteria = types.InstanceMatchCriteriaTargeted
	in.EndDateType = types.EndDateTypeLimited
	in.TagSpecifications = tagged(tags, types.ResourceTypeCapacityReservation)
	out, err := c.api.CreateCapacityReservation(ctx, in, options...)
	switch {
	case err != nil:
		return capacity.Reservation{}, err
	case out.CapacityReservation == nil:
		return capacity.Reservation{}, ErrNotDescribed
	}
	return c.reservation(*out.CapacityReservation), nil
}

// Release cancels an ODCR; its instances go on. An ODCR that has ended is no error. For one that
// EC2 does not know, Release asks again for a while: it may be new.
func (c *Client) Release(ctx context.Context, id string) error {
	err := c.againWhile(ctx, noReservation, func() error {
		_, err := c.api.CancelCapacityReservation(ctx, &ec2.CancelCapacityReservationInput{CapacityReservationId: aws.String(id)})
		return err
	})
	if err != nil && Code(err) != "InvalidCapacityReservationState" {
		return fmt.Errorf("cancelling %s in %s: %w", id, c.region, err)
	}
	return nil
}

// Holds lists the ODCRs that we made for a cluster, by its mark, and that may still cost money.
func (c *Client) Holds(ctx context.Context, cluster string) ([]capacity.Reservation, error) {
	held, err := c.describeReservations(ctx, &ec2.DescribeCapacityReservationsInput{MaxResults: aws.Int32(pageSize), Filters: []types.Filter{
		tagFilter(capacity.TagCluster, cluster), filter("tag-key", capacity.TagHold),
		filter("state", string(capacity.StateActive), string(capacity.StatePending), string(capacity.StateScheduled), string(capacity.StateAssessing), string(capacity.StateDelayed)),
	}})
	if err != nil {
		return nil, fmt.Errorf("listing what is held in %s: %w", c.region, err)
	}
	return held, nil
}

// InstanceStates are EC2's states of the instances, by id, without terminated ones and ones that
// EC2 does not show.
func (c *Client) InstanceStates(ctx context.Context, ids []string) (map[string]string, error) {
	states := map[string]string{}
	found, err := c.InstancesByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, i := range found {
		states[i.ID] = i.State
	}
	return states, nil
}
