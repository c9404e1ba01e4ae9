package ec2

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Reservations describes reservations by id, in the order of ids. Bad ids are returned in missing
// and never hide the others (R8); err means that EC2 could not be asked, and nothing is known.
func (c *Client) Reservations(
	ctx context.Context, ids []string,
) (found []capacity.Reservation, missing []capacity.Missing, err error) {
	if len(unique(ids)) == 0 {
		return nil, nil, nil
	}

	var bad map[string]error

	all, err := c.listWithBlocks(ctx, func() (all []capacity.Reservation, err error) {
		bad, err = skipBadIDs(ids, badReservationID, func(ids []string) error {
			// EC2 takes no MaxResults together with ids.
			some, err := c.describeReservations(ctx,
				&ec2.DescribeCapacityReservationsInput{CapacityReservationIds: ids})
			if err == nil {
				all = append(all, some...)
			}

			return err
		})

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
			missing = append(missing, capacity.Missing{ID: id, Err: bad[id], Unread: isUnreadable(bad[id])})
		default:
			missing = append(missing, capacity.Missing{ID: id, Err: ErrNotDescribed})
		}
	}

	return found, missing, nil
}

// Reservation describes one reservation. For an id that EC2 does not know, the error
// carries EC2's Code, or is ErrNotDescribed.
func Reservation(ctx context.Context, aws interface {
	Region() string
	Reservations(ctx context.Context, ids []string) ([]capacity.Reservation, []capacity.Missing, error)
}, id string,
) (capacity.Reservation, error) {
	found, missing, err := aws.Reservations(ctx, []string{id})
	if err != nil {
		return capacity.Reservation{}, err
	}

	if len(missing) > 0 {
		return capacity.Reservation{}, fmt.Errorf("describing %s in %s: %w", id, aws.Region(), missing[0].Err)
	}

	if len(found) == 0 {
		return capacity.Reservation{}, fmt.Errorf("describing a reservation in %s: the id is empty", aws.Region())
	}

	return found[0], nil
}

