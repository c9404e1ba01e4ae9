package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Prospect is a reservation in which a job may run, with its turn.
type Prospect struct {
	Turn
	// Room is the longest time limit that fits, from now or from the opening on; meaningless if the window is unbounded.
	Room    time.Duration
	Longest Limit // the longest limit that Room, the partition and accounting leave; NoLimit if nothing bounds it
	Fits    bool  // the job's shortest acceptable limit fits into Room
	// Needs is the least number of nodes on which the job can run here. Usable is the most that one job can have until
	// the failed hosts are replaced.
	Needs, Usable int
}

// Prospects returns the reservations in which a job may run, in the order of their opening. Admit decides by the same
// ones.
func Prospects(req Request, snap *Snapshot, now time.Time) (all []Prospect) {
	start, boot := later(now, req.Begin), snap.Timing.BootAllowance.Duration
	for _, c := range usable(req, snap, now) {
		if len(c.mismatches()) > 0 || !c.holds(req) {
			continue
		}
		out := Prospect{Turn: c, Fits: true, Usable: c.healthy(), Longest: c.longest(req, *c.Partition, snap.Walls, boot, start)}
		out.Needs, _ = req.leastNodes(c.Group) // it fits
		if !c.until(req).IsZero() {
			need := req.least()
			if !need.Set {
				need = LimitOf(c.Partition.MinTime.Duration)
			}
			out.Room = c.room(req, start, boot)
			out.Fits = need.Bounded() && need.Duration() <= out.Room
		}
		all = append(all, out)
	}
	slices.SortStableFunc(all, func(a, b Prospect) int { return a.Window.Start.Compare(b.Window.Start) })
	return all
}

// usable returns the live reservations that a job may use, whatever it needs.
func usable(req Request, snap *Snapshot, now time.Time) (all []Turn) {
	wish, _ := req.Wish()
	for _, name := range req.Partitions {
		p, _ := snap.Partition(name)
		wanted, _ := entitled(req, wish, p, snap)
		all = append(all, slices.DeleteFunc(wanted, func(c Turn) bool { return c.Unknown || c.Never || c.ended(now) })...)
	}
	return all
}

// PassedOver says why a job gets no nodes in live reservations that it may use: for each, one reason that somebody
// has to fix.
func PassedOver(req Request, snap *Snapshot, now time.Time) (all []Problem) {
	for _, c := range usable(req, snap, now) {
		if found := c.mismatches(); len(found) > 0 {
			all = append(all, found[0])
		}
	}
	return all
}

// Within is the snapshot without the slots that a job's constraint excludes, provided the constraint names only
// slots: gpu-a, [gpu-a|gpu-b].
func (s *Snapshot) Within(constraint string) *Snapshot {
	named := strings.FieldsFunc(constraint, func(r rune) bool { return strings.ContainsRune("[]()|", r) })
	out := *s
	out.Partitions = slices.Clone(s.Partitions)
	found := map[string]bool{}
	for i := range out.Partitions {
		p := &out.Partitions[i]
		p.Groups = slices.Clone(p.Groups)
		for k := range p.Groups {
			g := &p.Groups[k]
			g.Slots = slices.DeleteFunc(slices.Clone(g.Slots), func(slot Slot) bool {
				is := slot.Feature != "" && slices.Contains(named, slot.Feature)
				found[slot.Feature] = found[slot.Feature] || is
				return !is
			})
		}
	}
	if len(named) == 0 || slices.ContainsFunc(named, func(name string) bool { return !found[name] }) {
		return s
	}
	return &out
}

// least is the shortest time limit with which Slurm may start the job: Slurm may lower the limit down to --time-min.
func (r Request) least() Limit {
	if r.TimeMin.Bounded() && (!r.TimeLimit.Bounded() || r.TimeMin.Minutes < r.TimeLimit.Minutes) {
		return r.TimeMin
	}
	return r.TimeLimit
}

// ShortOfHosts finds the open reservation in which the job would run now if no host had failed; of several, the one
// with the most usable hosts. short is false if an open reservation has enough hosts, or if the job waits for other
// reasons.
func ShortOfHosts(req Request, snap *Snapshot, now time.Time) (p Prospect, short bool) {
	open := slices.DeleteFunc(Prospects(req, snap, now), func(p Prospect) bool {
		return !p.Fits || p.Window.Start.After(now) || p.Reservation.State != StateActive && p.Reservation.ID != ""
	})
	if len(open) == 0 || slices.ContainsFunc(open, func(p Prospect) bool { return p.Needs <= p.Usable }) {
		return Prospect{}, false
	}
	return slices.MaxFunc(open, func(a, b Prospect) int { return cmp.Compare(a.Usable, b.Usable) }), true
}

// FewHosts is the sentence for a job that needs more hosts than are usable.
func (p Prospect) FewHosts() string {
	r := p.Reservation
	return fmt.Sprintf("the job needs %d nodes, and %d of the %d hosts of %s are usable", p.Needs, p.Usable, r.Size(),
		r.ID)
}

// Lane is one row of a timeline: the blocks of a partition, or of none.
type Lane struct {
	Partition string   `json:"partition"` // "" for reservations that no partition uses
	Blocks    []Block  `json:"blocks"`
	Gaps      []Period `json:"gaps,omitempty"`
}

// Block is a reservation on a timeline.
type Block struct {
	Reservation Reservation `json:"reservation"`
	Count       int         `json:"count"` // the reservation's size, also before it opens
	Window      Window      `json:"window"`
	Slot        string      `json:"slot,omitempty"` // the partition's slot that has the block; "" if unknown
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
func Timeline(snap *Snapshot, from, now time.Time) []Lane {
	used := map[string]bool{}
	var lanes []Lane
	block := func(r Reservation, w Window) (Block, bool) {
		shown := r.State.Live() || r.State == StateExpired
		return Block{Reservation: r, Count: r.Size(), Window: w}, shown && (w.Unbounded() || w.End.After(from))
	}
	for _, p := range snap.Partitions {
		lane := Lane{Partition: p.Name, Blocks: []Block{}}
		here := map[string]bool{}
		for _, c := range candidates(p, snap) {
			if r := c.Reservation; !here[r.ID] {
				here[r.ID], used[r.ID] = true, true
				if b, shown := block(r, c.Window); shown {
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
func gaps(blocks []Block, now time.Time) (found []Period) {
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
