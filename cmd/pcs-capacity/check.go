package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/check"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/hookinstall"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// CheckCmd reports everything that is wrong.
type CheckCmd struct{}

func (CheckCmd) Help() string {
	return `Looks at settings, AWS, Slurm, hooks and files, and changes nothing. Every failure has its
fix. Run it where sync runs, as the user that sync runs as. The exit status is 1 if anything
fails; warnings leave it 0.`
}

// findingRow is one check.
type findingRow struct {
	Check  string        `json:"check"`
	Status string        `json:"status"`
	Code   capacity.Code `json:"code"`
	What   string        `json:"what"`
	Fix    string        `json:"fix"`
}

// Text returns the finding with its fix.
func (r findingRow) Text() string {
	if r.Fix == "" {
		return r.What
	}
	return r.What + "\nfix: " + r.Fix
}

// checkDocument is the JSON form.
type checkDocument struct {
	OK       bool              `json:"ok"`
	Findings capacity.Problems `json:"findings"`
}

// Run makes all checks and shows them.
func (c *CheckCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal) error {
	path := config.Find(g.Config)

	cfg, err := config.Load(path)
	if err != nil {
		return c.show(t, check.Settings(path, err))
	}

	sources := facts.Surveyor{Host: facts.Host{Config: cfg, Watch: watchCommand(g, cfg)}, Slurm: slurm.New(cfg.Cluster)}
	sources.EC2, sources.EC2Err = ec2.New(ctx, ec2.Options{Region: g.region(cfg), Profile: g.Profile})
	if sources.EC2Err == nil {
		sources.PCS = newPCS(sources.EC2)
	}

	sources.Hooks, err = readHooks(ctx, &maybeConfig{cfg, true})
	if err != nil {
		return err
	}

	sources.Filter, _ = findFilter() // whether it runs is checked
	progress := t.Slow("asking AWS and Slurm")
	survey := sources.Survey(ctx)

	progress.Done()

	return c.show(t, check.Survey(survey))
}

// readHooks looks at the scripts of this host, and at the settings of self-managed Slurm. Without settings
// of ours, or without the filter, nobody knows what is old.
func readHooks(ctx context.Context, cfg *maybeConfig) (hooks []facts.Hook, err error) {
	dirs := hookinstall.Folders()
	for _, hook := range []string{hookinstall.CLIFilter, hookinstall.JobSubmit} {
		for _, path := range scriptPaths(ctx, cfg.Config, hook, dirs) {
			s := hookinstall.Script{Hook: hook, Path: path}
			if full, err := script(cfg.Config, hook, path); err == nil && cfg.Found {
				s = full
			}

			now, err := s.State()
			if err != nil {
				return nil, err
			}

			if hook == hookinstall.CLIFilter || cfg.Cluster == "" ||
				now != hookinstall.Missing { // PCS lets nobody have a job_submit.lua
				hooks = append(hooks, facts.Hook{Name: hook, File: path, State: string(now)})
			}
		}
	}

	for _, dir := range dirs {
		conf := filepath.Join(dir, "slurm.conf")
		if _, err := os.Stat(conf); err != nil || cfg.Cluster != "" {
			continue
		}

		own, err := hookinstall.ReadSlurmConf(conf)
		if err != nil {
			return nil, err
		}

		now, wrong, err := own.State()
		if err != nil {
			return nil, err
		}

		version := slurmVersion(ctx, cfg.Config)
		unplaced, notes := own.CheckTopology(cfg.Domain(), version)
		wrong = slices.Concat(wrong, unplaced, own.CheckBlocks(cfg.Domain(), version))
		hooks = append(
			hooks,
			facts.Hook{
				Name:  settingsHook,
				File:  filepath.Join(dir, hookinstall.IncludeFile),
				State: string(now),
				Wrong: wrong,
				Notes: notes,
			},
		)
	}

	return hooks, nil
}

func (c *CheckCmd) show(t *terminal.Terminal, found capacity.Problems) error {
	rows, words := []findingRow{}, map[capacity.Severity]string{
		capacity.Admin: "fail",
		capacity.Note:  "warn",
		capacity.Good:  "ok",
	}
	for _, p := range found {
		rows = append(rows, findingRow{p.About.Check, words[p.Severity], p.Code, p.Sentence, p.Fix})
	}

	failed := len(found.Texts(capacity.Admin)) > 0
	err := t.Show(checkDocument{!failed, found}, rows, "CHECK: Check; STATUS: Status; WHAT, AND WHAT TO DO: Text wrap")
	if failed {
		err = errors.Join(err, errReported)
	}

	return err
}