func (c *Client) reservation(a types.CapacityReservation) capacity.Reservation {
	// Lists do not ask DescribeCapacityBlocks. EC2 gives a LaunchStatus for UltraServers only: EC2 API Reference,
	// CapacityReservation.
	ultra, _ := capacity.OnlyInUltraServers(aws.ToString(a.InstanceType))
	r := capacity.Reservation{
		ID:            aws.ToString(a.CapacityReservationId),
		ARN:           aws.ToString(a.CapacityReservationArn),
		Kind:          kindOf(a),
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

// kindOf returns the kind of a reservation. EC2 may leave the type of an ODCR empty. A type that is new stays verbatim:
// no node group takes such a reservation.
func kindOf(a types.CapacityReservation) capacity.Kind {
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

// ReservationQuery selects among the reservations that this account owns or that others share with it; its zero value
// selects all.
type ReservationQuery struct {
	InstanceTypes []string          // alternatives
	Tags          map[string]string // Tags must all be there, with these values exactly, as [capacity.Select] has it
	TagKey        string            // a tag that must be there, with any value
	States        []capacity.State  // alternatives
	Plain         bool              // one call alone: how many hosts of blocks have failed is not asked
}

// HoldsQuery selects the ODCRs that we made for a cluster, by its mark, and that may still cost money.
func HoldsQuery(cluster string) ReservationQuery {
	return ReservationQuery{
		Tags:   map[string]string{capacity.TagCluster: cluster},
		TagKey: capacity.TagHold,
		Plain:  true,
		States: []capacity.State{
			capacity.StateActive,
			capacity.StatePending,
			capacity.StateScheduled,
			capacity.StateAssessing,
			capacity.StateDelayed,
		},
	}
}

// pageSize is the most that EC2's Describe operations put on a page.
const pageSize = 1000

// FindReservations describes the selected reservations of the region.
func (c *Client) FindReservations(ctx context.Context, q ReservationQuery) ([]capacity.Reservation, error) {
	in := &ec2.DescribeCapacityReservationsInput{MaxResults: aws.Int32(pageSize), Filters: tagFilters(q.Tags)}
	if q.TagKey != "" {
		in.Filters = append(in.Filters, filter("tag-key", q.TagKey))
	}

	if len(q.InstanceTypes) > 0 {
		in.Filters = append(in.Filters, filter("instance-type", q.InstanceTypes...))
	}

	if len(q.States) > 0 {
		state := filter("state")
		for _, s := range q.States {
			state.Values = append(state.Values, string(s))
		}

		in.Filters = append(in.Filters, state)
	}

	list := func() ([]capacity.Reservation, error) { return c.describeReservations(ctx, in) }
	if q.Plain {
		return list()
	}

	return c.listWithBlocks(ctx, list)
}

// describeReservations translates page by page, since EC2's own form takes several times the room.
func (c *Client) describeReservations(
	ctx context.Context, in *ec2.DescribeCapacityReservationsInput,
) ([]capacity.Reservation, error) {
	return listAll(ctx, c, "describing capacity reservations", c.api.DescribeCapacityReservations, in,
		func(page *ec2.DescribeCapacityReservationsOutput) (all []capacity.Reservation) {
			for _, a := range page.CapacityReservations {
				all = append(all, c.reservation(a))
			}
			return all
		})
}

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
	var (
		b     blocks
		asked sync.WaitGroup
	)
	asked.Go(func() {
		b.all, b.allErr = listAll(ctx, c, "describing capacity blocks", c.api.DescribeCapacityBlocks,
			&ec2.DescribeCapacityBlocksInput{},
			func(page *ec2.DescribeCapacityBlocksOutput) []types.CapacityBlock { return page.CapacityBlocks })
	})
	asked.Go(func() {
		b.statuses, b.statusErr = listAll(ctx, c, "describing the status of capacity blocks",
			c.api.DescribeCapacityBlockStatus, &ec2.DescribeCapacityBlockStatusInput{},
			func(page *ec2.DescribeCapacityBlockStatusOutput) []types.CapacityBlockStatus {
				return page.CapacityBlockStatuses
			})
	})

	return func() blocks { asked.Wait(); return b }
}

// listWithBlocks returns the reservations that list finds. The live blocks among them are marked if they are
// UltraServers, and their failed hosts are counted. It asks only when there is one. Without permission for these two
// calls, or in a region without them, the answers are missing: see Withheld.
func (c *Client) listWithBlocks(
	ctx context.Context, list func() ([]capacity.Reservation, error),
) ([]capacity.Reservation, error) {
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

	return all, c.addBlockDetails(all, answer)
}

func (c *Client) addBlockDetails(rs []capacity.Reservation, answer func() blocks) error {
	live := map[string]*capacity.Reservation{}
	open := false
	for i, r := range rs {
		if r.Kind.IsBlock() && r.State.IsLive() {
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
	case isDenied(told.allErr):
		c.addWithheld(told.allErr,
			"which blocks of "+c.region+" are UltraServers goes by their instance type, and one of a new family "+
				"counts as an UltraServer")

		for _, r := range live {
			if _, known := capacity.OnlyInUltraServers(r.InstanceType); !known {
				r.UltraServer = true // a wrong no would move the fence 30 minutes too late
			}
		}
	case told.allErr != nil:
		return told.allErr
	}

	told.addUltraServers(live)

	if !open {
		if isDenied(told.statusErr) { // nothing is lost yet
			c.addWithheld(told.statusErr,
				"how many hosts of the blocks in "+c.region+" have failed will not be known when they open")
		}

		return nil
	}

	switch {
	case isDenied(told.statusErr):
		for _, r := range live {
			r.HealthUnknown = true
		}

		c.addWithheld(told.statusErr, "EC2 does not say how many hosts of the blocks in "+c.region+" have failed")
	case told.statusErr != nil:
		return told.statusErr
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

// addHealth counts the instances that EC2 reports as unusable. A reservation of several blocks has their sum.
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

// CreateODCR makes an On-Demand Capacity Reservation for launches that name it; it costs money from then on. It is
// always targeted and has an end, a ClientToken and our tags (R4): an order that lacks one is not sent.
// The error has the outcome: see Outcome.
func (c *Client) CreateODCR(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error) {
	if o.ClientToken == "" || o.End.IsZero() || o.Tags[capacity.TagCluster] == "" || o.Tags[capacity.TagHold] == "" {
		return capacity.Reservation{}, withOutcome(
			fmt.Errorf("%w: the order has no token, end or mark of ours", ErrNotSent),
		)
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
		return capacity.Reservation{}, fmt.Errorf("holding %d × %s in %s: %w", o.Count, o.InstanceType, o.AZID,
			withOutcome(err, elsewhereCodes...))
	}

	return c.reservation(*out.CapacityReservation), nil
}

// ModifyODCR changes the number of instances of an ODCR and its EndDate. EC2 refuses fewer than run in it.
func (c *Client) ModifyODCR(ctx context.Context, id string, count int, end time.Time) error {
	_, err := c.api.ModifyCapacityReservation(ctx, &ec2.ModifyCapacityReservationInput{
		CapacityReservationId: aws.String(id),
		InstanceCount:         aws.Int32(int32(count)),
		EndDate:               aws.Time(end),
		EndDateType:           types.EndDateTypeLimited,
	})
	if err != nil {
		return fmt.Errorf("changing %s in %s: %w", id, c.region, err)
	}

	return nil
}

// CancelODCR cancels an ODCR; its instances go on. An ODCR that has ended is no error. For one that
// EC2 does not know, it asks again for a while: it may be new.
func (c *Client) CancelODCR(ctx context.Context, id string) error {
	err := c.retryWhile(ctx, isReservationMissing, func() error {
		_, err := c.api.CancelCapacityReservation(ctx,
			&ec2.CancelCapacityReservationInput{CapacityReservationId: aws.String(id)})

		return err
	})
	if err != nil && Code(err) != "InvalidCapacityReservationState" {
		return fmt.Errorf("cancelling %s in %s: %w", id, c.region, err)
	}

	return nil
}
