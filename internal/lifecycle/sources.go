package lifecycle

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Sources are what a pass reads and changes.
type Sources struct {
	Settings capacity.Settings
	// Poll is the longest time between two passes of Watch.
	Poll  time.Duration
	State state.Dir
	// Local is the folder that slurmctld reads; "" if slurmctld is not on this host.
	Local state.Dir
	EC2   EC2
	// PCS is nil when no partition has provider pcs.
	PCS   PCS
	World World
	// OursOnly: this pass ignores jobs of partitions that are not ours, except those of AlsoOurs.
	OursOnly bool
	// AlsoOurs are partitions that had jobs on our nodes in the last pass: a partition that loses its nodes keeps its
	// running jobs.
	AlsoOurs []string
	// RollOver sets up and removes slots on PCS; nil if no partition rolls over by itself, and for a Look.
	RollOver *setup.RollOver
	// Made lists the things with our tag for a cluster, by its mark, and the cluster's id if it is on PCS; nil for
	// none. With OldLeftovers this pass does not call it.
	Made         func(ctx context.Context, mark string) (made []capacity.Made, cluster string, err error)
	OldLeftovers bool
	// Owner marks the Slurm reservations of these settings, and OwnerIs describes it for people.
	Owner, OwnerIs string
	// DryRun: the pass reports what it would do, and writes nothing.
	DryRun bool
	// MachineTime is the machine's clock, which stands for the Slurm controller's:
	// time.Now. AWS's time is MachineTime plus EC2.Offset.
	MachineTime func() time.Time
	// After is what the site runs after a pass; nil for nothing. Its errors are problems.
	After func(ctx context.Context, snap *capacity.Snapshot, report Report) []error
}

// EC2 is what a pass calls in EC2.
type EC2 interface {
	Region() string
	// Offset is AWS's time minus the machine's.
	Offset() time.Duration
	// Reservations describes reservations by id. An id that EC2 does not describe is
	// in missing, with the reason; err is for a query that failed as a whole.
	Reservations(ctx context.Context, ids []string) (found []capacity.Reservation, missing []capacity.Missing, err error)
	ReservationsByTag(ctx context.Context, tags map[string]string) ([]capacity.Reservation, error)
	// InstancesByTag are the instances, other than terminated ones, that have for each
	// key one of its values.
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
	// InstancesByClusterName returns the instances marked by any self-managed cluster with this ClusterName: this one,
	// others, and those of older versions.
	InstancesByClusterName(ctx context.Context, clusterName string) ([]capacity.Instance, error)
	// InstancesByID leaves out terminated and unknown instances.
	InstancesByID(ctx context.Context, ids []string) ([]capacity.Instance, error)
	// Explain puts an error of EC2 or PCS into words, without parts that differ each time, such as the request id.
	// general: every other call would fail with it too, as with expired credentials.
	Explain(err error) (words string, general bool)
	// Untold returns warnings: what EC2 has withheld for lack of permission since the last call of Untold.
	Untold() []string
	// KnownSubnets is to subnets what Reservations is to reservations.
	KnownSubnets(ctx context.Context, ids []string) (found []capacity.Subnet, missing []capacity.Missing, err error)
	// ImagePlatform is the platform of a launch template's image; unknown without the permission to ask, which Untold
	// then reports.
	ImagePlatform(ctx context.Context, template string) (capacity.ImagePlatform, error)
	// Impaired are running instances whose host is impaired, or that EC2 is about to stop: its words, by instance.
	Impaired(ctx context.Context) (map[string]string, error)
	// Holds are our ODCRs for a cluster, by its mark.
	Holds(ctx context.Context, cluster string) ([]capacity.Reservation, error)
}

// PCS is what a pass calls in PCS.
type PCS interface {
	// Held returns, of the named compute node groups, those that exist, each with the reservation that it was set up
	// for; "" if for none.
	Held(ctx context.Context, groups []string) (map[string]string, error)
}

// World is where a pass reads Slurm, and where it acts. There are two: the actual one, and the simulated one of the
// tests, in which a year of passes takes seconds. All times are in slurmctld's clock.
type World interface {
	Look(ctx context.Context) (*Cluster, error)
	// Jobs returns the jobs that have not ended, and with their results those that ended in the last minutes: of the
	// partitions, or of all if none is given. Only jobs that wanted keeps are returned; nil keeps all.
	Jobs(ctx context.Context, partitions []string, wanted func(capacity.Job) bool) (live, ended []capacity.Job, err error)
	// Tasks are tasks of arrays by name, which Jobs shows as one while they wait.
	Tasks(ctx context.Context, names []string) ([]capacity.Job, error)
	// Do carries out an effect, other than one on our own files: the one place where a pass changes anything.
	Do(ctx context.Context, e capacity.Effect) Answer
}

// Cluster is what slurmctld says about itself.
type Cluster struct {
	Version string
	// Mark is the value of our mark on what belongs to this cluster; "" if unknown, because of MarkErr.
	Mark    string
	MarkErr error
	// Name is the ClusterName of self-managed Slurm, which is not unique; "" if Mark is a PCS cluster's.
	Name string
	// SlurmCluster is the ClusterName of any Slurm.
	SlurmCluster string
	// TimeMinCollapses: see capacity.Snapshot.
	TimeMinCollapses bool
	// ShowsPoweredDown: Slurm shows powered-down nodes, so a node that it does not show does not exist.
	ShowsPoweredDown bool
	// KillWait is how long Slurm waits between TERM and KILL.
	KillWait time.Duration
	// SlurmUID is SlurmUser's.
	SlurmUID int
	// OverTime is OverTimeLimit of slurm.conf.
	OverTime capacity.Limit
	// NoRequeue: see capacity.Snapshot.
	NoRequeue  bool
	Accounting capacity.Accounting
	// Walls are limits of Slurm's accounting; if WallsErr is not nil, the previous ones count.
	Walls        capacity.Walls
	WallsErr     error
	Nodes        []capacity.Node
	Partitions   []capacity.SlurmPartition
	Reservations []capacity.SlurmReservation

	slots map[string][]string // their nodes: see assign
}
