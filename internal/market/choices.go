package market

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Forecast says what comes of a queue if something is bought.
type Forecast struct {
	Queue    capacity.Queue
	Snapshot *capacity.Snapshot
}

// Choice is an extension or a block that could be bought, or nothing, and what then comes of the queue.
type Choice struct {
	capacity.QueuePlan
	Offer   Offer         // zero for nothing
	Extends string        // the block that it extends; "" for a new one
	Length  time.Duration // that EC2 was asked for
	BuyBy   time.Time
}

func (f Forecast) nothing() Choice { return Choice{QueuePlan: f.Queue.Plan(f.Snapshot)} }

// with returns what comes of the queue with a reservation that is new or lasts longer.
func (f Forecast) with(r capacity.Reservation) capacity.QueuePlan {
	return f.Queue.Plan(f.Snapshot.With(f.Queue.Partition, r))
}

// wantedExtension is one to ask for.
type wantedExtension struct {
	block  capacity.Reservation
	length time.Duration
}

// extensions returns, for each block of the queue whose extension helps, the one to ask for.
func (f Forecast) extensions(undone []capacity.UndoneJob) (all []wantedExtension) {
	p, _ := f.Snapshot.Partition(f.Queue.Partition)
	for _, at := range capacity.AllSlots([]capacity.Partition{p}) {
		for _, t := range f.Snapshot.Turns(at) {
			r := t.Reservation
			if !r.Kind.IsBlock() || !r.IsLiveAt(f.Queue.Now) {
				continue
			}

			length := f.shortest(undone, func(length time.Duration) capacity.Reservation { return extended(r, length) })
			if length > 0 {
				all = append(all, wantedExtension{r, length})
			}
		}
	}

	return all
}

func extended(r capacity.Reservation, length time.Duration) capacity.Reservation {
	r.End = r.End.Add(length)
	return r
}

// withExtension returns the choice of an extension for sale.
func (f Forecast) withExtension(e wantedExtension, offer Offer) Choice {
	by := f.Snapshot.Timing.Window(e.block).ExtendBy()
	if by.Before(f.Queue.Now) {
		by = f.Queue.Now
	}

	return Choice{
		QueuePlan: f.with(extended(e.block, offer.Duration())),
		Offer:     offer,
		Extends:   e.block.ID,
		Length:    e.length,
		BuyBy:     by,
	}
}

// blocks returns the blocks to ask for, of each node group that buys some: as many instances as the widest job needs,
// and as many as all jobs could use at once; as long as one would have to be that begins as soon as a slot is free.
func (f Forecast) blocks(undone []capacity.UndoneJob) (all []ec2.OfferingQuery) {
	p, _ := f.Snapshot.Partition(f.Queue.Partition)
	for _, g := range p.Groups {
		if !g.PurchaseOption.IsBlock() {
			continue
		}

		for _, count := range blockSizes(min(g.MaxNodes, ec2.MaxInstances), undone) {
			query := ec2.OfferingQuery{InstanceType: g.InstanceType, Count: count, StartAfter: f.Queue.Now}
			query.StartAfter = f.opening(block(query, longestBlock))

			query.Duration = f.shortest(undone, func(length time.Duration) capacity.Reservation {
				return block(query, length)
			})
			if query.Duration > 0 {
				all = append(all, query)
			}
		}
	}

	return all
}

// newBlock is the id of a block that is not bought.
const newBlock = "cr-0"

// block returns the earliest block that a search can find.
func block(q ec2.OfferingQuery, length time.Duration) capacity.Reservation {
	return capacity.Offering{
		InstanceType: q.InstanceType,
		Count:        q.Count,
		Start:        q.StartAfter,
		End:          q.StartAfter.Add(length),
	}.Reservation(newBlock)
}

// opening returns when a new block could be used: another one may have its slot.
func (f Forecast) opening(r capacity.Reservation) time.Time {
	for _, t := range f.Snapshot.With(f.Queue.Partition, r).AllTurns() {
		if t.Reservation.ID == r.ID {
			return t.Window.Start
		}
	}

	return r.Start
}

func blockSizes(most int, undone []capacity.UndoneJob) []int {
	widest := 0
	sum := 0
	for _, j := range undone {
		if j.Nodes <= most {
			widest = max(widest, j.Nodes)
			sum += j.Nodes
		}
	}

	if widest == 0 {
		return nil
	}

	return slices.Compact([]int{widest, min(sum, most)})
}

// withBlock returns the choice of a block for sale.
func (f Forecast) withBlock(offer Offer, asked time.Duration) Choice {
	return Choice{
		QueuePlan: f.with(offer.Reservation(newBlock)),
		Offer:     offer,
		Length:    asked,
		BuyBy:     offer.Start,
	}
}

// shortest returns the shortest length that EC2 sells with which as few jobs stay undone as with the longest; 0 if no
// length helps.
func (f Forecast) shortest(undone []capacity.UndoneJob, with func(time.Duration) capacity.Reservation) time.Duration {
	lengths := ec2.BlockLengths()
	left := func(i int) int { return len(f.with(with(lengths[i])).Undone) }

	last := len(lengths) - 1
	least := left(last)
	if least >= len(undone) {
		return 0
	}

	return lengths[sort.Search(last, func(i int) bool { return left(i) <= least })]
}

// maxChoices bounds an answer, so that it can be compared at a glance.
const maxChoices = 5

// bestChoices returns nothing, and the best of what helps more.
func bestChoices(nothing Choice, sold []Choice) []Choice {
	all := slices.DeleteFunc(slices.Clone(sold), func(c Choice) bool { return len(c.Undone) >= len(nothing.Undone) })
	slices.SortStableFunc(all, compareChoices)

	all = append(all[:min(len(all), maxChoices-1)], nothing)
	slices.SortStableFunc(all, compareChoices)

	return all
}

// compareChoices puts first what leaves the fewest jobs undone, then what is done first, then the lowest fee.
func compareChoices(a, b Choice) int {
	return cmp.Or(
		len(a.Undone)-len(b.Undone),
		a.Done.Compare(b.Done),
		compareFees(a.Offer.Offering.Fee, b.Offer.Offering.Fee),
	)
}
