package capacity

import (
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Settings is the part of an administrator's settings that decisions depend on.
type Settings struct {
	Cluster    string
	Submit     Submit
	Timing     Timing
	Reserve    Reserve
	Partitions []PartitionSettings
}

// PartitionSettings are one [[partition]].
type PartitionSettings struct {
	Name          string   `toml:"name"`
	Provider      Provider `toml:"provider"`
	AllowAccounts []string `toml:"allow_accounts,omitempty"`
	// AllowGroups are Unix groups; provider ec2 only.
	AllowGroups []string `toml:"allow_groups,omitempty"`
	MinTime     Duration `toml:"min_time"`
	// OnEnd is for jobs that do not say themselves what happens to them at the fence.
	OnEnd OnEnd `toml:"on_end"`
	// TooLong is for jobs whose --time fits no window.
	TooLong TooLongRule `toml:"too_long"`
	// RollOver lets sync make the compute node group of the next block, and remove that of one
	// that has ended; provider pcs only.
	RollOver bool            `toml:"roll_over,omitempty"`
	Groups   []GroupSettings `toml:"node_group"`

	// File is where the partition is written down.
	File string `toml:"-"`
}

// RollsOver reports whether a partition has RollOver; "" asks about any partition.
func (s Settings) RollsOver(partition string) bool {
	return slices.ContainsFunc(s.Partitions, func(p PartitionSettings) bool {
		return p.RollOver && (partition == "" || p.Name == partition)
	})
}

// GroupSettings are one [[partition.node_group]].
type GroupSettings struct {
	// Name is the base name of the PCS compute node groups NAME-a and NAME-b, or the
	// prefix of the Slurm node names NAME-1, NAME-2, ….
	Name         string `toml:"name"`
	InstanceType string `toml:"instance_type"`
	// OtherTypes are launched on demand where InstanceType has no room, in this order.
	OtherTypes     []string `toml:"other_instance_types,omitempty"`
	SubnetIDs      []string `toml:"subnet_ids"`
	PurchaseOption Kind     `toml:"purchase_option"`
	// Reserve is for which jobs capacity is held; "" stands for never.
	Reserve ReservePolicy `toml:"reserve,omitempty"`
	// ReservationIDs in order; the next takes over when one ends.
	ReservationIDs []string `toml:"capacity_reservation_ids,omitempty"`
	// Select names reservations by their tags, instead of by id.
	Select   *Select `toml:"select,omitempty"`
	MaxNodes int     `toml:"max_nodes"`
	// Dynamic starts nodes of a Capacity Block for jobs, instead of keeping all of them up.
	Dynamic bool `toml:"dynamic,omitempty"`
	// LaunchTemplate is what provider ec2 launches from: lt-… or a name.
	LaunchTemplate string `toml:"launch_template,omitempty"`
	// Slots is how many reservations provider ec2 can use at once: with 2 the nodes are
	// NAME-a-1, … and NAME-b-1, … 0 stands for 1.
	Slots int `toml:"slots,omitzero"`
	// Nodes are those of provider ec2 with other names than its slots give them.
	Nodes NodeNames `toml:"nodes,omitempty"`
}

// NodeNames are names of nodes in the order of their bytes; as text they are a hostlist.
type NodeNames []string

// UnmarshalText reads a hostlist.
func (n *NodeNames) UnmarshalText(text []byte) error {
	names, err := hostlist.Expand(string(text))
	if err != nil {
		return fmt.Errorf("nodes: %w; write it like gpu[001-016]", err)
	}
	slices.Sort(names)
	*n = names
	return nil
}

// MarshalText writes a hostlist.
func (n NodeNames) MarshalText() ([]byte, error) { return []byte(hostlist.Compress(n)), nil }

// StaysUp reports whether Slurm has to leave idle nodes up, which is for Capacity Blocks alone:
// nodes of other kinds are launched for jobs.
func (g GroupSettings) StaysUp() bool { return g.PurchaseOption.Bought() && !g.Dynamic }

// Types are all instance types that the node group may launch, in the order to try.
func (g GroupSettings) Types() []string { return append([]string{g.InstanceType}, g.OtherTypes...) }

// Select chooses reservations: those that carry every tag.
//
// A tag's value is literal: * and ? mean themselves, although they are wildcards in EC2's filters. So the query to
// EC2, the match among known reservations and the administrator's reading of the settings agree, and half a tag never
// selects a block that costs a fortune. Queries escape the values.
type Select struct {
	Tags map[string]string `toml:"tags,omitempty"`
}

// Matches reports whether the reservation carries every tag. Without a tag nothing matches.
func (s *Select) Matches(r Reservation) bool {
	if s == nil {
		return false
	}
	for key, value := range s.Tags {
		if got, ok := r.Tags[key]; !ok || got != value {
			return false
		}
	}
	return len(s.Tags) > 0
}

// Guest reports whether the nodes of all partitions are somebody else's: then Slurm's power saving is, too.
func (s Settings) Guest() bool {
	return len(s.Partitions) > 0 &&
		!slices.ContainsFunc(s.Partitions, func(p PartitionSettings) bool { return !p.Provider.Guest() })
}

// LaunchTemplates returns the launch templates of the node groups that we launch, as the settings name them, each once.
func (s Settings) LaunchTemplates() []string {
	var names []string
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if p.Provider.Launches() && g.LaunchTemplate != "" && !slices.Contains(names, g.LaunchTemplate) {
				names = append(names, g.LaunchTemplate)
			}
		}
	}
	return names
}

// ReservationIDs returns all reservations of the node group: those in its slots and those to be used up first.
func (g NodeGroup) ReservationIDs() []string {
	ids := slices.Clone(g.ReuseIDs)
	for _, s := range g.Slots {
		ids = append(ids, s.ReservationIDs...)
	}
	return ids
}
