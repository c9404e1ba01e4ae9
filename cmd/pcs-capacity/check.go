package main

import (
	"context"
	"errors"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/check"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// CheckCmd looks for everything that is wrong.
type CheckCmd struct {
	Filter string `help:"Path of pcs-capacity-filter. Default: as for hooks install." type:"path" placeholder:"FILE" predictor:"file"`
	Dir    string `help:"Folder of slurm.conf. Default: as for hooks install." type:"existingdir" predictor:"file"`
}

// Help is shown below the flags.
func (CheckCmd) Help() string {
	return `Looks at settings, AWS, Slurm, hooks and files, and changes nothing. Every failure has its
fix. Run it where sync runs, as the user that sync runs as. The exit status is 1 if anything
fails; warnings leave it 0.`
}

// findingRow is one check.
type findingRow struct {
	Check  string       `json:"check" col:"CHECK"`
	Status check.Status `json:"status" col:"STATUS"`
	Shown  string       `json:"-" col:"WHAT, AND WHAT TO DO" wrap:"yes"`
	What   string       `json:"what"`
	Fix    string       `json:"fix,omitempty"`
}

// checkDocument is the JSON form.
type checkDocument struct {
	OK       bool           `json:"ok"`
	Findings check.Findings `json:"findings"`
}

// Run makes all checks and shows them.
func (c *CheckCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal) error {
	path := config.Find(g.Config)
	cfg, err := config.Load(path)
	if err != nil {
		var wrong check.Findings
		for line := range strings.SplitSeq(err.Error(), "\n") {
			wrong = append(wrong, check.FromWords("settings", line, "mend "+path))
		}
		return c.show(t, wrong)
	}
	sources := check.Sources{Config: cfg, Slurm: slurm.New(cfg.Cluster), Watch: strings.Join(watchCommand(g, cfg), " && ")}
	if sources.EC2, sources.EC2Err = ec2.New(ctx, ec2.Options{Region: g.region(cfg), Profile: g.Profile}); sources.EC2Err == nil {
		sources.PCS = newPCS(sources.EC2)
	}
	rows, err := hookRows(ctx, programFlags{Filter: c.Filter, Dir: c.Dir}, &maybeConfig{cfg, true})
	if err != nil {
		return err
	}
	sources.Hooks, sources.Filter = checkedHooks(rows), likelyFilter(c.Filter)
	return c.show(t, sources.Run(ctx))
}

func checkedHooks(rows []hookRow) (hooks []check.Hook) {
	for _, row := range rows {
		hooks = append(hooks, check.Hook{Name: row.Hook, File: row.File, State: string(row.State), Wrong: row.Wrong})
	}
	return hooks
}

// likelyFilter is the filter, or where it should be.
func likelyFilter(given string) string {
	if path, err := findFilter(given); err == nil {
		return path
	}
	return filterPlaces(given)[0]
}

func (c *CheckCmd) show(t *terminal.Terminal, found check.Findings) error {
	rows := []findingRow{}
	for _, f := range found {
		shown := f.What
		if f.Fix != "" {
			shown += "\nfix: " + f.Fix
		}
		rows = append(rows, findingRow{f.Check, f.Status, shown, f.What, f.Fix})
	}
	err := t.Show(checkDocument{!found.Failed(), found}, rows)
	if found.Failed() {
		err = errors.Join(err, errShown)
	}
	return err
}
