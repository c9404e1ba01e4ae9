package capacity

import (
	"cmp"
	"slices"
	"time"
)

// Turn is the time for which a reservation has its slot.
//
// A slot has one reservation with an end at a time: its nodes have one fence. One that
// overlaps another waits until that has ended. Reservations without an end share a slot,
// because nothing has to be over before another one begins.
type Turn struct {
	Reservation Reservation
	// Window is the reservation's, from when the slot is free for it.
	Window Window
	// Behind is the reservation that has the slot until then; "" if it is free in time.
	Behind string
	// Never: Behind has the slot until after this one's fence.
	Never bool
	// Unknown: EC2 did not describe the reservation, so that only its id is there.
	Unknown bool
}

// Waits reports whether another reservation has the slot at a time, now or later, at
// which this one is open.
func (t Turn) Waits(now time.Time) bool {
	return t.Behind != "" && (t.Never || t.Window.Start.After(now))
}

// Turns are those of all reservations of a slot: the one that holds it first, the others
// by their start, in the order of the settings where they start together. Those that
// have ended, or that EC2 did not describe, take no time.
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
		return cmp.Or(rank(a.Reservation.ID != slot.Holds)-rank(b.Reservation.ID != slot.Holds), a.Window.Start.Compare(b.Window.Start))
	})
	var last Turn // of those that have an end
	endless := "" // a reservation that has the slot for good
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

// Standing is what counts in a slot at a moment.
type Standing struct {
	// Current are the turns that have the slot, or have it next if none has it: one with
	// an end, or all without. There is none if no reservation of the slot is live.
	Current []Turn
	// Next has the slot when a current one has ended; its Reservation is zero if none has.
	Next Turn
	// Last is the window of what ended last, when nothing is live, and LastID its id.
	Last   Window
	LastID string
	// Unknown: EC2 did not describe a reservation of the slot, and none is live.
	Unknown bool
}

// Standing finds what counts in a slot. Admission, launch and fence all go by it.
func (s *Snapshot) Standing(slot Slot, now time.Time) Standing {
	var at Standing
	for _, t := range s.Turns(slot) {
		switch {
		case t.Unknown:
			at.Unknown = true
		case !t.Reservation.LiveAt(now):
			// Its own window: what ended is behind nothing.
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
