package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// SlotRef points to a slot in its node group and partition. A change through it changes the partition.
type SlotRef struct {
	Partition *Partition
	Group     *NodeGroup
	Slot      *Slot
}

// AllSlots returns all slots of partitions, in their order.
func AllSlots(partitions []Partition) (all []SlotRef) {
	for i := range partitions {
		p := &partitions[i]
		for k := range p.Groups {
			g := &p.Groups[k]
			for n := range g.Slots {
				all = append(all, SlotRef{p, g, &g.Slots[n]})
			}
		}
	}

	return all
}

// FindSlot finds a slot by name.
func (s *Snapshot) FindSlot(slot string) (SlotRef, bool) {
	for _, at := range AllSlots(s.Partitions) {
		if at.Slot.Name == slot {
			return at, true
		}
	}

	return SlotRef{}, false
}

// Turn says when a reservation has its slot.
//
// A slot has one reservation with an end at a time, because its nodes have one fence. A reservation that overlaps
// another waits until the other has ended. Reservations without an end share a slot: none has to end before another
// begins.
type Turn struct {
	SlotRef
	Reservation Reservation // zero for nodes that are launched on demand
	Window      Window      // the reservation's window, from when the slot is free for it
	Behind      string      // the reservation that has the slot until then; "" if the slot is free in time
	Never       bool        // Behind has the slot until after this reservation's fence
	Unknown     bool        // EC2 did not describe the reservation, so only its id is set
}

// IsWaiting reports whether, now or later, another reservation has the slot while this one is open.
func (t Turn) IsWaiting(now time.Time) bool {
	return t.Behind != "" && (t.Never || t.Window.Start.After(now))
}

// Turns returns the turns of all reservations of a slot: first the one that holds it, then the others by start, or in
// the order of the settings if they start together. Reservations that have ended, or that EC2 did not describe, take
// no time.
func (s *Snapshot) Turns(at SlotRef) []Turn {
	return s.turns(at, at.Slot.ReservationIDs, Reservation.isLive)
}

func (s *Snapshot) turns(at SlotRef, ids []string, takesTime func(Reservation) bool) (turns []Turn) {
	for _, id := range ids {
		r, known := s.Reservation(id)
		if !known {
			r.ID = id
		}

		turns = append(turns, Turn{SlotRef: at, Reservation: r, Window: s.Timing.Window(r), Unknown: !known})
	}

	// The occupant goes first even if another starts earlier: nodes run in it.
	slices.SortStableFunc(turns, func(a, b Turn) int {
		return cmp.Or(rank(a.Reservation.ID != at.Slot.Occupant)-rank(b.Reservation.ID != at.Slot.Occupant),
			a.Window.Start.Compare(b.Window.Start))
	})

	var last Turn // the last one with an end

	endless := "" // a reservation that keeps the slot forever
	for i := range turns {
		t := &turns[i]
		if t.Unknown || !takesTime(t.Reservation) {
			continue
		}

		// Nodes have one fence. While a reservation without an end has them, none with an end can.
		if endless != "" && !t.Window.Unbounded() {
			t.Behind = endless
			t.Never = true

			continue
		}

		// Two blocks overlap: the later one gets the slot when the earlier one has ended.
		if last.Window.End.After(t.Window.Start) {
			t.Behind = last.Reservation.ID
			t.Window.Start = last.Window.End
		}

		switch {
		case t.Window.Unbounded():
			endless = t.Reservation.ID
		case t.Window.Start.Before(t.Window.Fence):
			last = *t
		default:
			t.Never = t.Behind != ""
		}
	}

	return turns
}

// SlotState holds the state of a slot at a moment.
type SlotState struct {
	// Turn is the first of Current. Without one it has no reservation, and is Unknown if EC2 did not describe one.
	Turn
	// Current are the turns that have the slot, or have it next if none has it: one with an end, or all those without.
	// It is empty if no reservation of the slot is live.
	Current []Turn
	Next    Turn // Next has the slot when a current one has ended; its Reservation is zero if there is none
	// Last is the window of the reservation that ended last, if none is live; LastID is its id.
	Last   Window
	LastID string
	Former bool // the settings no longer have the slot
}

// SlotState returns the state of a slot. Admission, launch and fence all use it.
func (s *Snapshot) SlotState(at SlotRef, now time.Time) SlotState {
	return s.slotState(at, at.Slot.ReservationIDs, now)
}

func (s *Snapshot) slotState(at SlotRef, ids []string, now time.Time) SlotState {
	out := SlotState{Turn: Turn{SlotRef: at}}
	for _, t := range s.turns(at, ids, Reservation.isLive) {
		switch {
		case t.Unknown:
			out.Unknown = true
		case !t.Reservation.IsLiveAt(now):
			// Its own window: an ended reservation waits for no other.
			if t.Window.Fence.After(out.Last.Fence) {
				out.Last = t.Window
				out.LastID = t.Reservation.ID
			}
		case t.Never:
		case len(out.Current) == 0, t.Window.Unbounded() && out.Current[0].Window.Unbounded():
			out.Current = append(out.Current, t)
		case out.Next.Reservation.ID == "":
			out.Next = t
		}
	}

	// Last only explains a slot without a reservation.
	if len(out.Current) > 0 {
		out.Turn = out.Current[0]
		out.Last = Window{}
		out.LastID = ""
	}

	return out
}

