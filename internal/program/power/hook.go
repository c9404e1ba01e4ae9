package power

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmTimeout bounds one call of scontrol, squeue or sinfo in a hook. It is shorter than
// the 10 s that a call to a dead slurmctld takes, so that a hook can still do its rest.
const slurmTimeout = 8 * time.Second

// clients are what a power hook works with.
type clients struct {
	slurm *slurm.Client
	ec2   *ec2.Client
	state state.Dir
	cfg   *config.Config
	log   *slog.Logger
	// noState is why there is no state folder: records are lost, and nothing else.
	noState error
}

// newClients makes the clients of a hook. It asks nobody but, for the region, the settings and the
// metadata of the instance. called is told of every call of AWS.
func newClients(ctx context.Context, cfg *config.Config, log *slog.Logger, called func(ec2.Call)) (*clients, error) {
	c := &clients{slurm: slurm.New(cfg.Cluster), state: state.Dir(cfg.StateDir), cfg: cfg, log: log}
	c.slurm.Timeout = slurmTimeout
	var err error
	if c.ec2, err = ec2.New(ctx, ec2.Options{Region: cfg.Region, Called: called}); err != nil {
		return nil, err
	}
	if c.noState = c.state.Create(); c.noState != nil {
		log.Warn("there is no state folder; records are lost", "err", c.noState)
	}
	return c, nil
}

// site is what the use cases get.
func (c *clients) site(kept func([]state.Record)) *power.Site {
	return &power.Site{Settings: c.cfg.Domain(), Slurm: c.slurm, EC2: c.ec2, State: c.state, Log: c.log, MachineTime: time.Now, Kept: kept}
}

// keepAccess writes down, for `check`, whether this hook had credentials of AWS, and whose. They have been
// looked for by now; no more than the metadata of the instance is asked.
func (c *clients) keepAccess(ctx context.Context) {
	if c.noState != nil {
		return
	}
	var a state.HookAccess
	var err error
	if a.Account, a.Source, err = c.ec2.Shared().Whose(context.WithoutCancel(ctx)); err != nil {
		a.Without = err.Error()
	}
	if err := c.state.KeepHook(a); err != nil {
		c.log.Warn("check cannot tell what this hook had of AWS", "err", err)
	}
}

// ask asks slurmctld for the value of our mark, the PCS cluster or else a ClusterMark, and for the shortest
// ResumeTimeout of our partitions. It keeps the mark for a hook that finds no slurmctld; with a mark that is
// known without it, it is no error if nobody answers, and the timeout is 0.
func (c *clients) ask(ctx context.Context) (mark string, resumeTimeout time.Duration, err error) {
	controller, err := c.slurm.Config(ctx)
	if err != nil {
		if mark, ok := c.known(); ok {
			return mark, 0, nil
		}
		return "", 0, fmt.Errorf("asking Slurm for the name of its cluster: %w", err)
	}
	if c.cfg.Cluster != "" {
		return c.cfg.Cluster, controller.ResumeTimeout, nil
	}
	resumeTimeout = controller.ResumeTimeout
	if there, err := c.slurm.Partitions(ctx); err == nil {
		var ours []string
		for _, p := range c.cfg.Partitions {
			ours = append(ours, p.Name)
		}
		resumeTimeout = controller.ShortestResumeTimeout(there, ours)
	} else {
		c.log.Warn("asking Slurm for its partitions; taking the ResumeTimeout of slurm.conf", "err", err)
	}
	mark, notKept, err := c.state.LearnMark(controller.StateSaveLocation, controller.ClusterName)
	if notKept != nil {
		c.log.Warn("keeping the cluster's mark for when slurmctld does not answer", "err", notKept)
	}
	return mark, resumeTimeout, err
}

// mark is the value of our mark. Without an earlier hook that has kept it, it asks
// slurmctld until it is answered or ctx ends: a hook that knows no mark can touch nothing.
func (c *clients) mark(ctx context.Context) (string, error) {
	if c.cfg.Cluster != "" {
		return c.cfg.Cluster, nil
	}
	for {
		mark, _, err := c.ask(ctx)
		if err == nil || ctx.Err() != nil {
			return mark, err
		}
		c.log.Warn("asked again", "err", err)
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(time.Second):
		}
	}
}

// known is the mark as the settings have it, or as an earlier hook learned it.
func (c *clients) known() (mark string, ok bool) {
	if c.cfg.Cluster != "" {
		return c.cfg.Cluster, true
	}
	mark, err := c.state.KnownMark()
	return mark, err == nil
}
