package power

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
	Jobs(ctx context.Context) ([]capacity.Job, error)
	// Power is what each of the nodes does; those that Slurm does not have, or does not show,
	// are missing.
	Power(ctx context.Context, nodes []string) (map[string]Power, error)
	// SetAddresses says where the slurmds of nodes are: all of them, or none.
	SetAddresses(ctx context.Context, addresses map[string]netip.Addr) error
	// PowerDownForce takes nodes away from their jobs, which Slurm requeues, and powers
	// them down; the reason stays on the nodes.
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	// PowerDown powers nodes down when their jobs have ended; they get no others.
	PowerDown(ctx context.Context, nodes []string, reason string) error
	// GivenUp are those of the nodes that did not boot within ResumeTimeout. Slurm uses
	// them no more until they are powered down once again.
	GivenUp(ctx context.Context, nodes []string) ([]string, error)
	// SetAdminComment and the others take a job by its Shown name: an id can be that of a
	// whole array. Each reads back what came of it.
	SetAdminComment(ctx context.Context, job, text string) error
	// Notify writes to the terminal of a job of srun or salloc; never to be used for a
	// batch job, which slurmctld would look for on a node that has no address yet.
	Notify(ctx context.Context, job, text string) error
	// SetAdminComments, Requeue, RequeueHold, AllowRequeue and Cancel take all their jobs in
	// one call, and read nothing back: Jobs shows what came of it.
	SetAdminComments(ctx context.Context, text string, jobs ...string) error
	// Requeue takes their nodes from jobs; they wait, RequeueHold: held. One that may not be
	// requeued keeps them, unless AllowRequeue.
	Requeue(ctx context.Context, jobs ...string) error
	RequeueHold(ctx context.Context, jobs ...string) error
	AllowRequeue(ctx context.Context, allow bool, jobs ...string) error
	Cancel(ctx context.Context, jobs ...string) error
	// Hold keeps pending jobs from starting until an administrator releases them, UserHold
	// until their owners do.
	Hold(ctx context.Context, jobs ...string) error
	UserHold(ctx context.Context, jobs ...string) error
	Release(ctx context.Context, job string) error
	// SetPartition says in which partitions, separated by commas, a pending job may run.
	SetPartition(ctx context.Context, job, partitions string) error
	// Begin keeps a pending job from starting before a time of the controller's clock.
	Begin(ctx context.Context, job string, at time.Time) error
	// Expand gives the names of a hostlist, Hostlist the sorted hostlist of names.
	Expand(hostlist string) ([]string, error)
	Hostlist(names []string) string
}

// Power is whether a node has an instance.
type Power int

// What a node can do.
const (
	PoweredDown Power = iota + 1 // or on its way there
	PoweringUp                   // Slurm waits for it to boot
	PoweredUp
)

// EC2 is what the power hooks ask of EC2.
type EC2 interface {
	// Offset is AWS's time minus the machine's, as of the last answer.
	Offset() time.Duration
	// Untold is what EC2 has not told since Untold was last asked, because the caller may
	// not ask: sentences.
	Untold() []string
	// ExpectBlocks says that there are Capacity Blocks, so that what EC2 says of them is asked
	// for beside the reservations.
	ExpectBlocks()
	// Reservations describes reservations by id; missing are those that EC2 does not know.
	Reservations(ctx context.Context, ids []string) (found []capacity.Reservation, missing []capacity.Missing, err error)
	ReservationsByTag(ctx context.Context, tags map[string]string) ([]capacity.Reservation, error)
	// GroupMembers are the ids of the reservations in a resource group, by its name or ARN.
	GroupMembers(ctx context.Context, group string) ([]string, error)
	// KnownSubnets describes subnets by id; missing are those that EC2 does not know.
	KnownSubnets(ctx context.Context, ids []string) (found []capacity.Subnet, missing []capacity.Missing, err error)
	// PinTemplate is the version, ID:NUMBER, that a launch template of the settings means now.
	PinTemplate(ctx context.Context, template string) (string, error)
	// Launch is one RunInstances. What an error says is capacity.OutcomeOf.
	Launch(ctx context.Context, l capacity.Launch) ([]capacity.Instance, error)
	// Hold makes an ODCR of our own; Release gives it back, and takes one that is gone already
	// without an error. What an error of Hold says is capacity.OutcomeOf.
	Hold(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error)
	Release(ctx context.Context, id string) error
	// ImagePlatform is what the image of a launch template runs.
	ImagePlatform(ctx context.Context, template string) (capacity.ImagePlatform, error)
	// InstanceStates are EC2's states of those of the instances that it shows and that are not
	// terminated.
	InstanceStates(ctx context.Context, ids []string) (map[string]string, error)
	// InstancesByTag are the instances, other than terminated ones, that have for each
	// key one of its values.
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
	// InstancesSince are those of InstancesByTag that were launched at a time or later.
	InstancesSince(ctx context.Context, tags map[string][]string, since time.Time) ([]capacity.Instance, error)
	// Terminate takes ids that are gone already without an error. What was launched within
	// minutes and EC2 does not know is not gone: that is an error.
	Terminate(ctx context.Context, ids []string) error
	// Remember says when an instance was launched that another program launched.
	Remember(id string, launched time.Time)
}

// PCS is what the resume hook asks of PCS, for partitions with provider pcs.
type PCS interface {
	// Held are those of the compute node groups that exist, each with the reservation that
	// it was set up for; "" if it was for none.
	Held(ctx context.Context, groups []string) (map[string]string, error)
	// Configure makes a compute node group right for a reservation and reports whether
	// it changed anything.
	Configure(ctx context.Context, group string, r capacity.Reservation, g capacity.NodeGroup) (changed bool, err error)
}

// Refused is an error with which AWS answered; the errors of EC2 and PCS wrap one then.
type Refused interface {
	error
	// ErrorCode is AWS's code, verbatim; ErrorMessage what AWS said with it.
	ErrorCode() string
	ErrorMessage() string
}

// Advised is an error that knows what to do about it, in a sentence without a full stop.
type Advised interface {
	error
	Advice() string
}

// Ledger keeps what is held, by all programs together.
type Ledger interface {
	// Hold enters one more, unless allowed has an error for it and the others.
	Hold(h capacity.Held, now time.Time, allowed func(more capacity.Held, others []capacity.Held) error) error
	// Released takes what is held no more out, by token or id.
	Released(now time.Time, names ...string) error
	// Full are reservations that were full a short while ago, with the number of nodes that
	// each had no room for; MarkFull notes one.
	Full(now time.Time) (map[string]int, error)
	MarkFull(id string, nodes int, now, until time.Time) error
}

// Records keeps what a hook did, for people who ask why.
type Records interface {
	AppendRecords(records ...state.Record) error
	// Records are all records, oldest first.
	Records() ([]state.Record, error)
}
