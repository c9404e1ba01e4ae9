package power

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Resume is the whole of pcs-capacity-resume; it returns the exit status.
func Resume(args []string) int {
	// The process is short-lived, and 1,000 nodes take a few MB: less time for garbage collection, and no more memory
	// than a call of squeue.
	debug.SetGCPercent(400)
	nodes, ok := hostlist(args, "resume", "ResumeProgram")
	if !ok {
		return 2
	}
	site := newSite("ResumeProgram")
	settings := config.Find("")
	unset := config.LoadEnvironment(config.EnvironmentPath(settings))
	cfg, err := config.Load(settings)
	if err != nil {
		site.log = hook.Log(config.Default().Log.Dir, "resume")
		site.log.Error("nothing is launched without settings", "err", err)
		site.all(nodes)
		return 1
	}
	log := hook.Log(cfg.Log.Dir, "resume")
	if unset != nil {
		log.Warn("going on without its environment", "err", unset)
	}
	ctx, stop := untilTerminated()
	defer stop()
	site.log = log
	nodes, err = site.start(cfg.Domain(), nodes)
	if nodes == "" {
		return site.end(err)
	}
	c := begin(log, "power up", nodes, "resume_file", os.Getenv("SLURM_RESUME_FILE"))
	return c.end(site.wait(errors.Join(err, resume(ctx, cfg, c))), "")
}

func resume(ctx context.Context, cfg *config.Config, c *call) error {
	log := c.log
	waits := waiting(log) // first: the file is there only for a while
	h, err := newClients(ctx, cfg, log, c.aws)
	if err != nil {
		return err
	}
	defer h.keepAccess(ctx)
	r := power.Resume{Site: h.site(c.keep), Ask: h.ask, Began: c.began, ByHand: os.Getenv("SLURM_RESUME_FILE") == ""}
	r.Cluster, _ = h.known()
	if r.Last, err = h.state.ReadSnapshot(); err != nil {
		log.Info("going on without the last snapshot", "err", err)
	}
	onPCS := func(p capacity.PartitionSettings) bool { return p.Provider == capacity.ProviderPCS }
	if slices.ContainsFunc(cfg.Partitions, onPCS) {
		r.PCS = &power.PCS{Provisioner: pcs.Provisioner{PCS: pcs.From(h.ec2.Shared()), EC2: h.ec2}, Cluster: cfg.Cluster}
	}
	return r.Run(ctx, c.nodes, waits)
}

// waiting reads SLURM_RESUME_FILE. Without it, as in a run by hand, the jobs are those
// that squeue shows on the nodes.
func waiting(log *slog.Logger) []power.Waiting {
	path := os.Getenv("SLURM_RESUME_FILE")
	if path == "" {
		return nil
	}
	file, err := slurm.ReadResumeFile(path)
	if err != nil {
		log.Warn("going on with what squeue says", "err", err)
		return nil
	}
	var waits []power.Waiting
	for _, job := range file.Jobs {
		nodes, err := slurm.Expand(job.ResumeNodes)
		if err != nil {
			log.Warn("going on with what squeue says", "job", job.ID, "err", err)
			continue
		}
		waits = append(waits, power.Waiting{Job: job.ID, Nodes: nodes})
	}
	return waits
}
