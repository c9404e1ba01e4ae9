package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// SnapshotVersion is the schema of Snapshot. A reader refuses any other.
const SnapshotVersion = 1

// Snapshot holds what the last pass over AWS and Slurm saw, with the settings that the submission path needs. AWS and
// Slurm stay the sources of truth.
type Snapshot struct {
	Version     int       `json:"version"`
	TakenAt     time.Time `json:"taken_at"`     // AWS's time of the pass
	ClockOffset Duration  `json:"clock_offset"` // AWS's time minus the machine's, at the time of the pass

	Region  string `json:"region"`
	Cluster string `json:"cluster,omitempty"`

	// SlurmCluster is Slurm's ClusterName, by which --clusters names it; "" if unknown.
	SlurmCluster string `json:"slurm_cluster,omitempty"`
	// DefaultPartition is where Slurm sends a job without --partition; "" if unknown.
	DefaultPartition string `json:"default_partition,omitempty"`
	// TimeMinCollapses: this Slurm (before 25.05.3) starts a job with --time-min at that floor while any future Slurm
	// reservation exists. Jobs that are fitted then need a live sync, which raises them.
	TimeMinCollapses bool `json:"time_min_collapses,omitempty"`

	NoRequeue bool     `json:"no_requeue,omitempty"` // Slurm requeues only jobs that ask for it (JobRequeue=0)
	KillWait  Duration `json:"kill_wait,omitzero"`   // how long Slurm waits between TERM and KILL; see RequeueAt

	Submit       Submit        `json:"submit"`
	ReserveOff   bool          `json:"reserve_off,omitempty"` // no ODCR is created for any job
	Timing       Timing        `json:"timing"`
	Partitions   []Partition   `json:"partitions"`
	Reservations []Reservation `json:"reservations"`
	// Former are slots whose reservation was still live when the settings stopped naming it. Their fences stay until
	// the reservation ends, unless someone removes them; no job is admitted to them.
	Former []Partition `json:"former,omitempty"`
	// Missing are reservations that settings or fences name and EC2 does not describe, by id, each with the time since
	// when. The facts of one that was live are kept for a while.
	Missing map[string]time.Time `json:"missing,omitempty"`
	Walls   Walls                `json:"walls,omitzero"` // limits of Slurm's accounting
	// FenceBypasses are the site's Slurm reservations whose jobs Slurm starts through a fence of ours, by name, each
	// with the time of the fence.
	FenceBypasses map[string]time.Time        `json:"past_fences,omitempty"`
	Orphans       []Orphan                    `json:"orphans,omitempty"` // instances of ours without a node
	Problems      `json:"problems,omitempty"` // what the pass could not read or do, and what people should know
}

// Submit says how strict the submission path is.
type Submit struct {
	Strict     bool     `json:"strict"`
	StaleAfter Duration `json:"stale_after"`
}

// Partition describes a managed Slurm partition: its nodes come from reserved capacity.
type Partition struct {
	Name          string   `json:"name"`
	Provider      Provider `json:"provider"`
	AllowAccounts []string `json:"allow_accounts,omitempty"`
	MinTime       Duration `json:"min_time"`
	OnEnd         OnEnd    `json:"on_end,omitempty"` // OnEnd applies to jobs whose comment has no on_end
	MaxTime       Limit    `json:"max_time"`         // Slurm's MaxTime of the partition; unset if unknown
	// QOS is the partition's QOS, whose limits apply to all its jobs; "" if it has none.
	QOS string `json:"qos,omitempty"`
	// ResumeTimeout is how long Slurm waits for a node to boot; 0 if unknown.
	ResumeTimeout Duration    `json:"resume_timeout,omitzero"`
	Groups        []NodeGroup `json:"node_groups"`
	Spare         Spare       `json:"spare,omitzero"`
	// Lender names the partition whose nodes a spare partition has; "" for one of the settings.
	Lender string `json:"-"`
}

// NodeGroup joins one [[partition.node_group]] of the configuration with what was found for it in AWS and Slurm.
type NodeGroup struct {
	Name         string `json:"name"`
	InstanceType string `json:"instance_type"`
	// OtherTypes are launched on demand where InstanceType has no room.
	OtherTypes     []string      `json:"other_instance_types,omitempty"`
	PurchaseOption Kind          `json:"purchase_option"`
	Reserve        ReservePolicy `json:"reserve,omitempty"` // Reserve says for which jobs an ODCR is created; "" for none
	MaxNodes       int           `json:"max_nodes"`
	// GPUs of one node as Slurm counts them, which may be slices of a GPU; 0 if it has none or nobody knows.
	GPUs       int      `json:"gpus,omitempty"`
	CPUs       int      `json:"cpus,omitempty"`        // CPUs of one node as Slurm counts them; 0 if nobody knows
	Platform   string   `json:"platform,omitempty"`    // the image's platform in EC2's terms ("Linux/UNIX"); "" if unknown
	PlatformOf string   `json:"platform_of,omitempty"` // the launch template version, ID:NUMBER, that names the image
	Subnets    []Subnet `json:"subnets"`
	// ReuseIDs are the reservations that an on-demand group uses up first, in order. They have no slot: their instances
	// continue on demand when they end.
	ReuseIDs []string `json:"reuse_ids,omitempty"`
	Dynamic  bool     `json:"dynamic"` // nodes start for jobs, so boot time counts. Static nodes are up.
	// OpenTest is the script that nodes of a block must pass before jobs start there; "" for none. Without a result
	// after OpenTestLimit they start as well.
	OpenTest      string   `json:"open_test,omitempty"`
	OpenTestLimit Duration `json:"open_test_limit,omitzero"`
	// Slots hold one reservation at a time each: see Turn. With provider pcs they are the compute node groups NAME-a
	// and NAME-b; with ec2 the one slot NAME, or these two.
	Slots []Slot `json:"slots"`
}

