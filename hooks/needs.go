package hooks

import (
	"context"
	"net/netip"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Slurm is what the power hooks ask and tell slurmctld.
type Slurm interface {
	// Jobs are all jobs that slurmctld knows, in one call.
	Jobs(ctx context.Context) ([]Job, error)
	// SetAddresses says where the slurmds of nodes are: all of them, or none.
	SetAddresses(ctx context.Context, addresses map[string]netip.Addr) error
	// PowerDownForce takes nodes away from their jobs, which Slurm requeues, and powers
	// them down; the reason stays on the nodes.
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	// GivenUp are those of the nodes that did not boot within ResumeTimeout. Slurm uses
	// them no more until they are powered down once again.
	GivenUp(ctx context.Context, nodes []string) ([]string, error)
	SetAdminComment(ctx context.Context, job int, text string) error
	// Notify writes to the terminal of a job of srun or salloc; never to be used for a
	// batch job, which slurmctld would look for on a node that has no address yet.
	Notify(ctx context.Context, job int, text string) error
	// UserHold keeps a pending job from starting until its owner releases it.
	UserHold(ctx context.Context, job int) error
	// Expand gives the names of a hostlist, Hostlist the sorted hostlist of names.
	Expand(hostlist string) ([]string, error)
	Hostlist(names []string) string
}

// Job is a job as slurmctld has it. Its user can change the comment at any time.
type Job struct {
	// ID is what scontrol takes; Shown what squeue shows ("12_3").
	ID        int
	Shown     string
	Account   string
	Comment   string
	TimeLimit capacity.Limit
	// Nodes that the job holds.
	Nodes    []string
	Restarts int
	// Allocated: the job holds nodes, booted or not.
	Allocated bool
	// Completing: its last run is over, and its nodes still clean up.
	Completing bool
	// AdminHeld: it waits, and its owner cannot release it.
	AdminHeld bool
	// Batch: of sbatch, so that it has no terminal, and Slurm can requeue it.
	Batch bool
}

// EC2 is what the power hooks ask of EC2.
type EC2 interface {
	// Offset is AWS's time minus the machine's, as of the last answer.
	Offset() time.Duration
	// Reservations leaves out what EC2 does not describe.
	Reservations(ctx context.Context, ids []string) ([]capacity.Reservation, error)
	ReservationsByTag(ctx context.Context, tags map[string]string) ([]capacity.Reservation, error)
	Subnets(ctx context.Context, ids []string) ([]capacity.Subnet, error)
	// PinTemplate is the version, ID:NUMBER, that a launch template of the settings means now.
	PinTemplate(ctx context.Context, template string) (string, error)
	// Launch is one RunInstances that launches Count instances or none.
	Launch(ctx context.Context, l Launch) ([]Instance, error)
	TagInstances(ctx context.Context, tags map[string]map[string]string) error
	// InstancesByTag are the instances, other than terminated ones, that have for each
	// key one of its values.
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]Instance, error)
	// Terminate takes ids that are gone already without an error.
	Terminate(ctx context.Context, ids []string) error
	// Code is EC2's error code in err, verbatim, and what EC2 said with it; "" if err is
	// no answer of EC2's.
	Code(err error) (code, message string)
	// TokenUsed reports whether EC2 refused a launch for its token alone: an earlier launch
	// under it has ended, or was another one.
	TokenUsed(err error) bool
}

// Launch is one launch call.
type Launch struct {
	Token          string
	LaunchTemplate string
	InstanceType   string
	SubnetID       string
	ReservationID  string
	Kind           capacity.Kind
	Count          int
	Tags           map[string]string
}

// Instance is an EC2 instance of ours.
type Instance struct {
	ID, PrivateIP, State string
	// LaunchIndex counts the instances of one launch from 0.
	LaunchIndex int
	// Launched is in whole seconds of AWS's time.
	Launched time.Time
	Tags     map[string]string
}

// over reports whether the instance is on its way out or gone.
func (i Instance) over() bool { return i.State == "shutting-down" || i.State == "terminated" }

// PCS is what the resume hook asks of PCS, for partitions with provider pcs.
type PCS interface {
	// ReservationOf is the reservation that a compute node group was set up for; "" if
	// it was for none.
	ReservationOf(ctx context.Context, group string) (string, error)
	// Configure makes a compute node group right for a reservation and reports whether
	// it changed anything.
	Configure(ctx context.Context, group string, r capacity.Reservation, g capacity.NodeGroup) (changed bool, err error)
}

// Records keeps what a hook did, for people who ask why.
type Records interface {
	AppendRecord(r state.Record) error
}
