package capacity

import (
	"fmt"
	"time"
)

// Waiting is a reservation that another one keeps from its slot though it is, or will be,
// open: it is paid for and not used.
type Waiting struct{ Place }

// Waiting finds what waits in the slots of the snapshot.
func (s *Snapshot) Waiting(now time.Time) []Waiting {
	var all []Waiting
	for _, p := range s.Places() {
		if p.Waits(now) && p.Reservation.LiveAt(now) {
			all = append(all, Waiting{p})
		}
	}
	return all
}

// Until is when the reservation has its slot, in a few words.
func (w Waiting) Until() string {
	if w.Never {
		return "it never gets its turn"
	}
	return "until " + FormatUTC(w.Window.Start)
}

// String is the text of Problem.
func (w Waiting) String() string { return w.Problem().Text() }

// Problem says how to use both at once.
func (w Waiting) Problem() Problem {
	way := "give it a node group of its own to use both at once"
	if w.Provider == ProviderEC2 && w.Slots == 1 {
		way = fmt.Sprintf("set slots = 2 for node group %s, or %s", w.Group, way)
	}
	return Problemf(SlotTaken, Subject{Partition: w.Partition, Slot: w.Slot, Reservation: w.Reservation.ID}, way,
		"reservation %s waits for %s, which has slot %s (%s)", w.Reservation.ID, w.Behind, w.Slot, w.Until())
}
