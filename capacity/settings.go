package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Settings holds the part of an administrator's settings that decisions depend on.
type Settings struct {
	Cluster    string
	Submit     Submit
	Timing     Timing
	Reserve    Reserve
	Partitions []PartitionSettings
}

// PartitionSettings holds one [[partition]].
type PartitionSettings struct {
	Name          string   `toml:"name"`
	Provider      Provider `toml:"provider"`
	AllowAccounts []string `toml:"allow_accounts,omitempty"`
	MinTime       Duration `toml:"min_time"`
	OnEnd         OnEnd    `toml:"on_end"` // for jobs that do not say themselves what happens to them at the fence
	// RollOver lets sync make the compute node group of the next block, and remove that of one that has ended; provider
	// pcs only.
	RollOver bool `toml:"roll_over,omitempty"`
	// Spare names a second Slurm partition over the same nodes, whose jobs those of this one preempt; "" for none.
	Spare  string          `toml:"spare,omitempty"`
	Groups []GroupSettings `toml:"node_group"`

	File string `toml:"-"` // where the partition is written down
}

// SlurmNames returns the names of the partition and of its spare one, if it has one.
func (p PartitionSettings) SlurmNames() []string { return slurmNames(p.Name, p.Spare) }

// RollsOver reports whether a partition has RollOver; "" asks about any partition.
func (s Settings) RollsOver(partition string) bool {
	return slices.ContainsFunc(s.Partitions, func(p PartitionSettings) bool {
		return p.RollOver && (partition == "" || p.Name == partition)
	})
}

// Group returns a node group by its name; zero if the partition has none of it.
func (p PartitionSettings) Group(name string) (g GroupSettings) {
	if at := slices.IndexFunc(p.Groups, func(g GroupSettings) bool { return g.Name == name }); at >= 0 {
		g = p.Groups[at]
	}
	return g
}

// GroupSettings holds one [[partition.node_group]].
type GroupSettings struct {
	// Name is the base name of the PCS compute node groups NAME-a and NAME-b, or the prefix of the Slurm node names
	// NAME-1, NAME-2, ….
	Name         string `toml:"name"`
	InstanceType string `toml:"instance_type"`
	// OtherTypes are launched on demand where InstanceType has no room, in this order.
	OtherTypes     []string      `toml:"other_instance_types,omitempty"`
	SubnetIDs      []string      `toml:"subnet_ids"`
	PurchaseOption Kind          `toml:"purchase_option"`
	Reserve        ReservePolicy `toml:"reserve,omitempty"` // for which jobs capacity is held; "" stands for never
	// ReservationIDs in order; the next takes over when one ends.
	ReservationIDs []string `toml:"capacity_reservation_ids,omitempty"`
	Select         *Select  `toml:"select,omitempty"` // Select names reservations by their tags, instead of by id
	MaxNodes       int      `toml:"max_nodes"`
	// Dynamic starts nodes of a Capacity Block for jobs, instead of keeping all of them up.
	Dynamic        bool   `toml:"dynamic,omitempty"`
	LaunchTemplate string `toml:"launch_template,omitempty"` // what provider ec2 launches from: lt-… or a name
	// Slots is how many reservations provider ec2 can use at once: with 2 the nodes are NAME-a-1, … and NAME-b-1, … 0
	// stands for 1.
	Slots int       `toml:"slots,omitzero"`
	Nodes NodeNames `toml:"nodes,omitempty"` // those of provider ec2 with other names than its slots give them
	// OpenTest is the path of a script of the site's own. Jobs start on nodes of a Capacity Block when it has passed
	// there, or after OpenTestLimit without a result.
	OpenTest      string   `toml:"open_test,omitempty"`
	OpenTestLimit Duration `toml:"open_test_limit,omitempty"`
}

// NodeNames lists names of nodes in the order of their bytes; as text they are a hostlist.
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

// KeepsNodesUp reports whether Slurm has to leave idle nodes up, which is for Capacity Blocks alone:
// nodes of other kinds are launched for jobs.
func (g GroupSettings) KeepsNodesUp() bool { return g.PurchaseOption.IsBlock() && !g.Dynamic }

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