// Types returns all instance types that the node group may launch, in the order to try.
func (g NodeGroup) Types() []string { return append([]string{g.InstanceType}, g.OtherTypes...) }

// Slot names a set of Slurm nodes that one reservation at a time backs: see Turn.
type Slot struct {
	Name    string `json:"name"`
	Feature string `json:"feature,omitempty"` // the node feature that selects the slot's nodes; "" if there is none
	// ReservationIDs are in the order of the settings, ended ones last; Turns says when each of them has the slot.
	ReservationIDs []string `json:"reservation_ids,omitempty"`
	// Occupant is the id of the reservation that keeps the slot until it ends, whatever joins the settings, because
	// nodes may run in it; "" if there is none.
	Occupant string `json:"holds,omitempty"`
	// Unnamed: a PCS compute node group holds a live reservation that the settings do not name. No more jobs are
	// admitted to it.
	Unnamed bool       `json:"unnamed,omitempty"`
	Nodes   string     `json:"nodes,omitempty"` // a Slurm hostlist; "" before the nodes exist
	Count   int        `json:"count,omitempty"` // the number of Nodes
	Out     []NodesOut `json:"out,omitempty"`   // the nodes to which Slurm gives no job until someone acts
	// Opening has the nodes that take no jobs yet although their block is open; nil if there are none.
	Opening *Opening `json:"opening,omitempty"`
	// Holding says what is held for jobs of the slot; nil for nothing.
	Holding *Holding `json:"holding,omitempty"`
	// PoweredUp is when sync last powered nodes up because their block is open; zero if it has not.
	PoweredUp time.Time `json:"powered_up,omitzero"`
}

// Holding counts the instances of the ODCRs that sync holds for waiting jobs.
type Holding struct {
	AZID  string `json:"az_id"`
	Count int    `json:"count"`
	Free  int    `json:"free"` // those that do not run yet
	// Jobs, as squeue shows them, are those for which they are held: which job starts first, Slurm decides.
	Jobs []string `json:"jobs"`
	// Paused says when capacity is held again for the jobs that Slurm has not started although it was, by job.
	Paused map[string]time.Time `json:"paused,omitempty"`
}

// Opening names nodes of an open block that a wait still keeps from jobs.
type Opening struct {
	Nodes string    `json:"nodes"` // a hostlist
	Count int       `json:"count"`
	Until time.Time `json:"until"`          // when they take jobs at the latest
	Test  string    `json:"test,omitempty"` // of the site's, which they must pass; "" for none
	// Tested: the test runs on some of them.
	Tested bool `json:"tested,omitempty"`
	Soon   bool `json:"-"` // the next pass may open some
}

// Has reports whether it names a node. o may be nil.
func (o *Opening) Has(node string) bool {
	if o == nil {
		return false
	}

	names, _ := hostlist.Expand(o.Nodes)

	return slices.Contains(names, node)
}

// Describe says what jobs of a reservation wait for.
func (o Opening) Describe(reservation string) string {
	when := "take jobs when they are up, by %s at the latest"
	switch {
	case o.Tested:
		when = "are being tested until %s at the latest"
	case o.Test != "":
		when = "take jobs when they are up and tested, by %s at the latest"
	}

	return fmt.Sprintf("%s is open; nodes %s "+when, reservation, o.Nodes, FormatUTC(o.Until))
}

