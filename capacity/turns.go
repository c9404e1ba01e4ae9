package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Turn is the time in which a reservation has its slot.
//
// A slot has one reservation with an end at a time, because its nodes have one fence. A reservation that overlaps
// another waits until the other has ended. Reservations without an end share a slot: none has to end before another
// begins.
type Turn struct {
	Reservation Reservation
	// Window is the reservation's window, from when the slot is free for it.
	Window Window
	// Behind is the reservation that has the slot until then; "" if the slot is free in time.
	Behind string
	// Never: Behind has the slot until after this reservation's fence.
	Never bool
	// Unknown: EC2 did not describe the reservation, so only its id is set.
	Unknown bool
}

// Waits reports whether, now or later, another reservation has the slot while this one is open.
func (t Turn) Waits(now time.Time) bool {
	return t.Behind != "" && (t.Never || t.Window.Start.After(now))
}

// Turns returns the turns of all reservations of a slot: first the one that holds it, then the others by start, or in
// the order of the settings if they start together. Reservations that have ended, or that EC2 did not describe, take
// no time.
func (s *Snapshot) Turns(slot Slot) []Turn {
	return s.turns(slot, func(r Reservation) bool { return r.State.Live() })
}

func (s *Snapshot) turns(slot Slot, takesTime func(Reservation) bool) []Turn {
	var turns []Turn
	for _, id := range slot.ReservationIDs {
		r, known := s.Reservation(id)
		if !known {
			r.ID = id
		}
		turns = append(turns, Turn{Reservation: r, Window: s.Timing.Window(r), Unknown: !known})
	}
	slices.SortStableFunc(turns, func(a, b Turn) int {
		return cmp.Or(rank(a.Reservation.ID != slot.Holds)-rank(b.Reservation.ID != slot.Holds),
			a.Window.Start.Compare(b.Window.Start))
	})
	var last Turn // of the turns with an end
	endless := "" // a reservation that has the slot for ever
	for i := range turns {
		t := &turns[i]
		if t.Unknown || !takesTime(t.Reservation) {
			continue
		}
		if endless != "" && !t.Window.Unbounded() {
			t.Behind, t.Never = endless, true
			continue
		}
		if last.Window.End.After(t.Window.Start) {
			t.Behind, t.Window.Start = last.Reservation.ID, last.Window.End
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

// Standing is the state of a slot at a moment.
type Standing struct {
	// Current are the turns that have the slot, or have it next if none has it: one with an end, or all those without.
	// It is empty if no reservation of the slot is live.
	Current []Turn
	// Next has the slot when a current one has ended; its Reservation is zero if there is none.
	Next Turn
	// Last is the window of the reservation that ended last, if none is live; LastID is its id.
	Last   Window
	LastID string
	// Unknown: EC2 did not describe a reservation of the slot, and none is live.
	Unknown bool
}

// Standing returns the state of a slot. Admission, launch and fence all use it.
func (s *Snapshot) Standing(slot Slot, now time.Time) Standing {
	var at Standing
	for _, t := range s.Turns(slot) {
		switch {
		case t.Unknown:
			at.Unknown = true
		case !t.Reservation.LiveAt(now):
			// Its own window: an ended reservation waits for no other.
			if t.Window.Fence.After(at.Last.Fence) {
				at.Last, at.LastID = t.Window, t.Reservation.ID
			}
		case t.Never:
		case len(at.Current) == 0, t.Window.Unbounded() && at.Current[0].Window.Unbounded():
			at.Current = append(at.Current, t)
		case at.Next.Reservation.ID == "":
			at.Next = t
		}
	}
	if len(at.Current) > 0 {
		at.Unknown, at.Last, at.LastID = false, Window{}, ""
	}
	return at
}

// LiveAt reports whether a reservation is open at a time, or may still open.
func (r Reservation) LiveAt(now time.Time) bool {
	return r.State.Live() && (r.End.IsZero() || r.End.After(now))
}

// Place is a reservation in a slot, with its turn there.
type Place struct {
	Turn
	Partition, Group, Slot string
	// Slots is the node group's number of slots; Provider launches its nodes.
	Slots    int
	Provider Provider
}

// Places returns the places of all reservations of the partitions.
func (s *Snapshot) Places() []Place {
	var all []Place
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			for _, slot := range g.Slots {
				for _, t := range s.Turns(slot) {
					all = append(all, Place{t, p.Name, g.Name, slot.Name, len(g.Slots), p.Provider})
				}
			}
		}
	}
	return all
}

// IdleIn is the least number of idle nodes in each reservation, by id, from the idle nodes of each slot. If several
// reservations of a slot have instances, only EC2 knows which of them a node runs in, so IdleIn attributes as many
// idle nodes as possible to the others.
func (s *Snapshot) IdleIn(idleBySlot map[string]int) map[string]int {
	used := map[string]int{} // by slot
	places := s.Places()
	for _, p := range places {
		used[p.Slot] += p.Reservation.Used()
	}
	idle := map[string]int{}
	for _, p := range places {
		own := p.Reservation.Used()
		idle[p.Reservation.ID] = max(0, min(own, idleBySlot[p.Slot]-(used[p.Slot]-own)))
	}
	return idle
}

// Waiting is a reservation that is, or will be, open while another one has its slot: it is paid for and not used.
type Waiting struct{ Place }

// Waiting finds the waiting reservations in the snapshot's slots.
func (s *Snapshot) Waiting(now time.Time) []Waiting {
	var all []Waiting
	for _, p := range s.Places() {
		if p.Waits(now) && p.Reservation.LiveAt(now) {
			all = append(all, Waiting{p})
		}
	}
	return all
}

// Until is when the reservation gets its slot, in a few words.
func (w Waiting) Until() string {
	if w.Never {
		return "it never gets its turn"
	}
	return "until " + FormatUTC(w.Window.Start)
}

// String is the text of Problem.
func (w Waiting) String() string { return w.Problem().Text() }

// Problem says how to use both reservations at once.
func (w Waiting) Problem() Problem {
	way := "give it a node group of its own to use both at once"
	if w.Provider.Launches() && w.Slots == 1 {
		way = fmt.Sprintf("set slots = 2 for node group %s, or %s", w.Group, way)
	}
	return Problemf(SlotTaken, Subject{Partition: w.Partition, Slot: w.Slot, Reservation: w.Reservation.ID}, way,
		"reservation %s waits for %s, which has slot %s (%s)", w.Reservation.ID, w.Behind, w.Slot, w.Until())
}

// FenceOf is when jobs on nodes, a hostlist, must be gone: the earliest fence of the partition's slots that contain
// any of the nodes. It is zero if none of these slots has a reservation with an end.
func (s *Snapshot) FenceOf(partition string, nodes []string, now time.Time) time.Time {
	var earliest time.Time
	p, _ := s.Partition(partition)
	for _, g := range p.Groups {
		for _, slot := range g.Slots {
			has, err := hostlist.Expand(slot.Nodes)
			known := err == nil && len(has) > 0
			if known && !slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(has, n) }) {
				continue
			}
			for _, t := range s.Standing(slot, now).Current {
				if !t.Window.Unbounded() && (earliest.IsZero() || t.Window.Fence.Before(earliest)) {
					earliest = t.Window.Fence
				}
			}
		}
	}
	return earliest
}