// IsGuest reports whether the nodes of all partitions are somebody else's: then Slurm's power saving is, too.
func (s Settings) IsGuest() bool {
	return len(s.Partitions) > 0 &&
		!slices.ContainsFunc(s.Partitions, func(p PartitionSettings) bool { return !p.Provider.IsGuest() })
}

// LaunchTemplates returns the launch templates of the node groups that we launch, as the settings name them, each once.
func (s Settings) LaunchTemplates() (names []string) {
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if p.Provider.Launches() && g.LaunchTemplate != "" && !slices.Contains(names, g.LaunchTemplate) {
				names = append(names, g.LaunchTemplate)
			}
		}
	}

	return names
}

// ImageTemplates returns the launch templates whose images' platforms must be known: those that we launch from, and on
// PCS those of node groups for which capacity is held.
func (s Settings) ImageTemplates() (names []string) {
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if name := g.imageTemplate(p.Provider, s.Cluster); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}

	return names
}

func (g GroupSettings) imageTemplate(p Provider, cluster string) string {
	switch {
	case p.Launches():
		return g.LaunchTemplate
	case p.Configures() && g.Reserve == ReservePerJob:
		return TemplateName(cluster, g.Name)
	}

	return ""
}

// ReservationIDs returns all reservations of the node group: those in its slots and those to be used up first.
func (g NodeGroup) ReservationIDs() []string {
	ids := slices.Clone(g.ReuseIDs)
	for _, s := range g.Slots {
		ids = append(ids, s.ReservationIDs...)
	}

	return ids
}

// SlotNames returns the slots of a node group. PCS takes one block per compute node group, and an update replaces its
// nodes, so on PCS a node group has two slots.
func SlotNames(p Provider, group string) []string {
	return GroupSettings{Name: group}.SlotNames(p)
}

// SlotNames returns the slots of the node group: with PCS two if it uses reservations; with provider ec2 one, or two if
// the settings say so.
func (g GroupSettings) SlotNames(p Provider) []string {
	if p == ProviderPCS && g.PurchaseOption.IsReserved() || g.Slots == 2 {
		return []string{g.Name + "-a", g.Name + "-b"}
	}
	return []string{g.Name}
}

// SlotOf returns the slot of a Slurm node that the settings do not list, by the node's name: SLOT-NUMBER. It is false
// for any other name.
func SlotOf(node string) (slot string, ok bool) {
	at := strings.LastIndexByte(node, '-')
	if at < 1 || at == len(node)-1 || strings.Trim(node[at+1:], "0123456789") != "" {
		return "", false
	}

	return node[:at], true
}

// FindNode finds the partition, node group and slot of a Slurm node by its name alone; false if no settings cover the
// node.
func (s Settings) FindNode(node string) (p PartitionSettings, g GroupSettings, slot string, ok bool) {
	byName, named := SlotOf(node)
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if len(g.Nodes) > 0 {
				if _, listed := slices.BinarySearch(g.Nodes, node); listed {
					return p, g, g.Name, true
				}

				continue
			}

			if named && slices.Contains(g.SlotNames(p.Provider), byName) {
				return p, g, byName, true
			}
		}
	}

	return p, g, "", false
}

// StrayNodes returns the partition's nodes that the settings have in other partitions only: its jobs would run on those
// partitions' reservations, past every check.
func (s Settings) StrayNodes(partition string, nodes []string) []string {
	var own Settings
	for _, p := range s.Partitions {
		if p.Name == partition || p.Spare == partition && partition != "" {
			own.Partitions = append(own.Partitions, p)
		}
	}

	var astray []string
	for _, node := range nodes {
		_, _, _, ours := s.FindNode(node)
		_, _, _, its := own.FindNode(node)
		if ours && !its {
			astray = append(astray, node)
		}
	}

	return astray
}

// Provider says who launches a partition's nodes.
type Provider string

// The providers.
const (
	ProviderEC2  Provider = "ec2"  // our ResumeProgram
	ProviderPCS  Provider = "pcs"  // PCS, from node groups that setup and sync make
	ProviderNone Provider = "none" // somebody else: we are guests there
)

