package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// What the linker sets in packages.
var version, commit, date = "devel", "unknown", "unknown"

// notifySystemd tells systemd, where it started the program as a service, that the program is
// alive; and that it is ready, from the first pass on.
func notifySystemd(passed string) {
	words := daemon.SdNotifyWatchdog
	if passed != "" {
		words += "\n" + daemon.SdNotifyReady + "\nSTATUS=" + passed
	}

	_, _ = daemon.SdNotify(false, words) // nobody else could be told
}

// readConfig reads the settings for commands that require them.
func readConfig(g *Globals) (*config.Config, error) {
	c, err := config.Load(config.Find(g.Config))
	if err != nil {
		return nil, usageError{err}
	}

	return c, nil
}

// maybeConfig is the settings for commands that also work where there are none yet, as
// on a laptop: then they are the defaults, and Found is false.
type maybeConfig struct {
	*config.Config
	Found bool
}

func readConfigIfAny(g *Globals) (*maybeConfig, error) {
	path := config.Find(g.Config)
	c, err := config.Load(path)
	switch {
	case (g.Config == "" || g.WritesConfig) && errors.Is(err, fs.ErrNotExist):
		c = config.Default()
		c.Path = path
		return &maybeConfig{c, false}, nil
	case err != nil:
		return nil, usageError{err}
	}

	return &maybeConfig{c, true}, nil
}

// readOverTime completes the settings' times, so that the fences that are printed are those of sync. Where neither sync
// nor Slurm can be asked, as on a laptop, jobs are taken to end at their limits.
func readOverTime(ctx context.Context, c *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, slurmWait)
	defer cancel()

	c.Timing.OverTime, _ = facts.OverTime(ctx, c.Domain(), state.Dir(c.StateDir), slurm.New(c.Cluster))
}

// region names the region in which AWS is asked; "" leaves it to the SDK.
func (g *Globals) region(c *config.Config) string { return cmp.Or(g.Region, c.Region) }

func newEC2(ctx context.Context, g *Globals, c *maybeConfig) (client *ec2.Client, err error) {
	g.aws, err = ec2.New(ctx, ec2.Options{Region: g.region(c.Config), Profile: g.Profile})
	return g.aws, err
}

func newPCS(aws *ec2.Client) *pcs.Client { return pcs.From(aws.Shared()) }

// sourcesIfAny returns the sources of the control loop, for a command that also works without AWS.
func sourcesIfAny(ctx context.Context, g *Globals, cfg *config.Config) lifecycle.Sources {
	aws, err := ec2.New(ctx, ec2.Options{Region: g.region(cfg), Profile: g.Profile})
	if err != nil {
		return sources.WithoutAWS(cfg, g.region(cfg), err)
	}

	return sources.New(cfg, aws, newPCS(aws))
}
