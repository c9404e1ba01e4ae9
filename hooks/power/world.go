package power

import (
	"context"
	"net/netip"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// World is what the power hooks act on: Slurm, EC2, PCS and the files in state_dir. Each verb is one call.
type World interface {
	BriefJobs(ctx context.Context) ([]capacity.Job, error)
	Nodes(ctx context.Context, names ...string) ([]capacity.Node, error)
	SetAddresses(ctx context.Context, addresses map[string]netip.Addr) error
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	Begin(ctx context.Context, job string, at time.Time) error
	SetAdminComments(ctx context.Context, text string, jobs ...string) error
	Notify(ctx context.Context, job, text string) error
	AllowRequeue(ctx context.Context, allow bool, jobs ...string) error
	RequeueHold(ctx context.Context, jobs ...string) error
	Cancel(ctx context.Context, jobs ...string) error
	Hold(ctx context.Context, jobs ...string) error
	UserHold(ctx context.Context, jobs ...string) error
	SetPartition(ctx context.Context, job, partitions, adminComment string) error
	Release(ctx context.Context, job string) error

	Launch(ctx context.Context, l capacity.Launch) ([]capacity.Instance, error)
	Terminate(ctx context.Context, ids []string) error
	CreateODCR(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error)
	CancelODCR(ctx context.Context, id string) error
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
	ConsoleSays(ctx context.Context, id string) (string, error)
	InstanceStates(ctx context.Context, ids []string) (map[string]string, error)
	ImagePlatform(ctx context.Context, template string) (capacity.ImagePlatform, error)
	// Remember tells the launch time of an instance that only our records name: EC2 may deny that it exists.
	Remember(id string, launched time.Time)
	// Now is AWS's time; Offset is AWS's time minus the machine's.
	Now() time.Time
	Offset() time.Duration

	Configure(ctx context.Context, r pcs.ConfigureRequest) (changed bool, err error)

	Enlist(h capacity.Held, now time.Time,
		allowed func(more capacity.Held, others []capacity.Held) error) (capacity.Held, error)
	Released(now time.Time, names ...string) error
	MarkFull(reservation string, nodes int, now, until time.Time) error
	Records() ([]state.Record, error)
	AppendRecords(records ...state.Record) error
}

// machineNow is the machine's time.
func machineNow(w World) time.Time { return w.Now().Add(-w.Offset()) }

type (
	slurmClient = slurm.Client
	ec2Client   = ec2.Client
)

// adapters are the World.
type adapters struct {
	*slurmClient
	*ec2Client
	state.Dir
	pcs.Provisioner
}
