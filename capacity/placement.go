package capacity

import (
	"cmp"
	"slices"
	"time"
)

// placement is where reservations are already. One that nodes may run in never leaves its
// slot while it is live, whatever begins, ends or is added to the settings beside it; and
// one that jobs wait for stays where their constraints send them.
type placement struct {
	// holds is the reservation that has a slot, by the slot's name.
	holds map[string]string
	// slots are the slots of the others, by reservation.
	slots map[string]string
}

// placementOf learns where reservations are: on PCS from what the compute node groups
// were set up for; with provider ec2 from the last snapshot or, where that was lost, from
// what the nodes' instances run in. snap has the reservations as they are now.
func placementOf(s Settings, seen Seen, snap *Snapshot) placement {
	at := placement{holds: map[string]string{}, slots: map[string]string{}}
	if seen.Before != nil {
		for _, p := range seen.Before.Partitions {
			for _, g := range p.Groups {
				for _, slot := range g.Slots {
					at.learn(seen, p.Provider, slot, snap)
				}
			}
		}
	} else {
		for _, i := range seen.Instances {
			id := i.Tags[TagReservation]
			if _, _, slot, ok := s.PlaceOf(i.Tags[TagNode]); ok && id != "" && !i.Ended() {
				at.holds[slot], at.slots[id] = id, slot
			}
		}
	}
	for slot, id := range seen.Held {
		at.holds[slot] = id
	}
	return at
}

// learn takes a slot of the last snapshot.
func (at placement) learn(seen Seen, p Provider, slot Slot, snap *Snapshot) {
	before := seen.Before
	for _, t := range before.Turns(slot) {
		// What waits has no nodes, and may go wherever it need not.
		if !t.Waits(before.TakenAt) {
			at.slots[t.Reservation.ID] = slot.Name
		}
	}
	if p != ProviderEC2 {
		return
	}
	// What had the slot then keeps it, as long as it lives. What had it next has it since that
	// ended: its fence has opened, and jobs have started behind it.
	for _, when := range []time.Time{before.TakenAt, seen.Now} {
		standing := before.Standing(slot, when)
		if len(standing.Current) == 0 || standing.Current[0].Window.Start.After(when) {
			continue
		}
		id := standing.Current[0].Reservation.ID
		if r, known := snap.Reservation(id); known && r.LiveAt(when) {
			at.holds[slot.Name] = id
			return
		}
	}
}

// fillSlots puts reservations into slots. What has a slot keeps it. The others go, in the
// order in which they begin, to where they are already if they need not wait there, else
// to where they begin first, and of several such slots to the emptiest. With together, those
// without an end share a slot if they can, so that the other one is free for those that have one.
func fillSlots(p Provider, names, ids []string, where placement, snap *Snapshot, together bool) []Slot {
	slots := make([]Slot, len(names))
	rest := slices.Clone(ids)
	for i, name := range names {
		slots[i].Name = name
		held := where.holds[name]
		r, known := snap.Reservation(held)
		// PCS itself says what a node group is for; elsewhere settings say what there is.
		if held == "" || p != ProviderPCS && !(slices.Contains(rest, held) && known && r.State.Live()) {
			continue
		}
		slots[i].Holds, slots[i].ReservationIDs = held, []string{held}
		slots[i].Unnamed = !slices.Contains(ids, held) && known && r.State.Live()
		rest = slices.DeleteFunc(rest, func(id string) bool { return id == held })
	}
	slices.SortStableFunc(rest, func(a, b string) int {
		x, _ := snap.Reservation(a)
		y, _ := snap.Reservation(b)
		return cmp.Or(rank(!snap.lasts(a))-rank(!snap.lasts(b)), x.Start.Compare(y.Start))
	})
	for _, id := range rest {
		i := snap.bestSlot(slots, id, where.slots[id], together)
		slots[i].ReservationIDs = append(slots[i].ReservationIDs, id)
	}
	for _, slot := range slots {
		slices.SortStableFunc(slot.ReservationIDs, func(a, b string) int {
			x, _ := snap.Reservation(a)
			y, _ := snap.Reservation(b)
			ended := func(r Reservation) int { return rank(r.ID != "" && !r.State.Live()) }
			return cmp.Or(rank(a != slot.Holds)-rank(b != slot.Holds), ended(x)-ended(y), slices.Index(ids, a)-slices.Index(ids, b))
		})
	}
	return slots
}

// lasts reports whether a reservation counts while its neighbours are placed: it may be
// there, or it was, and they stay where they were beside it when it has ended.
func (s *Snapshot) lasts(id string) bool {
	r, known := s.Reservation(id)
	return !known || r.State.Live() || r.State == StateExpired && !r.End.IsZero()
}

func (s *Snapshot) bestSlot(slots []Slot, id, already string, together bool) int {
	best := 0
	var first Turn
	for i, slot := range slots {
		slot.ReservationIDs = append(slices.Clone(slot.ReservationIDs), id)
		turns := s.turns(slot, func(r Reservation) bool { return s.lasts(r.ID) })
		t := turns[slices.IndexFunc(turns, func(t Turn) bool { return t.Reservation.ID == id })]
		if over := !t.Unknown && !t.Reservation.State.Live(); slot.Name == already && (over || t.Behind == "") {
			return i
		}
		fuller := len(slot.ReservationIDs) - 1 - len(slots[best].ReservationIDs)
		if together && t.Window.Unbounded() {
			fuller = cmp.Or(s.endless(slots[best])-s.endless(slots[i]), fuller)
		}
		if i == 0 || cmp.Or(rank(t.Never)-rank(first.Never), t.Window.Start.Compare(first.Window.Start), fuller) < 0 {
			best, first = i, t
		}
	}
	return best
}

// endless counts the reservations of a slot that have no end.
func (s *Snapshot) endless(slot Slot) int {
	n := 0
	for _, id := range slot.ReservationIDs {
		if r, known := s.Reservation(id); known && s.Timing.Window(r).Unbounded() {
			n++
		}
	}
	return n
}
