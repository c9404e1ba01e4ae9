package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/internal/wiring"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// HooksRemoveCmd takes back what install wrote.
type HooksRemoveCmd struct {
	Hook string `arg:"" optional:"" enum:"cli_filter,job_submit,settings," default:"" help:"cli_filter, job_submit or settings. Default: all."`
	forceFlag
	DryRun bool `help:"Show what would be done, and change nothing."`
}

// Help is shown below the flags.
func (HooksRemoveCmd) Help() string {
	return `Settings first, scripts after them: Slurm refuses every submission while a setting is on and its
script is gone. A script that slurmctld or slurm.conf still names stays, and so does one that a
script of yours names. Files that pcs-capacity did not write stay. On PCS, run it with cli_filter on all other nodes once
the setting is off.`
}

// Run plans, shows, asks and removes.
func (c *HooksRemoveCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	dirs, err := folders()
	if err != nil {
		return err
	}
	var plan wiring.Plan
	all := c.Hook == "" || c.Hook == settingsHook
	removal := scriptRemoval{cfg: cfg, dirs: dirs}
	job := wiring.Script{Hook: wiring.JobSubmit, Path: filepath.Join(dirs[0], wiring.JobSubmit+".lua")}
	switch {
	case all && cfg.Cluster != "":
		cluster, err := readCluster(ctx, g, cfg)
		if err != nil {
			return err
		}
		filter, _ := findFilter() // without programs there is no Prolog of ours
		if err := plan.SwitchOff(cluster.Cluster, filepath.Dir(filter)); err != nil {
			return err
		}
		removal = scriptRemoval{cfg: cfg, dirs: dirs, askedAWS: true, switches: cluster.On()}
		if len(plan.Changes) > 0 && !c.Force {
			if err := cluster.closed(ctx, cfg); err != nil {
				return err
			}
		}
	case all:
		site, err := readSite()
		if err != nil {
			return err
		}
		settings := slurmSettings(ctx, cfg, site, false, c.Force)
		settings.Off = removal.off(job)
		if err := plan.RemoveSettings(ctx, settings, job); err != nil {
			return err
		}
	}
	if c.Hook == wiring.CLIFilter || c.Hook == "" && cfg.Cluster != "" {
		for _, path := range scriptPaths(ctx, cfg, wiring.CLIFilter, dirs) {
			if err := removal.plan(ctx, &plan, wiring.Script{Hook: wiring.CLIFilter, Path: path}); err != nil {
				return err
			}
		}
	}
	if c.Hook == wiring.JobSubmit {
		if err := removal.plan(ctx, &plan, job); err != nil {
			return err
		}
	}
	err = applyPlan(ctx, t, plan, "Nothing of ours is there", true, "Remove this?", c.DryRun)
	if err == nil && plan.Restarts() && !c.DryRun {
		err = restarted(ctx, cfg, false)
	}
	return err
}

// scriptRemoval takes scripts away, each only once nothing has Slurm run it.
type scriptRemoval struct {
	cfg *config.Config
	// dirs are the folders of slurm.conf.
	dirs []string
	// askedAWS: the settings of the PCS cluster are known; switches: the plan switches
	// cli_filter off there, before the script goes.
	askedAWS, switches bool
}

// plan plans the end of a script, unless Slurm runs it and goes on to.
func (r scriptRemoval) plan(ctx context.Context, plan *wiring.Plan, s wiring.Script) error {
	if !r.switches {
		if err := r.refusal(ctx, s); err != nil {
			return err
		}
	}
	return plan.Remove(s, r.off(s))
}

// off waits, for the moments that a restart of slurmctld takes, until nothing runs the script.
func (r scriptRemoval) off(s wiring.Script) func(context.Context) error {
	return func(ctx context.Context) error {
		for end := time.Now().Add(restartTime); ; {
			err := r.refusal(ctx, s)
			if err == nil || time.Now().After(end) {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
}

// refusal is why the script cannot go now: slurmctld runs it, or slurm.conf says so. A slurmctld
// that is down starts with what slurm.conf says, and on PCS with what AWS has said.
func (r scriptRemoval) refusal(ctx context.Context, s wiring.Script) error {
	var running *slurm.Config
	now, unknown := slurm.New(r.cfg.Cluster).Config(ctx)
	if unknown == nil {
		running = &now
	}
	read := r.askedAWS
	for _, dir := range r.dirs {
		site, err := wiring.ReadSite(filepath.Join(dir, "slurm.conf"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := site.StillOn(s.Hook, running); err != nil {
			return err
		}
		read = read || err == nil && errors.Is(unknown, slurm.ErrUnreachable)
	}
	if unknown != nil && !read {
		return fmt.Errorf("whether Slurm runs %s is not known, and without it Slurm would refuse every submission: %w",
			filepath.Base(s.Path), unknown)
	}
	return nil
}