// NodesOut names nodes that are drained, down or failed for one reason.
type NodesOut struct {
	Nodes  string `json:"nodes"` // a hostlist
	Count  int    `json:"count"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// String names the nodes, their state and the reason.
func (o NodesOut) String() string {
	text := fmt.Sprintf("%s %s", o.Nodes, o.State)
	if o.Reason != "" {
		text += " (" + o.Reason + ")"
	}

	return text
}

// ReturnCommand returns the command that lets Slurm use nodes again. A node that is down has no slurmd that answers, or
// an instance that has rebooted: where Slurm launches it, it is launched anew, as a resume would leave it without one.
func ReturnCommand(nodes, state string, p Provider) string {
	if state == "down" && p.Launches() {
		return fmt.Sprintf("scontrol update nodename=%s state=power_down_force", nodes)
	}
	return fmt.Sprintf("scontrol update nodename=%s state=resume", nodes)
}

// Subnet is a subnet with its Availability Zone.
type Subnet struct {
	ID   string `json:"id"`
	AZID string `json:"az_id"`
	AZ   string `json:"az"`
}

// ImagePlatform names the platform of a launch template's image.
type ImagePlatform struct {
	Template string // the launch template version, ID:NUMBER
	Platform string // EC2's term for reservations ("Linux/UNIX"); "" if unknown
}

// LinuxUNIX is EC2's term for the platform of nearly every image for Slurm.
const LinuxUNIX = "Linux/UNIX"

// PlatformOf returns the platform of the image of a launch template version, ID:NUMBER; "" if the snapshot does not
// say. s may be nil.
func (s *Snapshot) PlatformOf(template string) string {
	if s == nil {
		return ""
	}

	for _, at := range AllSlots(s.Partitions) {
		if at.Group.PlatformOf == template {
			return at.Group.Platform
		}
	}

	return ""
}

// Partition finds a managed partition, or a spare one, by name.
func (s *Snapshot) Partition(name string) (p Partition, ok bool) {
	i := slices.IndexFunc(s.Partitions, func(p Partition) bool { return slices.Contains(p.SlurmNames(), name) })
	switch {
	case i < 0:
		return p, false
	case s.Partitions[i].Name == name:
		return s.Partitions[i], true
	}

	return s.Partitions[i].spare(), true
}

// Reservation finds a reservation by id.
func (s *Snapshot) Reservation(id string) (r Reservation, ok bool) {
	if i := slices.IndexFunc(s.Reservations, func(r Reservation) bool { return r.ID == id }); i >= 0 {
		return s.Reservations[i], true
	}
	return r, false
}

// StaleAfter sets the default age of a snapshot from which the filter refuses only what crosses a known end.
const StaleAfter = 10 * time.Minute

// IsStale reports whether the snapshot is older than its Submit.StaleAfter.
func (s *Snapshot) IsStale(now time.Time) bool {
	return now.Sub(s.TakenAt) > s.Submit.StaleAfter.Duration
}

// HasReservation reports whether the partition lists the reservation.
func (p Partition) HasReservation(reservationID string) bool {
	return slices.ContainsFunc(p.Groups,
		func(g NodeGroup) bool { return slices.Contains(g.ReservationIDs(), reservationID) })
}

// AllowsAccount reports whether an account may use the partition's reservations. Slurm ignores case in account names.
func (p Partition) AllowsAccount(account string) bool {
	return len(p.AllowAccounts) == 0 ||
		slices.ContainsFunc(p.AllowAccounts, func(a string) bool { return strings.EqualFold(a, account) })
}

// Metadata holds what an instance's EC2 metadata says; its capacity reservation is not part of it. A field that the
// metadata lacks is "".
type Metadata struct {
	InstanceID    string `json:"instance_id"`
	InstanceType  string `json:"instance_type"`
	AZID          string `json:"az_id,omitempty"`
	ReservationID string `json:"reservation_id,omitempty"` // the tag TagReservation, if tags are in the metadata
}

// DescribeMisplacement says how the instance behind a node of a slot differs from the slot's reservation; of several
// reservations, from the closest. It is "" if nothing differs, or if the slot has no reservation or one that EC2 did
// not describe. DescribeMisplacement does not compare what the metadata leaves out.
func (s *Snapshot) DescribeMisplacement(at SlotRef, m Metadata, now time.Time) string {
	if slices.ContainsFunc(s.Turns(at), func(t Turn) bool { return t.Unknown }) {
		return ""
	}

	var least []string
	for _, t := range s.SlotState(at, now).Current {
		differs := m.diffReservation(t.Reservation)
		if len(differs) == 0 {
			return ""
		}

		if least == nil || len(differs) < len(least) {
			least = differs
		}
	}

	if least == nil {
		return ""
	}

	return fmt.Sprintf("its instance %s %s", m.InstanceID, strings.Join(least, "; it "))
}

func (m Metadata) diffReservation(r Reservation) (all []string) {
	if m.InstanceType != "" && m.InstanceType != r.InstanceType {
		all = append(all, fmt.Sprintf("is a %s, but reservation %s is for %s", m.InstanceType, r.ID, r.InstanceType))
	}

	if m.AZID != "" && r.AZID != "" && m.AZID != r.AZID {
		all = append(all, fmt.Sprintf("is in %s, but reservation %s is in %s", m.AZID, r.ID, r.AZID))
	}

	if m.ReservationID != "" && m.ReservationID != r.ID {
		all = append(all, fmt.Sprintf("was launched into %s, but reservation %s has the slot", m.ReservationID, r.ID))
	}

	return all
}
