package capacity

import (
	"cmp"
	"slices"
)

// Seen is what AWS was seen to have.
type Seen struct {
	// Reservations in any order; one can be there twice. A node group that selects by
	// tags gets those of them that carry the tags, and an id of the settings that is not
	// among them is one that EC2 does not describe.
	Reservations []Reservation
	Subnets      []Subnet
	// Held is the reservation that each PCS compute node group was set up for, by the
	// group's name: "" for one that was set up for none, no entry for one that does not
	// exist or was not asked about.
	Held map[string]string
}

// Build makes the snapshot that settings and what was seen of AWS amount to. What Slurm
// says, the region and the times are for the caller to add.
func Build(s Settings, seen Seen) *Snapshot {
	snap := &Snapshot{Cluster: s.Cluster, Submit: s.Submit, Timing: s.Timing, Partitions: []Partition{}, Reservations: []Reservation{}}
	there := map[string]bool{}
	for _, r := range seen.Reservations {
		if !there[r.ID] {
			there[r.ID] = true
			snap.Reservations = append(snap.Reservations, r)
		}
	}
	for _, p := range s.Partitions {
		out := Partition{Name: p.Name, Provider: p.Provider, AllowAccounts: p.AllowAccounts, MinTime: p.MinTime}
		for _, g := range p.Groups {
			group := NodeGroup{Name: g.Name, InstanceType: g.InstanceType, PurchaseOption: g.PurchaseOption,
				MaxNodes: g.MaxNodes, Dynamic: g.Dynamic, Subnets: []Subnet{}}
			for _, id := range g.SubnetIDs {
				if i := slices.IndexFunc(seen.Subnets, func(s Subnet) bool { return s.ID == id }); i >= 0 {
					group.Subnets = append(group.Subnets, seen.Subnets[i])
				}
			}
			group.Slots = fillSlots(SlotNames(p.Provider, g.Name), g.reservations(snap), seen.Held, snap)
			out.Groups = append(out.Groups, group)
		}
		snap.Partitions = append(snap.Partitions, out)
	}
	return snap
}

// reservations are the ids of a node group: those of the settings in their order, and
// those that its tags choose by their start.
func (g GroupSettings) reservations(snap *Snapshot) []string {
	ids := slices.Clone(g.ReservationIDs)
	var chosen []Reservation
	for _, r := range snap.Reservations {
		if g.Select.Matches(r) {
			chosen = append(chosen, r)
		}
	}
	slices.SortStableFunc(chosen, func(a, b Reservation) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range chosen {
		ids = append(ids, r.ID)
	}
	return ids
}

// fillSlots puts reservations into slots. What a slot is set up for stays first in it.
// The others fill the slots in turn, those that may still open before those that ended:
// there they are going to be.
func fillSlots(names, ids []string, held map[string]string, snap *Snapshot) []Slot {
	slots := make([]Slot, len(names))
	taken := map[string]bool{}
	for i, name := range names {
		slots[i].Name = name
		if id := held[name]; id != "" {
			slots[i].ReservationIDs = []string{id}
			taken[id] = true
		}
	}
	var live, ended []string
	for _, id := range ids {
		r, known := snap.Reservation(id)
		switch {
		case taken[id]:
		case known && !r.State.Live():
			ended = append(ended, id)
		default:
			live = append(live, id)
		}
	}
	for _, id := range append(live, ended...) {
		emptiest := &slots[0]
		for i := range slots {
			if len(slots[i].ReservationIDs) < len(emptiest.ReservationIDs) {
				emptiest = &slots[i]
			}
		}
		emptiest.ReservationIDs = append(emptiest.ReservationIDs, id)
	}
	return slots
}
