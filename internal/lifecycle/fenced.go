package lifecycle

import (
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file decides when a fence may go. The fence's name says what it guards: it goes when EC2 says that this has
// ended, or no longer ends, never because the settings do not name it, for they may be the wrong settings.

// mayGo reports whether a fence has nothing left to guard: its block has ended, its ODCR has no end any more, or it
// never gets this slot because another reservation has it.
func (s Seen) mayGo(g capacity.Guard) bool {
	if g.Block == "" {
		return true
	}
	r, known := s.Snap.Reservation(g.Block)
	if !known {
		r, known = s.Guarded[g.Block]
	}
	if !known {
		return s.Gone[g.Block]
	}
	if !r.LiveAt(s.Now) || r.End.IsZero() && !r.Kind.Bought() {
		return true
	}
	for _, v := range s.slots() {
		if v.slot.Name == g.Slot {
			for _, t := range s.Snap.Turns(v.slot) {
				if t.Reservation.ID == g.Block && t.Never {
					return true
				}
			}
			continue
		}
		// The settings have it in another slot.
		if !v.former && slices.Contains(v.slot.ReservationIDs, g.Block) &&
			(v.current.ID == g.Block || v.next.Reservation.ID == g.Block) {
			return true
		}
	}
	return false
}

// keptFences reports the fences that stay although the settings do not name their reservations, except those that the
// slots of the last snapshot report.
func (s Seen) keptFences(todo []ChangeGuard) (problems []capacity.Problem) {
	goes := map[string]bool{}
	for _, e := range todo {
		goes[e.Old] = true
		if e.Do == "delete" {
			goes[e.R.Name] = true
		}
	}
	for _, r := range s.Cluster.Reservations {
		g := r.Guard()
		if !r.Ours() || g.Kind != "fence" || g.Owner != s.Owner || goes[r.Name] {
			continue
		}
		if block, live := s.Guarded[g.Block]; live && block.LiveAt(s.Now) {
			problems = append(problems, unnamed(block, g.Slot, r.Name))
		} else if since, missing := s.Snap.Missing[g.Block]; missing {
			problems = append(problems, capacity.Problemf(capacity.ReservationMissing, capacity.Subject{Slot: g.Slot, Reservation: g.Block}, "",
				"EC2 has not described reservation %s since %s; its fence %s stays until %s",
				g.Block, capacity.FormatUTC(since), r.Name, capacity.FormatUTC(since.Add(missingFor))))
		}
	}
	return problems
}
