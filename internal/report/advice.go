package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Advice is the next purchase for a partition.
type Advice struct {
	Partition string `json:"partition"`
	// Says is a sentence with its reason; Command finds what it names, "" if there is nothing to buy.
	Says    string `json:"says"`
	Command string `json:"command"`
}

// blockSizes are those in which EC2 sells Capacity Blocks, in instances (EC2 User Guide,
// "Capacity Blocks for ML": 1, 2, 4, 8, 16, 32 or 64).
var blockSizes = []int{1, 2, 4, 8, 16, 32, 64}

// leastMeasured is from which time on it is said how many nodes are needed: a day's work, which
// is nearly all of the shortest block that EC2 sells. Of that jobs can use 23 h 20 min.
const leastMeasured = 20 * time.Hour

// Where advice turns: more nodes when jobs waited for a fifth of the measured time while every
// node had one; nothing but a word when less than half of the paid time is known.
const (
	crowdedFrom = 5 // a part of the paid time: 1/5
	knownFrom   = 2
)

// soon is how long before its end a block needs a successor: EC2 sells blocks up to 8 weeks
// ahead, and the good ones early.
const soon = 21 * 24 * time.Hour

// Advise recommends the next purchase, from the last block of each partition. snap tells which of
// them are followed by another one.
func (r Report) Advise(snap *capacity.Snapshot, now time.Time) []Advice {
	last := map[string]Reservation{}
	var order []string
	for _, one := range r.Reservations {
		if !isBlock(one.Paid) {
			continue
		}
		name := one.Paid.Partition
		if before, seen := last[name]; !seen {
			order = append(order, name)
		} else if !one.End.After(before.End) {
			continue
		}
		last[name] = one
	}
	var all []Advice
	for _, name := range order {
		all = append(all, last[name].advise(snap, now))
	}
	return all
}

// successor is the block of a partition that begins next after another; "" if there is none.
func successor(snap *capacity.Snapshot, partition string, after Reservation) (capacity.Reservation, bool) {
	if snap == nil {
		return capacity.Reservation{}, false
	}
	p, _ := snap.Partition(partition)
	var next []capacity.Reservation
	for _, one := range snap.Reservations {
		if p.Has(one.ID) && one.ID != after.ID && one.State.Live() && one.Start.After(after.Start) {
			next = append(next, one)
		}
	}
	if len(next) == 0 {
		return capacity.Reservation{}, false
	}
	return slices.MinFunc(next, func(a, b capacity.Reservation) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID)) }), true
}

func (r Reservation) advise(snap *capacity.Snapshot, now time.Time) Advice {
	a := Advice{Partition: r.Paid.Partition}
	paid, measured := r.Sums.Total(), int64(r.Paid.Size)*int64(r.Measured/time.Second)
	count, why := r.Paid.Size, ""
	switch {
	case r.Sums[Unknown]*knownFrom > paid:
		a.Says = fmt.Sprintf("%s: too little is known of %s to say how much is needed; keep `pcs-capacity sync --watch` running", r.Paid.Partition, r.ID)
		return a
	case r.Measured < leastMeasured:
		a.Says = fmt.Sprintf("%s: too early to say how much is needed: %s was measured for %s, of %s at least", r.Paid.Partition, r.ID,
			capacity.FormatDuration(r.Measured), capacity.FormatDuration(leastMeasured))
		return a
	case r.Crowded*crowdedFrom > measured:
		count = blockSize(r.Paid.Size + 1)
		why = fmt.Sprintf("jobs waited for %d%% of the %s measured while every node had one", percent(r.Crowded, measured), capacity.FormatDuration(r.Measured))
	case r.Busy == 0:
		why = fmt.Sprintf("no job ran in %d of the %d hours measured", r.Within, r.Hours)
	case blockSize(r.Busy) < r.Paid.Size:
		count = blockSize(r.Busy)
		why = fmt.Sprintf("in %d of the %d hours measured no more than %d of its %d nodes had jobs", r.Within, r.Hours, r.Busy, r.Paid.Size)
	default:
		why = fmt.Sprintf("%d of its %d nodes had jobs in the busiest of the %d hours measured", r.Busy, r.Paid.Size, r.Hours)
	}
	next, followed := successor(snap, r.Paid.Partition, r)
	from := latest(r.End, now)
	switch {
	case followed && next.Size() >= count:
		a.Says = fmt.Sprintf("%s: nothing; %s follows with %d nodes at %s, and %s", r.Paid.Partition, next.ID, next.Size(), capacity.FormatUTC(next.Start), why)
		return a
	case followed:
		a.Says = fmt.Sprintf("%s: %d nodes beside the %d of %s, which follows at %s: %s", r.Paid.Partition, count-next.Size(), next.Size(), next.ID, capacity.FormatUTC(next.Start), why)
		count, from = blockSize(count-next.Size()), latest(next.Start, now)
	case r.Busy == 0 && r.Crowded == 0:
		a.Says = fmt.Sprintf("%s: nothing follows %s, and %s: ask who still needs it before you buy", r.Paid.Partition, r.ID, why)
		return a
	case r.End.After(now.Add(soon)):
		a.Says = fmt.Sprintf("%s: nothing yet; %s lasts until %s, and %s", r.Paid.Partition, r.ID, capacity.FormatUTC(r.End), why)
		return a
	default:
		a.Says = fmt.Sprintf("%s: %d x %s from %s on: nothing follows %s, and %s", r.Paid.Partition, count, r.Paid.InstanceType, capacity.FormatUTC(from), r.ID, why)
	}
	a.Command = fmt.Sprintf("pcs-capacity offerings --instance-type %s --count %d --duration %s --start-after %s", r.Paid.InstanceType, count,
		capacity.FormatExact(max(24*time.Hour, r.End.Sub(r.Start).Round(24*time.Hour))), from.UTC().Format(time.RFC3339))
	return a
}

// blockSize is the smallest block with so many nodes; more than EC2 sells stay as they are.
func blockSize(nodes int) int {
	for _, size := range blockSizes {
		if size >= nodes {
			return size
		}
	}
	return nodes
}

func percent(part, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	return (100*part + whole/2) / whole
}
