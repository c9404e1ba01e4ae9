package main

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/internal/wiring"
)

// HooksInstallCmd writes scripts and settings.
type HooksInstallCmd struct {
	Hook string `arg:"" optional:"" enum:"cli_filter,job_submit,settings," default:"" help:"cli_filter: on every host where users submit. job_submit: on slurmctld's, where you run that yourself. settings: of slurm.conf, or of the PCS cluster. Default: all that the cluster needs."`
	prologFlag
	forceFlag
	DryRun bool `help:"Show what would be done, and change nothing."`
}

// Help is shown below the flags.
func (HooksInstallCmd) Help() string {
	return `Without a HOOK, for Slurm that you run yourself: job_submit.lua, then the settings of slurm.conf
in a file that it includes, with nodes and partitions, then a restart of slurmctld. For AWS PCS:
cli_filter.lua of every Slurm version that is installed here, then the setting of the cluster that
switches it on. Settings are shown, and asked about, before they are written.

slurm.conf is the one that SLURM_CONF names, else that of each /etc/aws/pcs/scheduler/slurm-*, else
that of /etc/slurm. Slurm runs the programs of ../libexec/pcs-capacity, else those beside pcs-capacity.

Install cli_filter on every login and compute node before you switch it on: with the setting on
and the file missing, Slurm refuses every submission on that host.
A script that pcs-capacity did not write is never replaced: ours goes beside it, and the line
that loads it is shown. Yours then runs first.`
}

// Run plans, shows, asks and writes.
func (c *HooksInstallCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	dirs, err := folders()
	if err != nil {
		return err
	}
	var plan wiring.Plan
	hook := wiring.JobSubmit
	if cfg.Cluster != "" {
		hook = wiring.CLIFilter
	}
	if c.Hook != "" {
		hook = c.Hook
	}
	var paths []string
	if c.Hook != settingsHook {
		paths = scriptPaths(ctx, cfg, hook, dirs)
	}
	for _, path := range paths {
		s, err := script(cfg, hook, path)
		if err == nil {
			err = plan.Install(s)
		}
		if err != nil {
			return err
		}
	}
	if c.Hook == "" || c.Hook == settingsHook {
		if err := c.settings(ctx, g, cfg, &plan); err != nil {
			return err
		}
	}
	question := "Write this?"
	if cfg.Cluster != "" {
		question = "Is cli_filter.lua on every login and compute node, and are these settings right?"
	}
	err = applyPlan(ctx, t, plan, there, c.Hook == "" || c.Hook == settingsHook, question, c.DryRun)
	if err == nil && plan.Restarts() && !c.DryRun {
		err = restarted(ctx, cfg, true)
	}
	return err
}

func (c *HooksInstallCmd) settings(ctx context.Context, g *Globals, cfg *config.Config, plan *wiring.Plan) error {
	if cfg.Cluster != "" {
		cluster, err := readCluster(ctx, g, cfg)
		if err != nil {
			return err
		}
		before := len(plan.Changes)
		if err := plan.SwitchOn(cluster.Cluster, c.prologs()); err != nil || len(plan.Changes) == before || c.Force {
			return err
		}
		return cluster.closed(ctx, cfg)
	}
	in, err := c.include(ctx, g, cfg)
	if err != nil {
		return err
	}
	plan.ByHand = append(plan.ByHand, in.notes...)
	return plan.InstallSettings(ctx, slurmSettings(ctx, cfg, in.site, true, c.Force), in.text, in.gres)
}
