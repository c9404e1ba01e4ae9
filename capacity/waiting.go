package capacity

import (
	"fmt"
	"time"
)

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
