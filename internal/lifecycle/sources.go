package lifecycle

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Sources are what a pass reads and changes.
type Sources struct {
	Settings capacity.Settings
	// Poll is the most time between two passes of Watch.
	Poll  time.Duration
	State state.Dir
	// Local has what slurmctld reads; "" where no slurmctld of ours does.
	Local state.Dir
	EC2   EC2
	// PCS is nil when no partition has provider pcs.
	PCS   PCS
	Slurm Slurm
	// OursOnly: jobs of partitions that are none of ours are not looked at in this pass, but
	// for those of AlsoOurs.
	OursOnly bool
	// AlsoOurs had jobs with nodes of ours in the last pass: a partition that loses its nodes
	// keeps the jobs that run there.
	AlsoOurs []string
	// RollOver is nil where no partition rolls over by itself, and for who only looks.
	RollOver RollOver
	// Made is what carries our tag for a cluster, by its mark, and the id of the cluster if it is
	// one of PCS; nil where nobody looks. With OldLeftovers it is not asked in this pass.
	Made         func(ctx context.Context, mark string) (made []capacity.Made, cluster string, err error)
	OldLeftovers bool
	// Health is the site's own command for nodes of a block that opens.
	Health HealthCommand
	// Owner marks the Slurm reservations of these settings, and OwnerIs says whose they are. With
	// TakeOver those of another owner become this one's.
	Owner, OwnerIs string
	TakeOver       bool
	// DryRun: the pass reports what it would do, and changes and writes nothing.
	DryRun bool
	// KeepOwner makes it stay the same where settings and state_dir are used from another host;
	// nil where nothing is kept.
	KeepOwner func() error
	// MachineTime is the machine's clock, which stands for the Slurm controller's:
	// time.Now. AWS's time is MachineTime plus EC2.Offset.
	MachineTime func() time.Time
	// After is what a site wants to be done after a pass; nil for nothing. The errors are
	// problems.
	After func(ctx context.Context, snap *capacity.Snapshot, report Report) []error
}

// HealthCommand is a command that says whether a node is healthy, by its exit status 0.
type HealthCommand struct {
	// Path is absolute, on the nodes; "" for none.
	Path    string
	Timeout time.Duration
	// Tries is how often a node is launched for it, at least 1.
	Tries int
}

// EC2 is what a pass asks EC2.
type EC2 interface {
	Region() string
	// Offset is AWS's time minus the machine's.
	Offset() time.Duration
	// Reservations describes reservations by id. An id that EC2 does not describe is
	// in missing, with the reason; err is for a query that failed as a whole.
	Reservations(ctx context.Context, ids []string) (found []capacity.Reservation, missing []capacity.Missing, err error)
	ReservationsByTag(ctx context.Context, tags map[string]string) ([]capacity.Reservation, error)
	// GroupMembers are the ids of the reservations in a resource group, by its name or ARN.
	GroupMembers(ctx context.Context, group string) ([]string, error)
	// InstancesByTag are the instances, other than terminated ones, that have for each
	// key one of its values.
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
	// InstancesByClusterName are those that self-managed clusters with a ClusterName have
	// marked, this one, others, and older versions.
	InstancesByClusterName(ctx context.Context, clusterName string) ([]capacity.Instance, error)
	// InstancesByID leaves out those that are terminated, and that there are not.
	InstancesByID(ctx context.Context, ids []string) ([]capacity.Instance, error)
	// Explain puts an error of EC2 or PCS into words, without what is different each time,
	// such as the id of the request. general: every other question would meet it too, such
	// as credentials that have expired.
	Explain(err error) (words string, general bool)
	// Untold is what EC2 has not told since Untold was last asked, because the caller may
	// not ask: sentences.
	Untold() []string
	// KnownSubnets describes subnets as Reservations does reservations.
	KnownSubnets(ctx context.Context, ids []string) (found []capacity.Subnet, missing []capacity.Missing, err error)
	// ImagePlatform is what the image of a launch template runs. Where the caller may not ask,
	// which Untold has, it is unknown.
	ImagePlatform(ctx context.Context, template string) (capacity.ImagePlatform, error)
	// Holds are the ODCRs that we hold for a cluster, by its mark; Release gives one back, and
	// takes one that is gone already without an error.
	Holds(ctx context.Context, cluster string) ([]capacity.Reservation, error)
	Release(ctx context.Context, id string) error
	// Terminate takes ids that are gone already without an error.
	Terminate(ctx context.Context, ids []string) error
}

// PCS is what a pass asks PCS.
type PCS interface {
	// Held are those of the compute node groups that exist, each with the reservation that
	// it was set up for; "" if it was for none.
	Held(ctx context.Context, groups []string) (map[string]string, error)
}

