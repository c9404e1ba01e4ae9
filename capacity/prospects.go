package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Prospect is a turn in which a job can run, if it has the time.
type Prospect struct {
	Turn
	Until time.Time // when the job must have ended: at the fence or at its own deadline; zero if it has neither
	// Room is the longest time limit that fits, from now or from the opening on, boot included; meaningless without
	// Until.
	Room    time.Duration
	Longest Limit // the longest limit that Room, the partition and accounting leave; NoLimit if nothing bounds it
	Fits    bool  // the job's shortest acceptable limit fits into Room
	Needs   int   // the least number of nodes on which the job can run here
	Usable  int   // the most nodes that one job can have until the failed hosts are replaced
}

// NeedsOpening reports whether the job needs nodes that take no jobs yet although their block is open.
func (p Prospect) NeedsOpening(now time.Time) bool {
	o := p.Slot.Opening
	return o != nil && !p.Window.Start.After(now) && p.Usable-o.Count < p.Needs
}

// Prospects returns the turns in which a job can run, in the order of their opening. Admit decides by the same ones. A
// constraint that names only slots, gpu-a or [gpu-a|gpu-b], excludes the others.
func Prospects(req Request, snap *Snapshot, now time.Time) (all []Prospect) {
	turns := wantedTurns(req, snap)
	slots := strings.FieldsFunc(req.Constraint, func(r rune) bool { return strings.ContainsRune("[]()|", r) })

	known := features(turns)
	isOther := func(name string) bool { return !slices.Contains(known, name) }
	if len(slots) > 0 && !slices.ContainsFunc(slots, isOther) {
		turns = slices.DeleteFunc(turns, func(c Turn) bool { return !slices.Contains(slots, c.feature()) })
	}

	all, _ = prospects(turns, req, snap, now)
	slices.SortStableFunc(all, func(a, b Prospect) int { return a.Window.Start.Compare(b.Window.Start) })

	return all
}

// MismatchProblems says why a job gets no nodes in live reservations that it may use: for each, one reason that
// somebody has to fix.
func MismatchProblems(req Request, snap *Snapshot, now time.Time) (all []Problem) {
	for _, c := range wantedTurns(req, snap) {
		if c.check(req, now).Code == Mismatched {
			all = append(all, c.mismatches()[0])
		}
	}

	return all
}

// wantedTurns returns the turns of a job's partitions that its account may use and that its comment asks for.
func wantedTurns(req Request, snap *Snapshot) (all []Turn) {
	wish, _ := req.Wish()
	for _, name := range req.targetPartitions(snap) {
		p, _ := snap.Partition(name)
		turns, _ := allowedTurns(req, wish, p, snap)
		all = append(all, turns...)
	}

	return all
}

// prospects returns the turns in which a job can run. If there is none, why tells about the turn that comes closest;
// where all are over or unknown, about all of them.
func prospects(turns []Turn, req Request, snap *Snapshot, now time.Time) (all []Prospect, why Verdict) {
	// From far to close: a turn that is only too small is one that the user can still meet.
	closeness := []Code{ReservationNotKnown, NoReservation, Mismatched, TooManyNodes}
	best := -1
	size := 0

	var over []string

	for _, t := range turns {
		v := t.check(req, now)
		if !v.Refused {
			all = append(all, t.prospect(req, snap, now))
			continue
		}

		rank := slices.Index(closeness, v.Code)

		// These say nothing about the job, so all of them are told together.
		if rank < 2 {
			over = append(over, v.Sentence)
		}

		// Of two that are too small, the larger one tells the user what to ask for.
		if rank > best || rank == best && t.size() > size {
			why = v
			best = rank
			size = t.size()
		}
	}

	switch {
	case len(all) > 0:
		why = Verdict{Problem: Problem{Code: OK}}
	case best < 2:
		why = refuse(cmp.Or(why.Code, NoReservation), "%s", strings.Join(over, ", "))
	}

	return all, why
}

// check says why a job can never run in the turn, whatever time it needs; OK if it can.
func (c Turn) check(req Request, now time.Time) Verdict {
	r := c.Reservation
	mismatches := c.mismatches()
	switch {
	case c.Unknown:
		return refuse(ReservationNotKnown, "%s is not described by EC2", r.ID)
	case c.onDemand():
	case c.Never:
		return refuse(NoReservation, "%s never gets its turn: %s has slot %s", r.ID, c.Behind, c.Slot.Name)
	case !r.State.IsLive():
		return refuse(NoReservation, "%s is %s", r.ID, r.State)
	case !r.IsLiveAt(now), !c.Window.Unbounded() && !c.Window.Fence.After(now): // EC2 changes the state a while later
		return refuse(NoReservation, "jobs on %s had to end by %s", r.ID, FormatUTC(cmp.Or(c.Window.Fence, r.End)))
	case len(mismatches) > 0:
		return refuse(Mismatched, "%s; nothing can be launched for the job: ask an administrator to %s",
			mismatches[0].Sentence, mismatches[0].Fix)
	}

	if n, fits := req.minNodes(c.Group); !fits || n > c.size() {
		return c.refuseTooSmall(req)
	}

	return Verdict{Problem: Problem{Code: OK}}
}