// IsKnown reports whether there is such a provider.
func (p Provider) IsKnown() bool { return p.Launches() || p.Configures() || p.IsGuest() }

// Launches reports whether our hooks launch the nodes. Only then do they and sync power nodes up and down, set their
// addresses, and end instances.
func (p Provider) Launches() bool { return p == ProviderEC2 }

// Configures reports whether setup and sync make the compute node groups that PCS launches from. PCS itself keeps jobs
// from their nodes until a block opens.
func (p Provider) Configures() bool { return p == ProviderPCS }

// IsGuest reports whether the nodes are somebody else's. They are fenced, and their jobs get limits. Nothing launches
// or ends an instance for them, powers them, or sets their state or address.
func (p Provider) IsGuest() bool { return p == ProviderNone }

// GuardFlags returns the flags of our Slurm reservations. Both forms keep jobs out, lie over running jobs and beside
// other reservations (seen on 22.05 and 24.11). MAINT marks the nodes as in maintenance, which other launchers act on:
// ParallelCluster 3.8 to 3.15.1 ends a static node in maintenance while it boots. So a guest does without it.
func (p Provider) GuardFlags() []string {
	if p.IsGuest() {
		return []string{"OVERLAP", "IGNORE_JOBS"}
	}
	return []string{"MAINT", "IGNORE_JOBS"}
}

// Accounting says how far Slurm's accounting checks the accounts of jobs.
type Accounting int

// NoAccounting: Slurm keeps no accounts. AccountsWritten: a user may name any account. AccountsChecked: a user has only
// the accounts that Slurm's accounting gives.
const (
	NoAccounting Accounting = iota
	AccountsWritten
	AccountsChecked
)

// CheckAccounts returns what Slurm lacks to enforce a partition's allow_accounts. allow is Slurm's AllowAccounts, empty
// for every account.
//
// The submit filter on a login node does not know a user's default account, and a node that is already up never
// passes ResumeProgram. Only Slurm's own AllowAccounts locks the partition, so CheckAccounts checks AllowAccounts.
func CheckAccounts(p Partition, allow []string, accounting Accounting) []Problem {
	if len(p.AllowAccounts) == 0 {
		return nil
	}

	if accounting == NoAccounting {
		// Without accounting, part_policy_valid_acct of 22.05 knows no account; that of 24.11 lets every job in.
		return []Problem{Problemf(AccountsUnchecked, Subject{},
			"remove allow_accounts and AllowAccounts, or set AccountingStorageType=accounting_storage/slurmdbd "+
				"and AccountingStorageEnforce=associations",
			"allow_accounts has no effect, because Slurm keeps no accounting: "+
				"with AllowAccounts an older Slurm starts no job at all, a newer one starts every job")}
	}

	var found []Problem

	want := strings.Join(p.AllowAccounts, ",")
	if !slices.Equal(normalizeAccounts(p.AllowAccounts), normalizeAccounts(allow)) {
		where := "to its line in slurm.conf"
		if p.Provider == ProviderPCS {
			where = "to the Slurm settings of the PCS queue"
		}

		fix := fmt.Sprintf("add AllowAccounts=%s %s", want, where)
		found = append(found, Problemf(AllowAccounts, Subject{Partition: p.Name}, fix,
			"partition %s: allow_accounts is %s, but Slurm's AllowAccounts is %s",
			p.Name, want, cmp.Or(strings.Join(allow, ","), "ALL")))
	}

	if accounting == AccountsWritten {
		found = append(found, Problemf(AccountsUnchecked, Subject{}, "set AccountingStorageEnforce=associations",
			"allow_accounts has no effect, because Slurm takes any account that a user writes"))
	}

	return found
}

// normalizeAccounts sorts and lowercases names: Slurm ignores case in account names.
func normalizeAccounts(names []string) []string {
	return slices.Compact(slices.Sorted(strings.SplitSeq(strings.ToLower(strings.Join(names, ",")), ",")))
}
