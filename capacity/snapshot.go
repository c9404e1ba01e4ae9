package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// SnapshotVersion is the schema of Snapshot. A reader refuses any other.
const SnapshotVersion = 1

// Snapshot is what the last pass over AWS and Slurm saw, with the settings that
// the submission path needs. AWS and Slurm stay the sources of truth.
type Snapshot struct {
	Version int `json:"version"`
	// TakenAt is AWS's time of the pass.
	TakenAt time.Time `json:"taken_at"`
	// ClockOffset is AWS's time minus the machine's, when the pass was made.
	ClockOffset Duration `json:"clock_offset"`

	Region  string `json:"region"`
	Cluster string `json:"cluster,omitempty"`

	// DefaultPartition is where Slurm sends a job that names none; "" if unknown.
	DefaultPartition string `json:"default_partition,omitempty"`
	// TimeMinCollapses says that this Slurm (before 25.05.3) starts a job with a
	// --time-min at that floor while any future Slurm reservation exists, so that
	// time=fit jobs need a live sync, which raises them.
	TimeMinCollapses bool `json:"time_min_collapses,omitempty"`

	// NoRequeue: Slurm requeues no job that does not ask for it (JobRequeue=0).
	NoRequeue bool `json:"no_requeue,omitempty"`
	// KillWait is how long Slurm waits between TERM and KILL; see RequeueAt.
	KillWait Duration `json:"kill_wait,omitzero"`

	Submit Submit `json:"submit"`
	// ReserveOff: no job can have capacity held for it.
	ReserveOff   bool          `json:"reserve_off,omitempty"`
	Timing       Timing        `json:"timing"`
	Partitions   []Partition   `json:"partitions"`
	Reservations []Reservation `json:"reservations"`
	// Former are slots with the reservation that was live in them when the settings
	// stopped naming it. Their fences stay until it ends, unless somebody takes them away;
	// no job is admitted to them.
	Former []Partition `json:"former,omitempty"`
	// Missing are the ids of reservations that settings or fences name and EC2 does not describe,
	// each with the time since when.
	Missing map[string]time.Time `json:"missing,omitempty"`
	// Walls are limits of Slurm's accounting.
	Walls Walls `json:"walls,omitzero"`
	// Orphans are instances of ours that belong to no node.
	Orphans []Orphan `json:"orphans,omitempty"`
	// Leftovers are things of ours that no settings name, as they were last listed.
	Leftovers []Leftover `json:"leftovers,omitempty"`
	// Said is what the pass could not learn or do, and what people should know.
	Said
}

// Submit is how strict the submission path is.
type Submit struct {
	Strict     bool     `json:"strict"`
	StaleAfter Duration `json:"stale_after"`
}

// Provider says who launches a partition's nodes.
type Provider string

// The providers.
const (
	ProviderEC2 Provider = "ec2"
	ProviderPCS Provider = "pcs"
)

// Partition is a Slurm partition whose nodes come from reserved capacity.
type Partition struct {
	Name          string   `json:"name"`
	Provider      Provider `json:"provider"`
	AllowAccounts []string `json:"allow_accounts,omitempty"`
	// AllowGroups are Unix groups, on self-managed Slurm only: PCS queues have no AllowGroups.
	AllowGroups []string `json:"allow_groups,omitempty"`
	MinTime     Duration `json:"min_time"`
	// OnEnd is for jobs that do not say themselves what happens to them at the fence.
	OnEnd OnEnd `json:"on_end,omitempty"`
	// MaxTime is Slurm's MaxTime of the partition; unset when it was not known.
	MaxTime Limit `json:"max_time"`
	// QOS is the partition's, whose limits hold for all its jobs; "" if it has none.
	QOS    string      `json:"qos,omitempty"`
	Groups []NodeGroup `json:"node_groups"`
}

// NodeGroup is one [[partition.node_group]] of the configuration with what was
// found for it.
type NodeGroup struct {
	Name         string `json:"name"`
	InstanceType string `json:"instance_type"`
	// OtherTypes are launched on demand where InstanceType has no room.
	OtherTypes     []string `json:"other_instance_types,omitempty"`
	PurchaseOption Kind     `json:"purchase_option"`
	// Reserve is for which jobs capacity is held; "" where it never is.
	Reserve  ReservePolicy `json:"reserve,omitempty"`
	MaxNodes int           `json:"max_nodes"`
	// GPUs of one node as Slurm counts them, where several can be slices of one; 0 if it
	// has none, or if nobody knows.
	GPUs int `json:"gpus,omitempty"`
	// Platform is what the image runs, in EC2's words ("Linux/UNIX"); "" if unknown.
	Platform string `json:"platform,omitempty"`
	// PlatformOf is the version of the launch template, ID:NUMBER, that names the image.
	PlatformOf string   `json:"platform_of,omitempty"`
	Subnets    []Subnet `json:"subnets"`
	// ReuseIDs are the reservations of a group on demand, which are used up first, in order.
	// They have no slot: what runs in them goes on, on demand, when they end.
	ReuseIDs []string `json:"reuse_ids,omitempty"`
	// Dynamic groups start nodes for jobs, so that boot time counts; static ones are up.
	Dynamic bool `json:"dynamic"`
	// Slots hold one reservation at a time each: see Turn. With provider pcs they are the
	// compute node groups NAME-a and NAME-b; with ec2 there is one, NAME, or these two.
	Slots []Slot `json:"slots"`
}

