package capacity

import (
	"slices"
	"time"
)

// Lane is one row of a timeline: the blocks of a partition, or of none.
type Lane struct {
	// Partition is "" for reservations that no partition uses.
	Partition string   `json:"partition"`
	Blocks    []Block  `json:"blocks"`
	Gaps      []Period `json:"gaps,omitempty"`
}

// Block is a reservation on a timeline.
type Block struct {
	Reservation Reservation `json:"reservation"`
	Window      Window      `json:"window"`
	// Extensions that were bought, oldest first. One whose payment is pending has not moved the end yet.
	Extensions []Extension `json:"extensions,omitempty"`
	// Slot is the partition's slot that has the block, Idle the number of its idle nodes; "" and nil if unknown.
	Slot      string `json:"slot,omitempty"`
	NodesIdle *int   `json:"nodes_idle,omitempty"`
}

// Period is a stretch of time, [From, To).
type Period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Timeline arranges a snapshot's reservations into lanes: one for each partition in the order of the configuration,
// then one for the blocks of no partition. Blocks are sorted by start; dead ones, and those that ended before from,
// are left out. A block that waits for its slot begins with its turn. A gap is a time after now in which a partition
// with a later block has none to run in: from one fence to the next start.
func Timeline(snap *Snapshot, extensions map[string][]Extension, from, now time.Time) []Lane {
	used := map[string]bool{}
	var lanes []Lane
	block := func(r Reservation, w Window) (Block, bool) {
		shown := r.State.Live() || r.State == StateExpired
		return Block{Reservation: r, Window: w, Extensions: extensions[r.ID]}, shown && (w.Unbounded() || w.End.After(from))
	}
	for _, p := range snap.Partitions {
		lane := Lane{Partition: p.Name}
		here := map[string]bool{}
		for _, c := range candidates(p, snap) {
			if r := c.reservation; !here[r.ID] {
				here[r.ID], used[r.ID] = true, true
				if b, shown := block(r, c.window); shown {
					lane.Blocks = append(lane.Blocks, b)
				}
			}
		}
		sortBlocks(lane.Blocks)
		lane.Gaps = gaps(lane.Blocks, now)
		lanes = append(lanes, lane)
	}
	rest := Lane{}
	for _, r := range snap.Reservations {
		if b, shown := block(r, snap.Timing.Window(r)); shown && !used[r.ID] {
			rest.Blocks = append(rest.Blocks, b)
		}
	}
	if sortBlocks(rest.Blocks); len(rest.Blocks) > 0 {
		lanes = append(lanes, rest)
	}
	return lanes
}

func sortBlocks(blocks []Block) {
	slices.SortStableFunc(blocks, func(a, b Block) int { return a.Window.Start.Compare(b.Window.Start) })
}

// gaps finds the times after now, between sorted blocks, in which no block can be used.
func gaps(blocks []Block, now time.Time) []Period {
	var found []Period
	usableUntil := now
	for _, b := range blocks {
		if b.Window.Start.After(usableUntil) {
			found = append(found, Period{usableUntil, b.Window.Start})
		}
		if b.Window.Unbounded() {
			return found
		}
		usableUntil = later(usableUntil, b.Window.Fence)
	}
	return found
}