// Slurm is what a pass asks and tells slurmctld. All times are in its clock.
type Slurm interface {
	Look(ctx context.Context) (*Cluster, error)
	// Jobs are those that have not ended, and those that ended in the last minutes with how
	// they did: of the partitions, or of all if none is given, and of them those that wanted
	// keeps; nil keeps all.
	Jobs(ctx context.Context, partitions []string, wanted func(capacity.Job) bool) (live, ended []capacity.Job, err error)
	CreateReservation(ctx context.Context, r capacity.SlurmReservation) error
	// UpdateReservation changes times and nodes of a reservation, but not the start of
	// an Active one.
	UpdateReservation(ctx context.Context, r capacity.SlurmReservation) error
	// DeleteReservation succeeds as well when there is none of this name.
	DeleteReservation(ctx context.Context, name string) error
	// SetTimeLimit changes the limit of a job, which is named as it is Shown, to whole
	// minutes, and reads it back.
	SetTimeLimit(ctx context.Context, job string, minutes int) error
	// Budgets are what accounting lets jobs use over time, Held what the running jobs of
	// partitions hold, as they are Shown; empty where nobody knows.
	Budgets(ctx context.Context) (capacity.Budgets, error)
	Held(ctx context.Context, partitions []string) (map[string]capacity.TRES, error)
	// Edit gives pending jobs, which are named as they are Shown, what their edits set, and
	// reads it back. The errors are by job.
	Edit(ctx context.Context, edits map[string]capacity.Edits) map[string]error
	// RequeueJob puts a job that has its nodes back into the queue, with hold so that it waits
	// there until it is released, and reads it back: after has no id if Slurm has forgotten it.
	// That it still runs as before is an error.
	RequeueJob(ctx context.Context, before capacity.Job, hold bool) (after capacity.Job, err error)
	// Begin keeps a pending job from starting before a time.
	Begin(ctx context.Context, job string, at time.Time) error
	// Notify writes to the standard error of a job that runs, or to the terminal of its srun.
	Notify(ctx context.Context, job, text string) error
	// UserHold keeps pending jobs from starting until their owners release them.
	UserHold(ctx context.Context, jobs ...string) error
	// Release ends a hold.
	Release(ctx context.Context, job string) error
	// SetAdminComment tells the owner of a job, who cannot change it.
	SetAdminComment(ctx context.Context, job, text string) error
	// PowerDownForce powers nodes down, from which Slurm uses them again.
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	PowerUp(ctx context.Context, nodes []string) error
	// PowerDown does so when the jobs of the nodes have ended.
	PowerDown(ctx context.Context, nodes []string, reason string) error
	// Drain keeps new jobs off nodes; those that run go on.
	Drain(ctx context.Context, nodes []string, reason string) error
	// Resume takes off what Drain did; nodes that Slurm does not hold back are no error.
	Resume(ctx context.Context, nodes []string) error
	// SubmitCheck submits a job that runs a program on a node, in the Slurm reservation that
	// keeps others from it; CheckTime is how long such a job may take. ExitStatus is how a job
	// that has ended did: the exit status of its script, and the signal that ended it, or for
	// which it could not be started.
	SubmitCheck(ctx context.Context, c NodeCheck) (job string, err error)
	CheckTime(timeout time.Duration) time.Duration
	ExitStatus(ctx context.Context, job string) (status, signal int, err error)
	Cancel(ctx context.Context, jobs ...string) error
	// Hostlist folds node names, gpu-1, gpu-2 is gpu-[1-2], and Expand gives them back.
	Hostlist(names []string) string
	Expand(hostlist string) ([]string, error)
}

// NodeCheck is a program to run on a node.
type NodeCheck struct {
	Node, Reservation, Partition, Account, Constraint, Program string
	Timeout                                                    time.Duration
	// Output is a file for the last OutputBytes bytes of what it says.
	Output      string
	OutputBytes int
}

// Cluster is what slurmctld says about itself.
type Cluster struct {
	Version string
	// Mark is the value of our mark on what belongs to this cluster; "" if it is not known,
	// for MarkErr.
	Mark    string
	MarkErr error
	// Name is the ClusterName of self-managed Slurm, which other clusters may have; "" where
	// Mark is that of a PCS cluster.
	Name string
	// TimeMinCollapses: see capacity.Snapshot.
	TimeMinCollapses bool
	// ShowsPoweredDown: Slurm shows nodes that are powered down, so that one which it does not
	// show is not there.
	ShowsPoweredDown bool
	// KillWait is how long Slurm waits between TERM and KILL.
	KillWait time.Duration
	// NoRequeue: see capacity.Snapshot.
	NoRequeue  bool
	Accounting capacity.Accounting
	// Walls are limits of Slurm's accounting; those of before count if WallsErr is not nil.
	Walls        capacity.Walls
	WallsErr     error
	Nodes        []capacity.Node
	Partitions   []capacity.SlurmPartition
	Reservations []capacity.SlurmReservation

	slots map[string][]string // their nodes: see assign
}

// RollOver changes what PCS has of the node groups of partitions that roll over by themselves.
// Each call does what can be done now and does not wait for PCS, which takes minutes: the next
// pass goes on. did is what was begun, also with an error:
// "create compute node group gpu-b".
type RollOver interface {
	// SetUp makes what a block needs in the free slot of a node group: launch template, compute
	// node group, and its place in the queue. anew: one that PCS could not create may be deleted
	// and created again; without it, that is an error.
	SetUp(ctx context.Context, partition string, group capacity.NodeGroup, block capacity.Reservation, anew bool) (did []string, err error)
	// Remove takes a slot's compute node group out of the queue and deletes it, unless it has
	// instances or jobs.
	Remove(ctx context.Context, partition, slot string) (did []string, err error)
}
