package capacity

import "slices"

// Settings is what an administrator wrote, as far as decisions depend on it.
type Settings struct {
	Cluster    string
	Submit     Submit
	Timing     Timing
	OnMismatch OnMismatch
	Reserve    Reserve
	Partitions []PartitionSettings
}

// PartitionSettings are those of one partition.
type PartitionSettings struct {
	Name          string
	Provider      Provider
	AllowAccounts []string
	AllowGroups   []string
	MinTime       Duration
	OnEnd         OnEnd
	// RollOver: sync makes the compute node group of the next block, and removes that of one
	// that has ended. Provider pcs only.
	RollOver bool
	Groups   []GroupSettings
}

// RollsOver reports whether a partition rolls over by itself; "" asks about any.
func (s Settings) RollsOver(partition string) bool {
	return slices.ContainsFunc(s.Partitions, func(p PartitionSettings) bool {
		return p.RollOver && (partition == "" || p.Name == partition)
	})
}

// GroupSettings are those of one node group.
type GroupSettings struct {
	Name           string
	InstanceType   string
	SubnetIDs      []string
	PurchaseOption Kind
	// OtherTypes are launched where InstanceType has no room, in this order.
	OtherTypes []string
	// Reserve is for which jobs capacity is held.
	Reserve ReservePolicy
	// ReservationIDs in order; the next takes over when one ends.
	ReservationIDs []string
	// Select names reservations by their tags instead; nil if it does not.
	Select   *Select
	MaxNodes int
	// Dynamic nodes of a Capacity Block start for jobs.
	Dynamic        bool
	LaunchTemplate string
	// Slots is 2 for a node group of provider ec2 that has two; else it counts for nothing.
	Slots int
	// Nodes are the names of the node group's nodes, in the order of their bytes; none if
	// they are the names of its slots, a hyphen and a number.
	Nodes []string
}

// StaysUp reports whether Slurm has to leave idle nodes up, which is for Capacity Blocks alone:
// nodes of other kinds are launched for jobs.
func (g GroupSettings) StaysUp() bool { return g.PurchaseOption.Bought() && !g.Dynamic }

// Types are all that the node group may launch, in the order to try.
func (g GroupSettings) Types() []string { return append([]string{g.InstanceType}, g.OtherTypes...) }

// Select chooses reservations: by their tags, all that carry every one of them, or by their
// group.
//
// The value of a tag is literal: * and ? mean themselves, unlike in the filters of EC2, where they
// are wildcards. So what EC2 is asked for, what is found among reservations that are
// known already, and what a person reads in the settings is the same; and a block that
// costs a fortune is never taken in by half of a tag. Queries escape the values.
type Select struct {
	Tags map[string]string `toml:"tags,omitempty"`
	// Group is a Capacity Reservation group of AWS Resource Groups, by its name or ARN: all of
	// its members. Launches go into one of them, never into the group, of which EC2 would take
	// any member, with its own end.
	Group string `toml:"group,omitempty"`
}

// Members are the ids of the reservations in groups, by what settings call the groups.
type Members map[string][]string

// Matches reports whether the reservation is in the group, or carries every one of the tags.
// Without a tag nothing is chosen.
func (s *Select) Matches(r Reservation, members Members) bool {
	if s == nil {
		return false
	}
	if s.Group != "" {
		return slices.Contains(members[s.Group], r.ID)
	}
	for key, value := range s.Tags {
		if got, ok := r.Tags[key]; !ok || got != value {
			return false
		}
	}
	return len(s.Tags) > 0
}

// SelectedGroups are the groups that the named partitions select, or all if none is named;
// each once.
func (s Settings) SelectedGroups(partitions ...string) []string {
	var groups []string
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if len(partitions) > 0 && !slices.Contains(partitions, p.Name) || g.Select == nil || g.Select.Group == "" || slices.Contains(groups, g.Select.Group) {
				continue
			}
			groups = append(groups, g.Select.Group)
		}
	}
	return groups
}

// LaunchTemplates are those of the node groups that we launch, as the settings name them; each
// once.
func (s Settings) LaunchTemplates() []string {
	var names []string
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if p.Provider == ProviderEC2 && g.LaunchTemplate != "" && !slices.Contains(names, g.LaunchTemplate) {
				names = append(names, g.LaunchTemplate)
			}
		}
	}
	return names
}

// Members are those of the selected groups as the snapshot has them; s may be nil.
func (s *Snapshot) Members(settings Settings) Members {
	members := Members{}
	if s == nil {
		return members
	}
	for _, p := range settings.Partitions {
		for _, g := range p.Groups {
			if g.Select == nil || g.Select.Group == "" {
				continue
			}
			before, _ := s.Partition(p.Name)
			for _, old := range before.Groups {
				if old.Name == g.Name {
					members[g.Select.Group] = old.ReservationIDs()
				}
			}
		}
	}
	return members
}

// ReservationIDs are all that the node group has, in its slots or to be used up first.
func (g NodeGroup) ReservationIDs() []string {
	ids := slices.Clone(g.ReuseIDs)
	for _, s := range g.Slots {
		ids = append(ids, s.ReservationIDs...)
	}
	return ids
}
