package main

import (
	"context"
	"path/filepath"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/internal/wiring"
)

// HooksRemoveCmd takes back what install wrote.
type HooksRemoveCmd struct {
	Hook string `arg:"" optional:"" enum:"cli_filter,job_submit,settings," default:"" help:"cli_filter, job_submit or settings. Default: all."`
	programFlags
	DryRun bool `help:"Show what would be done, and change nothing."`
}

// Help is shown below the flags.
func (HooksRemoveCmd) Help() string {
	return `Settings first, scripts after them: Slurm refuses every submission while a setting is on and its
script is gone. Files that pcs-capacity did not write stay. On PCS, run it with cli_filter on all
other nodes once the setting is off.`
}

// Run plans, shows, asks and removes.
func (c *HooksRemoveCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	dirs, err := c.folders()
	if err != nil {
		return err
	}
	var plan wiring.Plan
	all := c.Hook == "" || c.Hook == settingsHook
	job := wiring.Script{Hook: wiring.JobSubmit, Path: filepath.Join(dirs[0], wiring.JobSubmit+".lua")}
	switch {
	case all && cfg.Cluster != "":
		cluster, err := readCluster(ctx, g, cfg)
		if err != nil {
			return err
		}
		filter, _ := findFilter(c.Filter) // without programs there is no Prolog of ours
		if err := plan.SwitchOff(cluster.Cluster, filepath.Dir(filter)); err != nil {
			return err
		}
		if len(plan.Changes) > 0 {
			if err := cluster.closed(ctx, cfg); err != nil {
				return err
			}
		}
	case all:
		conf := filepath.Join(dirs[0], "slurm.conf")
		site, err := wiring.ReadConf(conf)
		if err != nil {
			return err
		}
		if err := plan.RemoveSettings(ctx, slurmSettings(ctx, cfg, conf, false), site, job); err != nil {
			return err
		}
	default:
		if err := switchedOff(ctx, c.Hook); err != nil {
			return err
		}
	}
	if c.Hook == wiring.CLIFilter || c.Hook == "" && cfg.Cluster != "" {
		for _, dir := range dirs {
			if err := plan.Remove(wiring.Script{Hook: wiring.CLIFilter, Path: filepath.Join(dir, wiring.CLIFilter+".lua")}); err != nil {
				return err
			}
		}
	}
	if c.Hook == wiring.JobSubmit {
		if err := plan.Remove(job); err != nil {
			return err
		}
	}
	err = c.apply(ctx, t, plan, "Nothing of ours is there", true, "Remove this?", c.DryRun)
	if err == nil && plan.Restarts() && !c.DryRun {
		err = restarted(ctx, cfg, false)
	}
	return err
}
