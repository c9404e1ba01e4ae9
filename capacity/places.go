package capacity

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
