package power

import (
	"context"
	"errors"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/wire"
)

// Suspend is the whole of pcs-capacity-suspend; it returns the exit status.
func Suspend(args []string) int {
	called := time.Now()
	nodes, ok := hostlist(args, "suspend", "SuspendProgram and ResumeFailProgram")
	if !ok {
		return 2
	}
	site := newSite("SuspendProgram")
	settings := config.Find("")
	unset := config.LoadEnvironment(config.EnvironmentPath(settings))
	cfg, err := config.Load(settings)
	if err != nil {
		site.log = hook.Log(config.Default().Log.Dir, "suspend")
		site.log.Error("nothing is terminated without settings", "err", err)
		site.all(nodes)
		return 1
	}
	log := hook.Log(cfg.Log.Dir, "suspend")
	if unset != nil {
		log.Warn("going on without its environment", "err", unset)
	}
	ctx, stop := untilTerminated()
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, power.SuspendBudget)
	defer cancel()
	site.log = log
	nodes, err = site.start(cfg.Domain(), nodes)
	if nodes == "" {
		return site.end(err)
	}
	c := begin(log, "power down", nodes)
	return c.end(
		site.wait(errors.Join(err, suspend(ctx, cfg, c, called))),
		"; sync, or the next launch of these nodes, terminates what is left",
	)
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
	defer h.KeepAccess(ctx, log)
	mark, err := h.Mark(ctx, log)
	if err != nil {
		return err
	}
	s := power.Suspend{
		Site: &power.Site{
			Cluster:     mark,
			Slurm:       h.Slurm,
			EC2:         h.EC2,
			State:       h.State,
			Log:         log,
			MachineTime: time.Now,
			Kept:        c.keep,
		},
		Called: called,
	}
	return s.Run(ctx, c.nodes)
}
