package ec2

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// ExpectBlocks tells the client that the region has Capacity Blocks. It then asks about blocks and
// reservations at the same time.
func (c *Client) ExpectBlocks() { c.blocksExpected.Store(true) }

// blocks is EC2's answer about all Capacity Blocks of a region: there is no filter by reservation.
type blocks struct {
	all               []types.CapacityBlock
	statuses          []types.CapacityBlockStatus
	allErr, statusErr error
}

// askBlocks asks both questions at the same time; the answer waits for them.
func (c *Client) askBlocks(ctx context.Context) (answer func() blocks) {
	var b blocks
	var asked sync.WaitGroup
	asked.Go(func() {
		for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeCapacityBlocks, &ec2.DescribeCapacityBlocksInput{})) {
			if err != nil {
				b.allErr = err
				return
			}
			b.all = append(b.all, page.CapacityBlocks...)
		}
	})
	asked.Go(func() {
		for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeCapacityBlockStatus, &ec2.DescribeCapacityBlockStatusInput{})) {
			if err != nil {
				b.statusErr = err
				return
			}
			b.statuses = append(b.statuses, page.CapacityBlockStatuses...)
		}
	})
	return func() blocks { asked.Wait(); return b }
}

// InspectBlocks marks the live blocks among rs, all of this region, that are UltraServers, and
// counts their failed hosts. It asks only when rs has a live block. Without permission for these
// two calls, or in a region without them, the answers are missing: see Untold.
func (c *Client) InspectBlocks(ctx context.Context, rs []capacity.Reservation) error {
	return c.inspectBlocks(rs, func() blocks { return c.askBlocks(ctx)() })
}

// inspected returns the reservations that list finds, with EC2's facts about the blocks among them.
func (c *Client) inspected(ctx context.Context, list func() ([]capacity.Reservation, error)) ([]capacity.Reservation, error) {
	answer := func() blocks { return c.askBlocks(ctx)() }
	if c.blocksExpected.Load() {
		ctx, cancel := context.WithCancel(ctx)
		asked := c.askBlocks(ctx)
		defer func() { cancel(); asked() }() // when there is no block after all, or the list has failed
		answer = asked
	}
	all, err := list()
	if err != nil {
		return nil, err
	}
	return all, c.inspectBlocks(all, answer)
}

func (c *Client) inspectBlocks(rs []capacity.Reservation, answer func() blocks) error {
	live := map[string]*capacity.Reservation{}
	open := false
	for i, r := range rs {
		if r.Kind.Bought() && r.State.Live() {
			live[r.ID] = &rs[i]
			open = open || r.State == capacity.StateActive
		}
	}
	if len(live) == 0 {
		return nil
	}
	c.ExpectBlocks()
	told := answer()
	switch {
	case notAllowed(told.allErr):
		c.without(told.allErr, "which blocks of "+c.region+" are UltraServers goes by their instance type, and one of a new family counts as an UltraServer")
		for _, r := range live {
			if _, known := capacity.OnlyInUltraServers(r.InstanceType); !known {
				r.UltraServer = true // a wrong no would move the fence 30 minutes too late
			}
		}
	case told.allErr != nil:
		return fmt.Errorf("describing capacity blocks in %s: %w", c.region, told.allErr)
	}
	told.addUltraServers(live)
	if !open {
		if notAllowed(told.statusErr) { // nothing is lost yet
			c.without(told.statusErr, "how many hosts of the blocks in "+c.region+" have failed will not be known when they open")
		}
		return nil
	}
	switch {
	case notAllowed(told.statusErr):
		for _, r := range live {
			r.HealthUnknown = true
		}
		c.without(told.statusErr, "how many hosts of the blocks in "+c.region+" have failed is not known")
	case told.statusErr != nil:
		return fmt.Errorf("describing the status of capacity blocks in %s: %w", c.region, told.statusErr)
	}
	told.addHealth(live)
	return nil
}

// addUltraServers finds the blocks behind each reservation: one UltraServer is one
// block, and one purchase can hold several.
func (b blocks) addUltraServers(live map[string]*capacity.Reservation) {
	for _, block := range b.all {
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

// addHealth counts the instances that EC2 reports as unusable. A reservation of several blocks has
// their sum.
func (b blocks) addHealth(live map[string]*capacity.Reservation) {
	for _, block := range b.statuses {
		interconnect := block.InterconnectStatus == types.CapacityBlockInterconnectStatusImpaired
		for _, status := range block.CapacityReservationStatuses {
			if r, ok := live[aws.ToString(status.CapacityReservationId)]; ok {
				r.Unhealthy += int(aws.ToInt32(status.TotalUnavailableCapacity))
				r.Interconnect = r.Interconnect || interconnect
			}
		}
	}
}
