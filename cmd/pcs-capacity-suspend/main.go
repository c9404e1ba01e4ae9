// Pcs-capacity-suspend is Slurm's SuspendProgram and its ResumeFailProgram; see package
// hooks. slurmctld calls it with a hostlist and an environment of SLURM_CONF only, and
// discards what it prints: it logs to suspend.log in `[log] dir` and to syslog.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/wire"
)

// usage is for people; Slurm gives a hostlist.
const usage = `usage: pcs-capacity-suspend HOSTLIST

Slurm's SuspendProgram and ResumeFailProgram: slurm.conf names it, and slurmctld calls it with
the nodes. It prints nothing: see suspend.log in the folder that [log] dir of the settings
names, and syslog.
`

func main() {
	called := time.Now()
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	cfg, err := config.Load(config.Find(""))
	if err != nil {
		hooks.HookLog(config.Default().Log.Dir, "suspend").Error("nothing is terminated without settings", "err", err)
		os.Exit(1)
	}
	log := hooks.HookLog(cfg.Log.Dir, "suspend")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, hooks.SuspendBudget)
	defer cancel()
	log.Info("power down", "nodes", os.Args[1])
	h, err := wire.Begin(ctx, cfg)
	if err == nil {
		s := hooks.Suspend{Cluster: h.Cluster, Slurm: h.Slurm, EC2: h.EC2, Records: h.State, Log: log, Called: called}
		err = s.Run(ctx, os.Args[1])
	}
	if err != nil {
		log.Error("power down; the next launch of these nodes terminates what is left", "nodes", os.Args[1], "err", err)
		os.Exit(1)
	}
}
