// Pcs-capacity-suspend is Slurm's SuspendProgram and its ResumeFailProgram; see package
// hooks. slurmctld calls it with a hostlist and an environment of SLURM_CONF only, and
// discards what it prints: it logs to suspend.log in `[log] dir` and to syslog.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/cmd/internal/adapters"
	"github.com/pcs-capacity/pcs-capacity/config"
	"github.com/pcs-capacity/pcs-capacity/hooks"
)

func main() {
	called := time.Now()
	cfg, err := config.Load(config.Find(""))
	if err != nil {
		hooks.HookLog(config.Default().Log.Dir, "suspend").Error("nothing is terminated without settings", "err", err)
		os.Exit(1)
	}
	log := hooks.HookLog(cfg.Log.Dir, "suspend")
	if len(os.Args) != 2 {
		log.Error("usage: pcs-capacity-suspend HOSTLIST; slurm.conf names this program as its SuspendProgram and ResumeFailProgram", "args", os.Args)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, hooks.SuspendBudget)
	defer cancel()
	log.Info("power down", "nodes", os.Args[1])
	h, err := adapters.Begin(ctx, cfg)
	if err == nil {
		s := hooks.Suspend{Cluster: h.Cluster, Slurm: h.Slurm, EC2: h.EC2, Records: h.State, Log: log, Called: called}
		err = s.Run(ctx, os.Args[1])
	}
	if err != nil {
		log.Error("power down; the next launch of these nodes terminates what is left", "nodes", os.Args[1], "err", err)
		os.Exit(1)
	}
}
