package ec2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Reservations describes reservations by id, in the order of ids. Bad ids are returned in missing
// and never hide the others (R8); err means that EC2 could not be asked, and nothing is known.
func (c *Client) Reservations(ctx context.Context, ids []string) (found []capacity.Reservation, missing []capacity.Missing, err error) {
	if len(unique(ids)) == 0 {
		return nil, nil, nil
	}
	var bad map[string]error
	all, err := c.inspected(ctx, func() (all []capacity.Reservation, err error) {
		bad, err = withoutBad(ids, badReservationID, func(ids []string) error {
			// EC2 takes no MaxResults together with ids.
			some, err := c.describeReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: ids})
			if err == nil {
				all = append(all, some...)
			}
			return err
		})
		if err != nil {
			err = fmt.Errorf("describing capacity reservations in %s: %w", c.region, err)
		}
		return all, err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, id := range unique(ids) {
		i := slices.IndexFunc(all, func(r capacity.Reservation) bool { return r.ID == id })
		switch {
		case i >= 0:
			found = append(found, all[i])
		case bad[id] != nil:
			missing = append(missing, capacity.Missing{ID: id, Err: bad[id], Unread: unreadable(bad[id])})
		default:
			missing = append(missing, capacity.Missing{ID: id, Err: ErrNotDescribed})
		}
	}
	return found, missing, nil
}

// Reservation describes one reservation. For an id that EC2 does not know, the error
// carries EC2's Code, or is ErrNotDescribed.
func (c *Client) Reservation(ctx context.Context, id string) (capacity.Reservation, error) {
	found, missing, err := c.Reservations(ctx, []string{id})
	if err != nil {
		return capacity.Reservation{}, err
	}
	if len(missing) > 0 {
		return capacity.Reservation{}, fmt.Errorf("describing %s in %s: %w", id, c.region, missing[0].Err)
	}
	if len(found) == 0 {
		return capacity.Reservation{}, fmt.Errorf("describing a reservation in %s: the id is empty", c.region)
	}
	return found[0], nil
}

// ReservationsByTag describes all reservations of the region that carry every one of
// the tags; at least one tag must be given.
func (c *Client) ReservationsByTag(ctx context.Context, tags map[string]string) ([]capacity.Reservation, error) {
	if len(tags) == 0 {
		return nil, errors.New("describing capacity reservations by tag: no tag is given, which would choose every reservation")
	}
	return c.listAndInspect(ctx, ReservationQuery{Tags: tags})
}

// AllReservations describes every reservation of the region that this account owns or
// that others share with it, in any state.
func (c *Client) AllReservations(ctx context.Context) ([]capacity.Reservation, error) {
	return c.listAndInspect(ctx, ReservationQuery{})
}

func (c *Client) listAndInspect(ctx context.Context, q ReservationQuery) ([]capacity.Reservation, error) {
	return c.inspected(ctx, func() ([]capacity.Reservation, error) { return c.List(ctx, q) })
}

func (c *Client) reservation(a types.CapacityReservation) capacity.Reservation {
	// Lists do not ask DescribeCapacityBlocks. EC2 gives a LaunchStatus for UltraServers only: EC2 API Reference,
	// CapacityReservation.
	ultra, _ := capacity.OnlyInUltraServers(aws.ToString(a.InstanceType))
	r := capacity.Reservation{
		ID:            aws.ToString(a.CapacityReservationId),
		Kind:          kind(a),
		State:         capacity.State(a.State),
		InstanceType:  aws.ToString(a.InstanceType),
		Region:        c.region,
		AZID:          aws.ToString(a.AvailabilityZoneId),
		AZ:            aws.ToString(a.AvailabilityZone),
		Total:         int(aws.ToInt32(a.TotalInstanceCount)),
		Available:     int(aws.ToInt32(a.AvailableInstanceCount)),
		Platform:      string(a.InstancePlatform),
		Tenancy:       string(a.Tenancy),
		UltraServer:   ultra || a.LaunchStatus != "",
		OwnerID:       aws.ToString(a.OwnerId),
		MatchCriteria: string(a.InstanceMatchCriteria),
		Created:       aws.ToTime(a.CreateDate),
		Start:         aws.ToTime(a.StartDate),
		End:           aws.ToTime(a.EndDate),
		Tags:          tagMap(a.Tags),
	}
	if a.CommitmentInfo != nil {
		r.Committed = int(aws.ToInt32(a.CommitmentInfo.CommittedInstanceCount))
		r.CommittedUntil = aws.ToTime(a.CommitmentInfo.CommitmentEndDate)
	}
	// arn:aws:ec2:REGION:ACCOUNT:placement-group/NAME
	_, r.PlacementGroup, _ = strings.Cut(aws.ToString(a.PlacementGroupArn), ":placement-group/")
	if a.CapacityBlockId != nil {
		r.CapacityBlockIDs = []string{*a.CapacityBlockId}
	}
	return r
}

// kind is the kind of a reservation. EC2 may leave the type of an ODCR empty. A type that is new stays verbatim: no
// node group takes such a reservation.
func kind(a types.CapacityReservation) capacity.Kind {
	switch {
	case a.ReservationType == types.CapacityReservationTypeCapacityBlock:
		return capacity.CapacityBlock
	case a.ReservationType != "" && a.ReservationType != types.CapacityReservationTypeDefault:
		return capacity.Kind(a.ReservationType)
	case aws.ToBool(a.Interruptible):
		return capacity.InterruptibleODCR
	}
	return capacity.ODCR
}

// ReservationQuery bounds a list of reservations; its zero value bounds nothing.
type ReservationQuery struct {
	// InstanceTypes are alternatives.
	InstanceTypes []string
	// Tags must all be there, with these values exactly, as [capacity.Select] has it.
	Tags map[string]string
	// ActiveOnly leaves out reservations that are not open.
	ActiveOnly bool
}

// pageSize is the most that EC2's Describe operations put on a page.
const pageSize = 1000

// List describes the reservations of the region that this account owns or that others share with
// it. It only reads the pages; for the failed hosts of blocks, call InspectBlocks.
func (c *Client) List(ctx context.Context, q ReservationQuery) ([]capacity.Reservation, error) {
	in := &ec2.DescribeCapacityReservationsInput{MaxResults: aws.Int32(pageSize)}
	if len(q.InstanceTypes) > 0 {
		in.Filters = append(in.Filters, filter("instance-type", q.InstanceTypes...))
	}
	if q.ActiveOnly {
		in.Filters = append(in.Filters, filter("state", string(capacity.StateActive)))
	}
	for _, key := range slices.Sorted(maps.Keys(q.Tags)) {
		in.Filters = append(in.Filters, tagFilter(key, q.Tags[key]))
	}
	all, err := c.describeReservations(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("listing capacity reservations in %s: %w", c.region, err)
	}
	return all, nil
}

// describeReservations translates page by page, since EC2's own form takes several
// times the room.
func (c *Client) describeReservations(ctx context.Context, in *ec2.DescribeCapacityReservationsInput) ([]capacity.Reservation, error) {
	var all []capacity.Reservation
	for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeCapacityReservations, in)) {
		if err != nil {
			return nil, err
		}
		all = slices.Grow(all, len(page.CapacityReservations))
		for _, a := range page.CapacityReservations {
			all = append(all, c.reservation(a))
		}
	}
	return all, nil
}
