package power

import (
	"context"
	"log/slog"
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
	log.Info("power down", "nodes", nodes)
	if err := suspend(ctx, cfg, nodes, log, called); err != nil {
		log.Error("power down; sync, or the next launch of these nodes, terminates what is left", "nodes", nodes, "err", err)
		return 1
	}
	return 0
}

func suspend(ctx context.Context, cfg *config.Config, nodes string, log *slog.Logger, called time.Time) error {
	h, err := wire.Begin(ctx, cfg)
	if err != nil {
		return err
	}
	if h.StateErr != nil {
		log.Warn("there is no state folder; records are lost", "err", h.StateErr)
	}
	mark, err := h.Mark(ctx, log)
	if err != nil {
		return err
	}
	s := hooks.Suspend{Cluster: mark, Slurm: h.Slurm, EC2: h.EC2, Records: h.State, Log: log, Called: called}
	return s.Run(ctx, nodes)
}
