package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmTimeout bounds one call of scontrol or squeue in a hook. It is shorter than
// the 10 s that a call to a dead slurmctld takes, so that a hook can still do its rest.
const slurmTimeout = 8 * time.Second

// Hook is what a power hook works with.
type Hook struct {
	Config *config.Config
	// Cluster is the value of our mark: the PCS cluster, else Slurm's ClusterName.
	Cluster string
	Slurm   Slurm
	EC2     EC2
	State   state.Dir
	// ResumeTimeout is Slurm's; 0 if Slurm could not be asked.
	ResumeTimeout time.Duration
}

// Begin makes the adapters of a hook. Slurm's power hooks know their cluster only by
// asking slurmctld, unless the settings name it.
func Begin(ctx context.Context, cfg *config.Config) (*Hook, error) {
	h := &Hook{Config: cfg, Cluster: cfg.Cluster, Slurm: Slurm{&slurm.Client{Timeout: slurmTimeout}}, State: state.Dir(cfg.StateDir)}
	controller, err := h.Slurm.Config(ctx)
	switch {
	case err == nil:
		h.ResumeTimeout = controller.ResumeTimeout
		if h.Cluster == "" {
			h.Cluster = controller.ClusterName
		}
	case h.Cluster == "":
		return nil, fmt.Errorf("asking Slurm for the name of its cluster: %w", err)
	}
	client, err := ec2.New(ctx, ec2.Options{Region: cfg.Region})
	if err != nil {
		return nil, err
	}
	h.EC2 = EC2{client}
	return h, h.State.Create()
}
