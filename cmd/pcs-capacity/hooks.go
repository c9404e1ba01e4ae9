package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// HooksCmd is about the scripts that Slurm runs at each submission.
type HooksCmd struct {
	Print   HooksPrintCmd   `cmd:"" help:"Print a hook's script."`
	Install HooksInstallCmd `cmd:"" help:"Write a hook's script where Slurm looks for it."`
	Status  HooksStatusCmd  `cmd:"" help:"Show which scripts are there."`
}

// hookMark is in the first line of every script of ours.
const hookMark = "-- Written by `pcs-capacity hooks install`"

// hookFlags choose a hook, and what its script calls.
type hookFlags struct {
	Hook   string `arg:"" enum:"cli_filter,job_submit" help:"cli_filter: on every host where users submit. job_submit: on slurmctld's, where you run that yourself."`
	Filter string `help:"Path of pcs-capacity-filter. Default: beside this program, else in ../libexec/pcs-capacity." type:"path" placeholder:"FILE" predictor:"file"`
}

// script is the text of the hook for these settings.
func (f hookFlags) script(cfg *config.Config) (string, error) {
	filter, err := findFilter(f.Filter)
	if err != nil {
		return "", err
	}
	script, folder := hooks.CLIFilter, cfg.StateDir
	if f.Hook == "job_submit" { // runs inside slurmctld, which must not wait for a file server
		script, folder = hooks.JobSubmit, cfg.LocalDir
	}
	dir, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	return script(state.Dir(dir).PlanPath(), dir, filter), nil
}

// findFilter finds the program that the scripts call; it must be there and run.
func findFilter(given string) (string, error) {
	places := []string{given}
	if given == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("looking for pcs-capacity-filter: %w; name it with --filter", err)
		}
		dir := filepath.Dir(self)
		places = []string{filepath.Join(dir, "pcs-capacity-filter"), filepath.Join(dir, "../libexec/pcs-capacity/pcs-capacity-filter")}
	}
	for _, path := range places {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", usage("no program at %s: the script would have nothing to call; name it with --filter", strings.Join(places, " or "))
}

// HooksPrintCmd prints a script.
type HooksPrintCmd struct{ hookFlags }

// Run prints the script with this site's paths.
func (c *HooksPrintCmd) Run(t *terminal.Terminal, cfg *config.Config) error {
	text, err := c.script(cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(t.Out, text)
	return err
}

// HooksInstallCmd writes a script.
type HooksInstallCmd struct {
	hookFlags
	Dir string `help:"Folder of slurm.conf. Default: that of SLURM_CONF, else every /etc/aws/pcs/scheduler/slurm-*, else /etc/slurm." type:"existingdir" xor:"where"`
	As  string `help:"Write it to this file, for a script of the site's own to load with its last line." type:"path" placeholder:"FILE" xor:"where"`
}

// Help is shown below the flags.
func (HooksInstallCmd) Help() string {
	return `Install it on every host before you switch it on in Slurm: with the setting on and the file
missing, Slurm refuses every submission on that host. Switch it on with CliFilterPlugins=lua
(AWS PCS: the cluster setting CliFilterPlugins = cli_filter/lua) or JobSubmitPlugins=lua.
A script that pcs-capacity did not write is never replaced: install ours beside it with --as,
and add the line that is shown to the end of yours. Yours then runs first.`
}

// Run writes the script, whole or not at all.
func (c *HooksInstallCmd) Run(t *terminal.Terminal, cfg *config.Config) error {
	text, err := c.script(cfg)
	if err != nil {
		return err
	}
	if c.As != "" {
		if err := c.write(t, c.As, text); err != nil {
			return err
		}
		t.Say("Make this the last line of your own %s.lua: %s", c.Hook, hooks.LoadLine(c.As))
		return nil
	}
	dirs := slurmDirs(c.Dir)
	if len(dirs) == 0 {
		return usage("no folder with slurm.conf was found; name it with --dir")
	}
	for _, dir := range dirs {
		if err := c.write(t, filepath.Join(dir, c.Hook+".lua"), text); err != nil {
			return err
		}
	}
	return nil
}

func (c *HooksInstallCmd) write(t *terminal.Terminal, path, text string) error {
	there, err := os.ReadFile(path)
	switch {
	case err == nil && string(there) == text:
		t.Say("%s is there already.", path)
		return nil
	case err == nil && !isHook(there):
		return fmt.Errorf("%s: it was not written by pcs-capacity and is left as it is; install ours beside it with --as FILE", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := renameio.WriteFile(path, []byte(text), 0o644, renameio.IgnoreUmask(), renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return err
	}
	t.Say("Wrote %s.", path)
	return nil
}

func isHook(text []byte) bool { return bytes.HasPrefix(text, []byte(hookMark)) }

// slurmDirs are the folders in which Slurm looks for its Lua scripts.
func slurmDirs(given string) []string {
	if given != "" {
		return []string{given}
	}
	if conf := os.Getenv("SLURM_CONF"); conf != "" {
		return []string{filepath.Dir(conf)}
	}
	dirs, _ := filepath.Glob("/etc/aws/pcs/scheduler/slurm-*") // the pattern is valid
	if len(dirs) == 0 {
		if _, err := os.Stat("/etc/slurm"); err == nil {
			dirs = []string{"/etc/slurm"}
		}
	}
	return dirs
}

// HooksStatusCmd shows what is installed.
type HooksStatusCmd struct {
	Dir string `help:"Folder of slurm.conf. Default: as for install." type:"existingdir"`
}

type hookRow struct {
	Hook string `json:"hook" col:"HOOK"`
	File string `json:"file" col:"FILE"`
	// State is installed, loaded (by the site's own script), missing or foreign.
	State string `json:"state" col:"STATE"`
}

// Run looks at the files. Whether Slurm is told to run them is in its own settings.
func (c *HooksStatusCmd) Run(t *terminal.Terminal) error {
	rows := []hookRow{}
	for _, dir := range slurmDirs(c.Dir) {
		for _, hook := range []string{"cli_filter", "job_submit"} {
			row := hookRow{Hook: hook, File: filepath.Join(dir, hook+".lua"), State: "installed"}
			text, err := os.ReadFile(row.File)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				row.State = "missing"
			case err != nil:
				return err
			case loadsHook(text):
				row.State = "loaded"
			case !isHook(text):
				row.State = "foreign"
			}
			rows = append(rows, row)
		}
	}
	return t.Rows(rows)
}

// loadsHook reports whether a site's own script names a file of ours in the line that
// LoadLine gives.
func loadsHook(text []byte) bool {
	for _, line := range bytes.Split(text, []byte("\n")) {
		rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(`pcall(dofile, "`))
		if path, _, found := bytes.Cut(rest, []byte(`"`)); ok && found {
			if script, err := os.ReadFile(string(path)); err == nil && isHook(script) {
				return true
			}
		}
	}
	return false
}
