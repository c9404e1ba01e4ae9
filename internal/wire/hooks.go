package wire

import (
	"context"
	"log/slog"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmTimeout bounds one call of scontrol, squeue or sinfo in a hook. It is shorter than
// the 10 s that a call to a dead slurmctld takes, so that a hook can still do its rest.
const slurmTimeout = 8 * time.Second

// Hook is what a power hook works with.
type Hook struct {
	Slurm *slurm.Client
	EC2   *ec2.Client
	State state.Dir

	pcsCluster string
	partitions []string
	// StateErr is why there is no state folder: records are lost, and nothing else.
	StateErr error
}

// Begin makes the adapters of a hook. It asks nobody but, for the region, the settings and
// the metadata of the instance. called is told of every call of AWS.
func Begin(ctx context.Context, cfg *config.Config, called func(ec2.Call)) (*Hook, error) {
	h := &Hook{Slurm: newHookSlurm(cfg), State: state.Dir(cfg.StateDir), pcsCluster: cfg.Cluster}
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
// looked for by now; no more than the metadata of the instance is asked.
func (h *Hook) KeepAccess(ctx context.Context, log *slog.Logger) {
	if h.StateErr != nil {
		return
	}
	var a state.HookAccess
	var err error
	if a.Account, a.Source, err = h.EC2.Shared().Whose(context.WithoutCancel(ctx)); err != nil {
		a.Without = err.Error()
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
