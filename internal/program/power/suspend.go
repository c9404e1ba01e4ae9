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
	log.Info("power down", "nodes", nodes)
	h, err := wire.Begin(ctx, cfg)
	if err == nil {
		s := hooks.Suspend{Cluster: h.Cluster, Slurm: h.Slurm, EC2: h.EC2, Records: h.State, Log: log, Called: called}
		err = s.Run(ctx, nodes)
	}
	if err != nil {
		log.Error("power down; the next launch of these nodes terminates what is left", "nodes", nodes, "err", err)
		return 1
	}
	return 0
}