// mismatches returns why EC2 would never accept a launch into the turn.
func (c Turn) mismatches() []Problem {
	if c.onDemand() || c.Unknown {
		return nil
	}

	return slices.DeleteFunc(FilterLasting(Match(c.Reservation, *c.Group, c.Window.Start)), func(m Problem) bool {
		return m.Code == WrongZone && len(c.Group.Subnets) == 0 // nobody knows the subnets' zones
	})
}

// size returns the number of nodes that one job can have in the turn.
func (c Turn) size() int { return c.limitToGroup(c.Reservation.Size()) }

func (c Turn) limitToGroup(places int) int {
	if most := c.Group.MaxNodes; c.onDemand() || most > 0 && most < places {
		return most
	}
	return places
}

func (c Turn) feature() string { return c.Slot.Feature }

func (c Turn) prospect(req Request, snap *Snapshot, now time.Time) Prospect {
	p := Prospect{
		Turn:    c,
		Until:   c.Window.Fence,
		Longest: NoLimit,
		Fits:    true,
		Usable:  c.limitToGroup(c.Reservation.UsableSize()),
	}
	p.Needs, _ = req.minNodes(c.Group)

	// The job's own deadline may come before the fence.
	if end := req.Deadline; !end.IsZero() && (p.Until.IsZero() || end.Before(p.Until)) {
		p.Until = end
	}

	if !p.Until.IsZero() {
		// The latest of three: now, the job's --begin, and the opening.
		p.Room = p.Until.Sub(later(later(now, req.Begin), c.Window.Start))
		if c.Group.Dynamic || c.Partition.Provider.Launches() { // only static PCS nodes are always up
			p.Room -= snap.Timing.BootAllowance.Duration
		}

		need := c.need(req, snap)
		p.Longest = Minutes(int(p.Room / time.Minute))
		p.Fits = need.Bounded() && need.Duration() <= p.Room
	}

	// Slurm holds a job whose limit exceeds one of these, whatever room the block has.
	wall, _ := snap.Walls.MaxWall(req.User, req.Account, req.QOS, *c.Partition)
	for _, most := range []Limit{c.Partition.MaxTime, wall} {
		if most.Bounded() && (p.Longest.Unlimited || most.Minutes < p.Longest.Minutes) {
			p.Longest = most
		}
	}

	return p
}

// need returns the shortest time limit with which Slurm may start the job in the turn.
func (c Turn) need(req Request, snap *Snapshot) Limit {
	least := LimitOf(c.Partition.MinTime.Duration)
	return cmp.Or(c.timeMinToFence(req, snap), req.minLimit(), least)
}

// minLimit returns the shortest time limit with which Slurm may start the job: Slurm may lower the limit down to
// --time-min.
func (r Request) minLimit() Limit {
	if r.TimeMin.Bounded() && (!r.TimeLimit.Bounded() || r.TimeMin.Minutes < r.TimeLimit.Minutes) {
		return r.TimeMin
	}
	return r.TimeLimit
}

// HostShortage finds the open reservation in which the job would run now if no host had failed; of several, the one
// with the most usable hosts. short is false if an open reservation has enough hosts, or if the job waits for other
// reasons.
func HostShortage(all []Prospect, now time.Time) (p Prospect, short bool) {
	for _, open := range all {
		switch {
		case !open.Fits || open.Window.Start.After(now) || open.Reservation.State != StateActive && !open.onDemand():
		case open.Needs <= open.Usable:
			return Prospect{}, false
		case !short || open.Usable > p.Usable:
			p = open
			short = true
		}
	}

	return p, short
}

// ShortageText returns the sentence for a job that needs more hosts than are usable.
func (p Prospect) ShortageText() string {
	return fmt.Sprintf("the job needs %d nodes, and %d of the %d hosts of %s are usable",
		p.Needs, p.Usable, p.Reservation.Size(), p.Reservation.ID)
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
	var lanes []Lane

	used := map[string]bool{}
	block := func(r Reservation, w Window) (Block, bool) {
		shown := r.State.IsLive() || r.State == StateExpired
		return Block{Reservation: r, Count: r.Size(), Window: w}, shown && (w.Unbounded() || w.End.After(from))
	}

	for _, p := range snap.Partitions {
		lane := Lane{Partition: p.Name, Blocks: []Block{}}
		here := map[string]bool{}
		for _, c := range candidates(p, snap) {
			r := c.Reservation

			// Two slots of a partition may list the same reservation.
			if here[r.ID] {
				continue
			}

			here[r.ID] = true
			used[r.ID] = true
			if b, shown := block(r, c.Window); shown {
				lane.Blocks = append(lane.Blocks, b)
			}
		}

		sortBlocks(lane.Blocks)
		lane.Gaps = gaps(lane.Blocks, now)
		lanes = append(lanes, lane)
	}

	// Reservations that no partition uses: somebody pays for them.
	rest := Lane{}
	for _, r := range snap.Reservations {
		if b, shown := block(r, snap.Timing.Window(r)); shown && !used[r.ID] {
			rest.Blocks = append(rest.Blocks, b)
		}
	}

	sortBlocks(rest.Blocks)

	if len(rest.Blocks) > 0 {
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
