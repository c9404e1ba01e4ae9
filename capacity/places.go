package capacity

// Place is a reservation in a slot, with the time for which it has it.
type Place struct {
	Turn
	Partition, Group, Slot string
	// Slots is how many slots the node group has, Provider who launches its nodes.
	Slots    int
	Provider Provider
}

// Places are those of all reservations that the partitions have.
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

// IdleIn is how many of the idle nodes of each slot run in each reservation, at least:
// where several reservations of a slot have instances, nobody but EC2 knows in which of
// them a node runs, so that the others are taken to have as many of them as they can.
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
