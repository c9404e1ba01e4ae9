package ec2

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// InspectBlocks adds to the live blocks among rs, which are of this region, whether they
// are UltraServers and how many of their hosts have failed. It asks only when there is
// such a block. A caller
// without the permission for these two calls, or a region without them, goes on
// without the answers: see Untold.
func (c *Client) InspectBlocks(ctx context.Context, rs []capacity.Reservation) error {
	live := map[string]*capacity.Reservation{}
	open := false
	for i, r := range rs {
		if r.Kind == capacity.CapacityBlock && r.State.Live() {
			live[r.ID] = &rs[i]
			open = open || r.State == capacity.StateActive
		}
	}
	if len(live) == 0 {
		return nil
	}
	switch err := c.addUltraServers(ctx, live); {
	case notAllowed(err):
		c.without(err, "which blocks of "+c.region+" are UltraServers goes by their instance type")
	case err != nil:
		return fmt.Errorf("describing capacity blocks in %s: %w", c.region, err)
	}
	if !open {
		return nil
	}
	switch err := c.addHealth(ctx, live); {
	case notAllowed(err):
		for _, r := range live {
			r.HealthUnknown = true
		}
		c.without(err, "how many hosts of the blocks in "+c.region+" have failed is not known")
	case err != nil:
		return fmt.Errorf("describing the status of capacity blocks in %s: %w", c.region, err)
	}
	return nil
}

// addUltraServers finds the blocks behind each reservation: one UltraServer is one
// block, and one purchase can hold several. There is no filter by reservation.
func (c *Client) addUltraServers(ctx context.Context, live map[string]*capacity.Reservation) error {
	for pages := ec2.NewDescribeCapacityBlocksPaginator(c.api, &ec2.DescribeCapacityBlocksInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, block := range page.CapacityBlocks {
			for _, id := range block.CapacityReservationIds {
				r, ok := live[id]
				if !ok {
					continue
				}
				if blockID := aws.ToString(block.CapacityBlockId); !slices.Contains(r.CapacityBlockIDs, blockID) {
					r.CapacityBlockIDs = append(r.CapacityBlockIDs, blockID)
				}
				if aws.ToString(block.UltraserverType) != "" {
					r.UltraServer = true
				}
			}
		}
	}
	return nil
}

// addHealth counts the instances that EC2 says cannot be used. A reservation of
// several blocks is the sum of them.
func (c *Client) addHealth(ctx context.Context, live map[string]*capacity.Reservation) error {
	for pages := ec2.NewDescribeCapacityBlockStatusPaginator(c.api, &ec2.DescribeCapacityBlockStatusInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, block := range page.CapacityBlockStatuses {
			for _, status := range block.CapacityReservationStatuses {
				if r, ok := live[aws.ToString(status.CapacityReservationId)]; ok {
					r.Unhealthy += int(aws.ToInt32(status.TotalUnavailableCapacity))
				}
			}
		}
	}
	return nil
}
