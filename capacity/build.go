package capacity

import (
	"cmp"
	"slices"
	"time"
)

// Seen is what AWS was seen to have.
type Seen struct {
	// Reservations in any order; one can be there twice. A node group that selects by
	// tags gets those of them that carry the tags, and an id of the settings, or of a group,
	// that is not among them is one that EC2 does not describe.
	Reservations []Reservation
	Subnets      []Subnet
	// Platforms are those of the images of launch templates, as the settings name these.
	Platforms map[string]ImagePlatform
	// Members of the groups that settings select.
	Members Members
	// Held is the reservation that each PCS compute node group was set up for, by the
	// group's name: "" for one that was set up for none, no entry for one that does not
	// exist or was not asked about.
	Held map[string]string
	// Before is the last snapshot, and Instances are ours that run, with the tags of their
	// nodes: see placement. Both can be nil; Instances count only without Before.
	Before    *Snapshot
	Instances []Instance
	// Now is AWS's time; zero is that of Before.
	Now time.Time
}

// Build makes the snapshot that settings and what was seen of AWS amount to. What Slurm
// says, the region and the times are for the caller to add.
func Build(s Settings, seen Seen) *Snapshot {
	snap := &Snapshot{Cluster: s.Cluster, Submit: s.Submit, Timing: s.Timing, ReserveOff: !s.Reserve.Enabled, Partitions: []Partition{}, Reservations: []Reservation{}}
	there := map[string]bool{}
	for _, r := range seen.Reservations {
		if !there[r.ID] {
			there[r.ID] = true
			snap.Reservations = append(snap.Reservations, r)
		}
	}
	where := placementOf(s, seen, snap)
	for _, p := range s.Partitions {
		out := Partition{Name: p.Name, Provider: p.Provider, AllowAccounts: p.AllowAccounts, AllowGroups: p.AllowGroups, MinTime: p.MinTime, OnEnd: p.OnEnd}
		for _, g := range p.Groups {
			group := NodeGroup{Name: g.Name, InstanceType: g.InstanceType, OtherTypes: g.OtherTypes, PurchaseOption: g.PurchaseOption,
				MaxNodes: g.MaxNodes, Dynamic: g.Dynamic, Subnets: []Subnet{}}
			if p.Provider == ProviderEC2 { // on PCS setup has compared it, and nothing else launches
				image := seen.Platforms[g.LaunchTemplate]
				group.Platform, group.PlatformOf = image.Platform, image.Template
			}
			if g.Reserve == ReservePerJob {
				group.Reserve = g.Reserve
			}
			for _, id := range g.SubnetIDs {
				if i := slices.IndexFunc(seen.Subnets, func(s Subnet) bool { return s.ID == id }); i >= 0 {
					group.Subnets = append(group.Subnets, seen.Subnets[i])
				}
			}
			ids := g.reservations(snap, seen.Members)
			if !g.PurchaseOption.Reserved() {
				group.ReuseIDs, ids = ids, nil
			}
			group.Slots = fillSlots(p.Provider, g.SlotNames(p.Provider), ids, where, snap, p.Provider == ProviderEC2 && g.PurchaseOption == Mixed)
			out.Groups = append(out.Groups, group)
		}
		snap.Partitions = append(snap.Partitions, out)
	}
	return snap
}

// reservations are the ids of a node group: those of the settings in their order, and
// those that it selects by their start.
func (g GroupSettings) reservations(snap *Snapshot, members Members) []string {
	ids := slices.Clone(g.ReservationIDs)
	var chosen []Reservation
	for _, r := range snap.Reservations {
		if g.Select.Matches(r, members) {
			chosen = append(chosen, r)
		}
	}
	if g.Select != nil {
		for _, id := range members[g.Select.Group] {
			if _, known := snap.Reservation(id); !known {
				chosen = append(chosen, Reservation{ID: id})
			}
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
