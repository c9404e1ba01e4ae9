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

// CreateODCR makes an On-Demand Capacity Reservation for launches that name it; it costs money from then on. It is
// always targeted and has an end, a ClientToken and our tags (R4): an order that lacks one is not sent.
// capacity.OutcomeOf reads the outcome from an error.
func (c *Client) CreateODCR(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error) {
	if o.ClientToken == "" || o.End.IsZero() || o.Tags[capacity.TagCluster] == "" || o.Tags[capacity.TagHold] == "" {
		return capacity.Reservation{}, withOutcome(fmt.Errorf("%w: the order has no token, end or mark of ours", ErrNotSent))
	}
	tags := maps.Clone(o.Tags)
	tags[capacity.TagToken] = o.ClientToken
	out, err := c.api.CreateCapacityReservation(ctx, &ec2.CreateCapacityReservationInput{
		ClientToken:           aws.String(o.ClientToken),
		InstanceType:          aws.String(o.InstanceType),
		InstancePlatform:      types.CapacityReservationInstancePlatform(o.Platform),
		InstanceCount:         aws.Int32(int32(o.Count)),
		AvailabilityZoneId:    aws.String(o.AZID),
		Tenancy:               types.CapacityReservationTenancyDefault,
		InstanceMatchCriteria: types.InstanceMatchCriteriaTargeted,
		EndDate:               aws.Time(o.End),
		EndDateType:           types.EndDateTypeLimited,
		TagSpecifications:     tagged(tags, types.ResourceTypeCapacityReservation),
	})
	if err == nil && out.CapacityReservation == nil {
		err = ErrNotDescribed
	}
	if err != nil {
		return capacity.Reservation{}, fmt.Errorf("holding %d × %s in %s: %w", o.Count, o.InstanceType, o.AZID, withOutcome(err, noHold...))
	}
	return c.reservation(*out.CapacityReservation), nil
}

// CancelODCR cancels an ODCR; its instances go on. An ODCR that has ended is no error. For one that
// EC2 does not know, it asks again for a while: it may be new.
func (c *Client) CancelODCR(ctx context.Context, id string) error {
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
