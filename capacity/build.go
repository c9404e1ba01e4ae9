package capacity

import (
	"cmp"
	"slices"
	"time"
)

// Seen is what a pass read from AWS.
type Seen struct {
	// Reservations may come in any order and twice. A node group that selects by tags gets the ones with those tags. An
	// id of the settings or of a group that is not listed here is one that EC2 does not describe.
	Reservations []Reservation
	Subnets      []Subnet
	// Platforms of the launch templates' images, by the templates' names in the settings.
	Platforms map[string]ImagePlatform
	// Held is the reservation of each PCS compute node group, by the group's name: "" for a group without one. A group
	// that does not exist, or was not read, has no entry.
	Held map[string]string
	// Before is the last snapshot. Instances are our running instances, with their nodes' tags (see placement); they
	// count only without Before. Both may be nil.
	Before    *Snapshot
	Instances []Instance
	// Now is AWS's time; zero stands for the time of Before.
	Now time.Time
}

// Build makes the snapshot from the settings and what was seen of AWS. The caller adds Slurm's facts, the region and
// the times.
func Build(s Settings, seen Seen) *Snapshot {
	snap := &Snapshot{
		Cluster:      s.Cluster,
		Submit:       s.Submit,
		Timing:       s.Timing,
		ReserveOff:   !s.Reserve.Enabled,
		Partitions:   []Partition{},
		Reservations: []Reservation{},
	}
	there := map[string]bool{}
	for _, r := range seen.Reservations {
		if !there[r.ID] {
			there[r.ID] = true
			snap.Reservations = append(snap.Reservations, r)
		}
	}
	where := placementOf(s, seen, snap)
	for _, p := range s.Partitions {
		out := Partition{
			Name:          p.Name,
			Provider:      p.Provider,
			AllowAccounts: p.AllowAccounts,
			AllowGroups:   p.AllowGroups,
			MinTime:       p.MinTime,
			OnEnd:         p.OnEnd,
			TooLong:       p.TooLong,
		}
		for _, g := range p.Groups {
			group := NodeGroup{
				Name:           g.Name,
				InstanceType:   g.InstanceType,
				OtherTypes:     g.OtherTypes,
				PurchaseOption: g.PurchaseOption,
				MaxNodes:       g.MaxNodes,
				Dynamic:        g.Dynamic,
				Subnets:        []Subnet{},
			}
			if p.Provider.Launches() { // on PCS setup has compared it, and only PCS launches
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
			ids := g.reservations(snap)
			if !g.PurchaseOption.Reserved() {
				group.ReuseIDs, ids = ids, nil
			}
			group.Slots = fillSlots(p.Provider, g.SlotNames(p.Provider), ids, where, snap)
			out.Groups = append(out.Groups, group)
		}
		snap.Partitions = append(snap.Partitions, out)
	}
	return snap
}

// reservations returns the ids of a node group: first those of the settings in their order, then those it selects, by
// start.
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
