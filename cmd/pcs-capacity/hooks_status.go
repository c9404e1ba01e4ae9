package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/internal/wiring"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// HooksStatusCmd shows what is installed.
type HooksStatusCmd struct {
	Dir string `help:"Folder of slurm.conf. Default: as for install." type:"existingdir" predictor:"file"`
}

type hookRow struct {
	Hook string `json:"hook" col:"HOOK"`
	File string `json:"file" col:"FILE"`
	// State is installed, loaded (by the site's own script), old, missing or foreign.
	State wiring.State `json:"state" col:"STATE"`
	// Wrong is what keeps Slurm from having the settings, a sentence with its remedy each.
	Wrong []string `json:"-"`
}

// Run looks at the files. Whether Slurm is told to run them, check says. Settings of ours
// that cannot be read do not hide what is there.
func (c *HooksStatusCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal) error {
	cfg, err := readConfigIfAny(g)
	if err != nil {
		t.Say("Which scripts are old is not known: %s", err)
		cfg = &maybeConfig{config.Default(), false}
	}
	rows, err := hookRows(ctx, programFlags{Dir: c.Dir}, cfg)
	if err != nil {
		return err
	}
	for _, row := range rows {
		for _, sentence := range row.Wrong {
			t.Say("%s", sentence)
		}
	}
	return t.Rows(rows)
}

// hookRows look at the scripts, and at the settings of self-managed Slurm. Without settings
// of ours, or without the filter, nobody knows what is old.
func hookRows(ctx context.Context, f programFlags, cfg *maybeConfig) ([]hookRow, error) {
	rows := []hookRow{}
	dirs := wiring.Folders(f.Dir)
	paths := map[string][]string{}
	for _, hook := range []string{wiring.CLIFilter, wiring.JobSubmit} {
		paths[hook] = scriptPaths(ctx, cfg.Config, hook, dirs)
	}
	for i, dir := range dirs {
		for _, hook := range []string{wiring.CLIFilter, wiring.JobSubmit} {
			if i >= len(paths[hook]) {
				continue
			}
			s := wiring.Script{Hook: hook, Path: paths[hook][i]}
			if full, err := f.script(cfg.Config, hook, s.Path); err == nil && cfg.Found {
				s = full
			}
			now, err := s.State()
			if err != nil {
				return nil, err
			}
			if hook == wiring.JobSubmit && cfg.Cluster != "" && now == wiring.Missing {
				continue // PCS runs slurmctld, and lets nobody have a script there
			}
			rows = append(rows, hookRow{Hook: hook, File: s.Path, State: now})
		}
		conf := filepath.Join(dir, "slurm.conf")
		if _, err := os.Stat(conf); err == nil && cfg.Cluster == "" {
			var running *slurm.Config
			if now, err := slurm.New(cfg.Cluster).Config(ctx); err == nil && sameFile(now.ConfPath, conf) {
				running = &now
			}
			now, wrong, err := wiring.Settings{Conf: conf}.State(running)
			if err != nil {
				return nil, err
			}
			rows = append(rows, hookRow{settingsHook, filepath.Join(dir, wiring.IncludeFile), now, wrong})
		}
	}
	return rows, nil
}
