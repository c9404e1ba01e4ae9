package ec2

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

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
	for page, err := range awsconfig.Pages(ctx, ec2.NewDescribeCapacityReservationsPaginator(c.api, in)) {
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
