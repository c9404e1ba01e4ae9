package power

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/wire"
)

// Suspend is the whole of pcs-capacity-suspend; it returns the exit status.
func Suspend(args []string) int {
	called := time.Now()
	nodes, ok := hostlist(args, "suspend", "SuspendProgram and ResumeFailProgram")
	if !ok {
		return 2
	}
	cfg, err := config.Load(config.Find(""))
	if err != nil {
		hooks.HookLog(config.Default().Log.Dir, "suspend").Error("nothing is terminated without settings", "err", err)
		return 1
	}
	log := hooks.HookLog(cfg.Log.Dir, "suspend")
	ctx, stop := untilTerminated()
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, hooks.SuspendBudget)
	defer cancel()
	c := begin(log, "power down", nodes)
	return c.end(suspend(ctx, cfg, c, called), "; sync, or the next launch of these nodes, terminates what is left")
}

func suspend(ctx context.Context, cfg *config.Config, c *call, called time.Time) error {
	log := c.log
	h, err := wire.Begin(ctx, cfg, c.aws)
	if err != nil {
		return err
	}
	if h.StateErr != nil {
		log.Warn("there is no state folder; records are lost", "err", h.StateErr)
	}
	c.records = h.State
	mark, err := h.Mark(ctx, log)
	if err != nil {
		return err
	}
	s := hooks.Suspend{Cluster: mark, Slurm: h.Slurm, EC2: h.EC2, Records: c, Log: log, Called: called}
	return s.Run(ctx, c.nodes)
}
