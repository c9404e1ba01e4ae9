package capacity

import (
	"cmp"
	"slices"
	"time"
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