// SlotStates returns the state of all slots. A PCS compute node group holds the block that it was set up for, which
// comes first; further ids wait for a free group. A slot whose live reservation has left the settings keeps it too.
func (s *Snapshot) SlotStates(now time.Time) (all []SlotState) {
	before := map[string][]string{}
	for _, at := range AllSlots(s.Former) {
		before[at.Slot.Name] = append(before[at.Slot.Name], at.Slot.ReservationIDs...)
	}

	for _, at := range AllSlots(s.Partitions) {
		ids := at.Slot.ReservationIDs
		if at.Partition.Provider.Configures() && len(ids) > 1 {
			ids = ids[:1]
		}

		all = append(all, s.slotState(at, slices.Concat(ids, before[at.Slot.Name]), now))
		delete(before, at.Slot.Name)
	}

	for _, at := range AllSlots(s.Former) {
		// The slot itself has left the settings, but its jobs still need their fence.
		if before[at.Slot.Name] != nil {
			former := s.SlotState(at, now)
			former.Former = true
			all = append(all, former)
		}
	}

	return all
}

// Event names the next thing that happens to a slot; zero if nothing does.
type Event struct {
	At   time.Time
	What string
}

// Event returns the next one after now.
func (s SlotState) Event(now time.Time) Event {
	w := s.Window
	events := []Event{
		{w.Start, "opens"},
		{w.Fence, "fence"},
		{w.Reclaim, "EC2 takes instances back"},
		{w.End, "ends"},
	}
	for _, e := range events {
		if s.Reservation.ID != "" && e.At.After(now) {
			return e
		}
	}

	return Event{}
}

func (r Reservation) isLive() bool { return r.State.IsLive() }

// IsLiveAt reports whether a reservation is open at a time, or may still open.
func (r Reservation) IsLiveAt(now time.Time) bool {
	return r.isLive() && (r.End.IsZero() || r.End.After(now))
}

// AllTurns returns the turns in all slots of the partitions.
func (s *Snapshot) AllTurns() (all []Turn) {
	for _, at := range AllSlots(s.Partitions) {
		all = append(all, s.Turns(at)...)
	}

	return all
}

// IdleByReservation returns the least number of idle nodes in each reservation, by id, from the idle nodes of each
// slot. If several reservations of a slot have instances, only EC2 knows which of them a node runs in, so
// IdleByReservation attributes as many idle nodes as possible to the others.
func (s *Snapshot) IdleByReservation(idleBySlot map[string]int) map[string]int {
	turns := s.AllTurns()

	used := map[string]int{} // by slot
	for _, t := range turns {
		used[t.Slot.Name] += t.Reservation.Used()
	}

	idle := map[string]int{} // by reservation
	for _, t := range turns {
		own := t.Reservation.Used()

		// The fewest idle nodes that the counts allow: an idle node is billed to nobody twice.
		others := used[t.Slot.Name] - own
		idle[t.Reservation.ID] = max(0, min(own, idleBySlot[t.Slot.Name]-others))
	}

	return idle
}

// WaitingTurns returns the reservations that are, or will be, open while another one has their slot: paid for and not
// used.
func (s *Snapshot) WaitingTurns(now time.Time) []Turn {
	return slices.DeleteFunc(s.AllTurns(), func(t Turn) bool {
		return !t.IsWaiting(now) || !t.Reservation.IsLiveAt(now)
	})
}

// WaitProblem says how to use both reservations at once, of a turn that waits.
func (t Turn) WaitProblem() Problem {
	way := "give it a node group of its own to use both at once"
	until := "until " + FormatUTC(t.Window.Start)
	if t.Partition.Provider.Launches() && len(t.Group.Slots) == 1 {
		way = fmt.Sprintf("set slots = 2 for node group %s, or %s", t.Group.Name, way)
	}

	if t.Never {
		until = "it never gets its turn"
	}

	about := Subject{Partition: t.Partition.Name, Slot: t.Slot.Name, Reservation: t.Reservation.ID}

	return Problemf(SlotTaken, about, way, "reservation %s waits for %s, which has slot %s (%s)",
		t.Reservation.ID, t.Behind, t.Slot.Name, until)
}

// EarliestFence returns when jobs on nodes must be gone: the earliest fence of the partition's slots that contain
// any of the nodes. It is zero if none of these slots has a reservation with an end.
func (s *Snapshot) EarliestFence(partition string, nodes []string, now time.Time) (earliest time.Time) {
	p, _ := s.Partition(partition)
	for _, at := range AllSlots([]Partition{p}) {
		has, err := hostlist.Expand(at.Slot.Nodes)

		// A slot whose nodes are unknown may have any of them.
		known := err == nil && len(has) > 0
		if known && !slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(has, n) }) {
			continue
		}

		w := s.SlotState(at, now).Window
		if !w.Unbounded() && (earliest.IsZero() || w.Fence.Before(earliest)) {
			earliest = w.Fence
		}
	}

	return earliest
}
