package power

import (
	"context"
	"errors"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
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
	return c.end(site.wait(errors.Join(err, suspend(ctx, cfg, c, called))),
		"; sync, or the next launch of these nodes, terminates what is left")
}

func suspend(ctx context.Context, cfg *config.Config, c *call, called time.Time) error {
	h, err := newClients(ctx, cfg, c.log, c.aws)
	if err != nil {
		return err
	}
	defer h.keepAccess(ctx)
	s := power.Suspend{Site: h.site(c.keep), Called: called}
	if s.Cluster, err = h.mark(ctx); err != nil {
		return err
	}
	return s.Run(ctx, c.nodes)
}
