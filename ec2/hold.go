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

// Hold makes an On-Demand Capacity Reservation (ODCR), which is paid from then on. It is
// targeted and has an end, a ClientToken and tags, always (R4): without any of them the order
// is an error. What an error says is capacity.OutcomeOf.
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

// Commit orders an ODCR for later, which is targeted and ends soon after its commitment. The
// call is sent once (R3), and only with a ClientToken and our tags. EC2 assesses the order
// after it has answered.
func (c *Client) Commit(ctx context.Context, o capacity.CommitOrder) (capacity.Reservation, error) {
	r, err := c.createODCR(ctx, &ec2.CreateCapacityReservationInput{
		ClientToken:        aws.String(o.ClientToken),
		InstanceType:       aws.String(o.InstanceType),
		InstancePlatform:   types.CapacityReservationInstancePlatform(o.Platform),
		InstanceCount:      aws.Int32(int32(o.Count)),
		AvailabilityZoneId: aws.String(o.AZID),
		StartDate:          aws.Time(o.Start),
		CommitmentDuration: aws.Int64(int64(o.For.Seconds())),
		DeliveryPreference: types.CapacityReservationDeliveryPreferenceIncremental,
		EndDate:            aws.Time(o.End()),
	}, capacity.TagPurchase, o.Tags, once)
	if err != nil {
		return capacity.Reservation{}, fmt.Errorf("committing to %d × %s in %s: %w", o.Count, o.InstanceType, o.AZID, err)
	}
	return r, nil
}

// createODCR makes an ODCR that only launches which name it can use. Without a ClientToken, an
// end, or our tags, of which mark says what it is for, nothing is sent.
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

// Release cancels an ODCR, whose instances go on. One that has ended already is no error, and
// one that EC2 does not know is asked for again for a while: it may be new.
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

// Holds are the ODCRs that we have made for a cluster, by its mark, and that may still be paid;
// all pages of them.
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

// InstanceStates are EC2's states of those of the instances that it shows and that are not
// terminated, by id.
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
