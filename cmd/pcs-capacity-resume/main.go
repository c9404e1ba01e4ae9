// Pcs-capacity-resume is Slurm's ResumeProgram; see package hooks. slurmctld calls it
// with a hostlist, an environment of SLURM_CONF and SLURM_RESUME_FILE only, and
// discards what it prints: it logs to resume.log in `[log] dir` and to syslog.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/wire"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// usage is for people; Slurm gives a hostlist.
const usage = `usage: pcs-capacity-resume HOSTLIST

Slurm's ResumeProgram: slurm.conf names it, and slurmctld calls it with
the nodes. It prints nothing: see resume.log in the folder that [log] dir of the settings
names, and syslog.
`

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	cfg, err := config.Load(config.Find(""))
	if err != nil {
		hooks.HookLog(config.Default().Log.Dir, "resume").Error("nothing is launched without settings", "err", err)
		os.Exit(1)
	}
	log := hooks.HookLog(cfg.Log.Dir, "resume")
	// Slurm 23.02 and newer end a ResumeProgram with SIGTERM at ResumeTimeout.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	log.Info("power up", "nodes", os.Args[1], "resume_file", os.Getenv("SLURM_RESUME_FILE"))
	if err := resume(ctx, cfg, os.Args[1], log); err != nil {
		log.Error("power up", "nodes", os.Args[1], "err", err)
		os.Exit(1)
	}
}

func resume(ctx context.Context, cfg *config.Config, hostlist string, log *slog.Logger) error {
	waits := waiting(log) // first: the file is there only for a while
	h, err := wire.Begin(ctx, cfg)
	if err != nil {
		return err
	}
	r := hooks.Resume{Settings: cfg.Domain(), Cluster: h.Cluster, Slurm: h.Slurm, EC2: h.EC2, Records: h.State, Log: log,
		MachineTime: time.Now, Budget: hooks.ResumeBudget(h.ResumeTimeout)}
	if slices.ContainsFunc(cfg.Partitions, func(p config.Partition) bool { return p.Provider == capacity.ProviderPCS }) {
		client, err := pcs.New(ctx, pcs.Options{Region: cfg.Region})
		if err != nil {
			return err
		}
		r.PCS = wire.PCS{Setup: pcs.Setup{PCS: client, EC2: h.EC2}, Cluster: cfg.Cluster}
	}
	return r.Run(ctx, hostlist, waits)
}

// waiting reads SLURM_RESUME_FILE. Without it, as in a run by hand, the jobs are those
// that squeue shows on the nodes.
func waiting(log *slog.Logger) []hooks.Waiting {
	path := os.Getenv("SLURM_RESUME_FILE")
	if path == "" {
		return nil
	}
	file, err := slurm.ReadResumeFile(path)
	if err != nil {
		log.Warn("going on with what squeue says", "err", err)
		return nil
	}
	var waits []hooks.Waiting
	for _, job := range file.Jobs {
		nodes, err := slurm.Expand(job.ResumeNodes)
		if err != nil {
			log.Warn("going on with what squeue says", "job", job.ID, "err", err)
			continue
		}
		waits = append(waits, hooks.Waiting{Job: job.ID, Nodes: nodes})
	}
	return waits
}
