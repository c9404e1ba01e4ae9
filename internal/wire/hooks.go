package wire

import (
	"context"
	"log/slog"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmTimeout bounds one call of scontrol, squeue or sinfo in a hook. It is shorter than
// the 10 s that a call to a dead slurmctld takes, so that a hook can still do its rest.
const slurmTimeout = 8 * time.Second

// Hook is what a power hook works with.
type Hook struct {
	Slurm power.Slurm
	EC2   *ec2.Client
	State state.Dir

	pcsCluster string
	partitions []string
	client     *slurm.Client
	// StateErr is why there is no state folder: records are lost, and nothing else.
	StateErr error
}

var (
	_ power.Slurm = HookSlurm{}
	_ power.EC2   = (*ec2.Client)(nil)
	_ power.PCS   = PCS{}
)

// Begin makes the adapters of a hook. It asks nobody but, for the region, the settings and
// the metadata of the instance. called is told of every call of AWS.
func Begin(ctx context.Context, cfg *config.Config, called func(ec2.Call)) (*Hook, error) {
	client := newHookSlurm(cfg)
	h := &Hook{Slurm: HookSlurm{client}, State: state.Dir(cfg.StateDir), pcsCluster: cfg.Cluster, client: client}
	for _, p := range cfg.Partitions {
		h.partitions = append(h.partitions, p.Name)
	}
	var err error
	if h.EC2, err = ec2.New(ctx, ec2.Options{Region: cfg.Region, Called: called}); err != nil {
		return nil, err
	}
	h.StateErr = h.State.Create()
	return h, nil
}

// KeepAccess writes down, for `check`, whether this hook had credentials of AWS, and whose. They have been
// looked for by now, and nobody is asked again.
func (h *Hook) KeepAccess(ctx context.Context, log *slog.Logger) {
	if h.StateErr != nil {
		return
	}
	var a state.HookAccess
	credentials, err := h.EC2.Shared().Config.Credentials.Retrieve(context.WithoutCancel(ctx))
	if err != nil {
		a.Without = err.Error()
	} else {
		a.Account, a.Source = credentials.AccountID, credentials.Source
	}
	if err := h.State.KeepHook(a); err != nil {
		log.Warn("check cannot tell what this hook had of AWS", "err", err)
	}
}

// NewSlurm asks the Slurm of the settings' cluster. Every command and hook asks through it.
func NewSlurm(cfg *config.Config) *slurm.Client { return &slurm.Client{PCS: cfg.Cluster != ""} }

func newHookSlurm(cfg *config.Config) *slurm.Client {
	client := NewSlurm(cfg)
	client.Timeout = slurmTimeout
	return client
}

// HookSlurm shows Slurm to hooks.
type HookSlurm struct{ *slurm.Client }

// Jobs are all jobs that slurmctld knows, without what a hook does not ask for.
func (s HookSlurm) Jobs(ctx context.Context) ([]capacity.Job, error) { return s.BriefJobs(ctx) }

// Power is what each of the nodes that Slurm shows does.
func (s HookSlurm) Power(ctx context.Context, nodes []string) (map[string]power.Power, error) {
	all, err := s.NodeStates(ctx, nodes...)
	if err != nil {
		return nil, err
	}
	does := map[string]power.Power{}
	for _, n := range all {
		switch {
		case n.PoweringUp():
			does[n.Name] = power.PoweringUp
		case n.PoweredDown() || n.PoweringDown():
			does[n.Name] = power.PoweredDown
		default:
			does[n.Name] = power.PoweredUp
		}
	}
	return does, nil
}

// GivenUp are those of the nodes that did not boot within ResumeTimeout.
func (s HookSlurm) GivenUp(ctx context.Context, nodes []string) ([]string, error) {
	all, err := s.Nodes(ctx, nodes...)
	if err != nil {
		return nil, err
	}
	var givenUp []string
	for _, n := range all {
		if n.GivenUp() {
			givenUp = append(givenUp, n.Name)
		}
	}
	return givenUp, nil
}

// Expand gives the names of a hostlist.
func (HookSlurm) Expand(hostlist string) ([]string, error) { return slurm.Expand(hostlist) }

// Hostlist is the sorted hostlist of names.
func (HookSlurm) Hostlist(names []string) string { return slurm.Compress(names) }