// Types are all that the node group may launch, in the order to try.
func (g NodeGroup) Types() []string { return append([]string{g.InstanceType}, g.OtherTypes...) }

// Slot is a set of Slurm nodes that one reservation at a time stands behind: see Turn.
type Slot struct {
	Name string `json:"name"`
	// Feature is the node feature that selects the slot's nodes; "" if they have none.
	Feature string `json:"feature,omitempty"`
	// ReservationIDs in the order of the settings, those that ended last; Turns says when
	// each of them has the slot.
	ReservationIDs []string `json:"reservation_ids,omitempty"`
	// Holds is the reservation that has the slot until it ends, whatever is added to the
	// settings: nodes may run in it. "" if none does.
	Holds string `json:"holds,omitempty"`
	// Unnamed: the settings do not name what a PCS compute node group holds, and which is live. No
	// more jobs are admitted to it.
	Unnamed bool `json:"unnamed,omitempty"`
	// Nodes is a Slurm hostlist; "" before the nodes exist.
	Nodes string `json:"nodes,omitempty"`
	// Count is how many these are.
	Count int `json:"count,omitempty"`
	// Out are those of them that Slurm gives no job until somebody says so.
	Out []NodesOut `json:"out,omitempty"`
}

// NodesOut are nodes that are drained, down or failed, for one reason.
type NodesOut struct {
	Nodes  string `json:"nodes"` // a hostlist
	Count  int    `json:"count"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// String names them.
func (o NodesOut) String() string {
	text := fmt.Sprintf("%s %s", o.Nodes, o.State)
	if o.Reason != "" {
		text += " (" + o.Reason + ")"
	}
	return text
}

// Subnet is a subnet with its Availability Zone.
type Subnet struct {
	ID   string `json:"id"`
	AZID string `json:"az_id"`
	AZ   string `json:"az"`
}

// ImagePlatform is what the image of a launch template runs.
type ImagePlatform struct {
	// Template is the version of the launch template, ID:NUMBER.
	Template string
	// Platform is in EC2's words for reservations ("Linux/UNIX"); "" if unknown.
	Platform string
}

// LinuxUNIX is the platform of nearly every image for Slurm, in EC2's words.
const LinuxUNIX = "Linux/UNIX"

// PlatformOf is what the image of a version of a launch template, ID:NUMBER, was found to
// run; "" if the snapshot does not say. s may be nil.
func (s *Snapshot) PlatformOf(template string) string {
	if s == nil {
		return ""
	}
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if g.PlatformOf == template {
				return g.Platform
			}
		}
	}
	return ""
}

// Partition finds a managed partition by name.
func (s *Snapshot) Partition(name string) (Partition, bool) {
	i := slices.IndexFunc(s.Partitions, func(p Partition) bool { return p.Name == name })
	if i < 0 {
		return Partition{}, false
	}
	return s.Partitions[i], true
}

// Reservation finds a reservation by id.
func (s *Snapshot) Reservation(id string) (Reservation, bool) {
	i := slices.IndexFunc(s.Reservations, func(r Reservation) bool { return r.ID == id })
	if i < 0 {
		return Reservation{}, false
	}
	return s.Reservations[i], true
}

// Stale reports whether the snapshot is older than its Submit.StaleAfter.
func (s *Snapshot) Stale(now time.Time) bool {
	return now.Sub(s.TakenAt) > s.Submit.StaleAfter.Duration
}

// Has reports whether the partition lists the reservation.
func (p Partition) Has(reservationID string) bool {
	return slices.ContainsFunc(p.Groups, func(g NodeGroup) bool {
		return slices.Contains(g.ReuseIDs, reservationID) || slices.ContainsFunc(g.Slots, func(s Slot) bool {
			return slices.Contains(s.ReservationIDs, reservationID)
		})
	})
}

// Allows reports whether an account may use the partition's reservations. Slurm does not
// tell capital letters in the names of accounts apart.
func (p Partition) Allows(account string) bool {
	return len(p.AllowAccounts) == 0 || slices.ContainsFunc(p.AllowAccounts, func(a string) bool { return strings.EqualFold(a, account) })
}
