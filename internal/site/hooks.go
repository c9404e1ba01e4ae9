package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Hook is a script of Slurm's on this host, or the settings that slurm.conf includes.
type Hook struct {
	// Name is cli_filter, job_submit or settings.
	Name, File string
	State      string   // installed, loaded, old, missing or foreign
	Wrong      []string // lists why Slurm lacks the settings, each a sentence with its remedy
}

// hooks compares the files with the plugins and programs in Slurm's settings.
func (r *run) hooks() {
	plugins := map[string][]string{}
	byHand := r.slurmConfig != nil && filepath.Base(r.slurmConfig.ResumeProgram) == "pcs-capacity-resume" // slurm.conf says itself what our file would
	needed := map[string]bool{"cli_filter": r.onPCS(), "job_submit": r.onEC2()}
	if c := r.slurmConfig; c != nil {
		plugins["cli_filter"], plugins["job_submit"] = c.CliFilterPlugins, c.JobSubmitPlugins
		for _, path := range []string{c.Prolog, c.TaskProlog} {
			if filepath.Base(path) == "pcs-capacity-prolog" {
				r.runs("prolog", path)
			}
		}
	}
	if r.Cluster.SlurmSettings["CliFilterPlugins"] == "cli_filter/lua" {
		plugins["cli_filter"] = []string{"lua"}
	}
	if r.Filter != "" {
		r.runs("filter", r.Filter)
	}
	for _, h := range r.Hooks {
		for _, words := range h.Wrong {
			r.failWords("slurm.conf", words, "")
		}
		on := slices.Contains(plugins[h.Name], "lua")
		switch {
		case h.Name != "settings":
			if needed[h.Name] || on {
				r.script(h, on, needed[h.Name])
			}
		case h.State == "foreign":
			r.fail("slurm.conf", "rename it, and run `pcs-capacity hooks install`", "%s was not written by pcs-capacity", h.File)
		case h.State == "missing" && needed["job_submit"] && !byHand:
			r.fail("slurm.conf", "run `pcs-capacity hooks install` on the controller", "slurm.conf does not include %s", h.File)
		case h.State == "installed" && h.Wrong == nil:
			r.ok("slurm.conf", "%s is installed", h.File)
		}
	}
	if r.onEC2() && r.slurmConfig != nil {
		r.powerPrograms()
	}
	if r.onEC2() {
		r.hookAccess()
	}
}

// hookAccess checks the last hook's access to AWS. It differs from the access of the user who runs
// check: Slurm hands no environment on.
func (r *run) hookAccess() {
	last, err := state.Dir(r.Config.StateDir).Hook().Read()
	switch {
	case err != nil:
		r.failWords("hook-credentials", err.Error(), "delete it; the next power-up writes it anew")
	case last == nil: // none has run
	case last.Without != "":
		r.fail("hook-credentials", "give the controller an instance profile, or write AWS_PROFILE or other variables into "+config.EnvironmentPath(r.Config.Path),
			"the last hook that slurmctld started had no AWS credentials, so that nothing is launched or terminated: %s", last.Without)
	case last.Account != "" && r.account != "" && last.Account != r.account:
		r.warn("hook-credentials", "run check with the hooks' credentials, or write AWS_PROFILE or other variables into "+config.EnvironmentPath(r.Config.Path),
			"the last hook that slurmctld started had AWS credentials%s, and this command those of account %s: what is said here of AWS is not what hooks find", whose(*last), r.account)
	default:
		r.ok("hook-credentials", "the last hook that slurmctld started had AWS credentials%s", whose(*last))
	}
}

// whose names the account of a hook's credentials, as far as known.
func whose(a state.HookAccess) (words string) {
	if a.Account != "" {
		words = " of account " + a.Account
	}
	if a.Source != "" {
		words += " (" + a.Source + ")"
	}
	return words
}

func (r *run) script(h Hook, on, needed bool) {
	fix := "run `pcs-capacity hooks install " + h.Name + "` on this host"
	switch {
	case h.State == "missing" && on:
		r.fail(h.Name, fix, "%s is missing while Slurm is told to run it: every submission is refused", h.File)
	case h.State == "missing":
		r.fail(h.Name, fix, "%s is missing", h.File)
	case h.State == "old":
		r.warn(h.Name, fix, "%s is not what this version writes for these settings", h.File)
	case h.State == "foreign" && needed:
		r.fail(h.Name, fix+", and add the line that it shows", "%s is the site's own and does not load ours", h.File)
	case h.State == "foreign":
		r.ok(h.Name, "%s is the site's own", h.File)
	case !on && (r.slurmConfig != nil || r.Cluster.ID != ""):
		r.fail(h.Name, "run `pcs-capacity hooks install settings`", "%s is there, but Slurm is not told to run it", h.File)
	default:
		r.ok(h.Name, "%s is %s", h.File, h.State)
	}
}

// powerPrograms checks the programs that slurmctld runs.
func (r *run) powerPrograms() {
	for _, p := range []struct{ key, has, program string }{
		{"ResumeProgram", r.slurmConfig.ResumeProgram, "pcs-capacity-resume"},
		{"SuspendProgram", r.slurmConfig.SuspendProgram, "pcs-capacity-suspend"},
		{"ResumeFailProgram", r.slurmConfig.ResumeFailProgram, "pcs-capacity-suspend"},
	} {
		const fix = "run `pcs-capacity hooks install settings` on the controller"
		switch {
		case p.has == "":
			r.fail("power", fix, "Slurm has no %s", p.key)
		case filepath.Base(p.has) != p.program:
			r.fail("power", fix, "Slurm's %s is %s, not %s", p.key, p.has, p.program)
		default:
			r.runs("power", p.has)
		}
	}
}

// runs checks that a program exists and that everybody may run it.
func (r *run) runs(check, path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.fail(check, "install the package pcs-capacity", "%s", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 != 0o111:
		r.fail(check, "chmod 755 "+path, "%s cannot be run by everybody: its mode is %04o", path, info.Mode().Perm())
	default:
		r.ok(check, "%s", path)
	}
}

// Host checks the host that setup runs on: a queue must not be left without settings, fence or filter. Its Config may be
// the defaults.
type Host struct {
	Sources
	Cluster  *pcs.Cluster // the PCS cluster; nil on self-managed Slurm, and where it is not known
	NewQueue bool         // the queue is new to users
}

// hostTime is how long slurmctld may take to answer.
const hostTime = 20 * time.Second

// Missing tries the steps that setup will take on this host, and returns the ones that fail. It
// changes nothing. For a queue that users already have, a missing filter is only a warning.
func (h Host) Missing(ctx context.Context) (missing []capacity.Problem, warnings []string) {
	r := run{Sources: h.Sources}
	if h.Cluster != nil {
		r.Cluster = *h.Cluster
	}
	const another = "run this as a user who may write there, such as root, "
	if err := config.TryFolder(filepath.Dir(config.PartitionPath(h.Config.Path, "try"))); err != nil {
		r.lacks("config-folder", another+"or name other settings with --config", "the settings cannot be written: %s", err)
	}
	if err := config.TryFolder(h.Config.StateDir); err != nil {
		r.lacks("state-dir", another+"or name another folder as state_dir", "state_dir cannot be written: %s", err)
	}
	ctx, cancel := context.WithTimeout(ctx, hostTime)
	defer cancel()
	if r.askSlurm(ctx); r.slurmConfig == nil {
		r.silent()
	} else {
		r.rights(ctx)
	}
	filter := len(r.Findings)
	if h.Cluster != nil {
		r.submitFilter()
	}
	for i, f := range r.Findings {
		switch {
		case f.Status != Fail:
		case i >= filter && !h.NewQueue:
			warnings = append(warnings, f.What+"; "+f.Fix)
		default:
			missing = append(missing, capacity.Problemf(cmp.Or(f.Code, capacity.Code(f.Check)), capacity.Subject{}, f.Fix, "%s", f.What))
		}
	}
	return missing, warnings
}

// submitFilter checks that the filter is on this host, and switched on.
func (r *run) submitFilter() {
	r.runs(string(capacity.FilterMissing), r.Filter)
	there := false
	on := r.Cluster.SlurmSettings["CliFilterPlugins"] == "cli_filter/lua" || r.slurmConfig != nil && slices.Contains(r.slurmConfig.CliFilterPlugins, "lua")
	for _, h := range r.Hooks {
		if h.Name == string(capacity.ScriptMissing) {
			r.script(h, on, true)
			there = true
		}
	}
	if !there {
		r.lacks(capacity.ScriptMissing, "run this on a login node, or write slurm.conf's path into SLURM_CONF, and run `pcs-capacity hooks install`", "no folder with slurm.conf is here, and so no submit filter")
	}
}

// state looks at the files that sync has written, and whether sync runs.
func (r *run) state() {
	start := "start it: " + r.Watch
	dir := state.Dir(r.Config.StateDir)
	info, err := os.Stat(r.Config.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail("state-dir", start, "%s is not there yet", dir)
		return
	case err != nil || !info.IsDir():
		r.fail("state-dir", "name a folder as state_dir", "%s is not a folder", dir)
		return
	case info.Mode().Perm()&0o005 != 0o005:
		r.fail("state-dir", fmt.Sprintf("chmod 755 %s", dir), "%s has mode %04o, so that the commands of users cannot read the snapshot", dir, info.Mode().Perm())
	}
	r.outlives(dir.Mount())
	snap, err := dir.ReadSnapshot()
	now := time.Now().Add(r.offset)
	fresh := err == nil && !snap.Stale(now)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail("snapshot", start, "%s is not there: every job is let through unchecked", dir.SnapshotPath())
	case err != nil:
		r.failWords("snapshot", err.Error(), "run `pcs-capacity sync` to write it anew")
	case !fresh:
		r.fail("snapshot", "see `journalctl -u 'pcs-capacity-*'`", "sync last saw AWS %s ago, more than %s", capacity.FormatDuration(now.Sub(snap.TakenAt)), capacity.FormatDuration(snap.Submit.StaleAfter.Duration))
	default:
		r.ok("snapshot", "sync last saw AWS %s ago", capacity.FormatDuration(max(0, now.Sub(snap.TakenAt))))
	}
	service, runs, err := dir.Watcher()
	switch {
	case runs:
		r.ok("service", "`pcs-capacity sync --watch` runs: %s", service)
	case err != nil:
		r.warn("service", "run this as root", "whether `pcs-capacity sync --watch` runs here is not known: %s", err)
	default:
		if fresh {
			r.warn("service", "if no other host runs it, "+start, "`pcs-capacity sync --watch` does not run on this host")
		} else {
			r.fail("service", start, "`pcs-capacity sync --watch` does not run")
		}
	}
}

const shareIt = "put state_dir on a shared file system, such as EFS or FSx: see Two hosts in docs/operations.md"

// outlives judges the file system of state_dir: whether it outlives this host, and whether the backup of slurmctld has it.
// What else a backup needs cannot be seen from here.
func (r *run) outlives(m state.Mount) {
	const kept = "the record of purchases and the samples of report"
	dir := r.Config.StateDir
	switch {
	case m.Shared():
		r.ok("state-dir", "%s is on %s, and outlives this host", dir, m)
	case m.InMemory():
		r.warn("state-dir", "name a folder on a disk as state_dir", "%s is on %s: %s end with the next boot", dir, m, kept)
	case !m.Local():
		r.warn("state-dir", shareIt, "%s is on %s; locking may not work there", dir, m)
	case r.onPCS():
		r.warn("state-dir", shareIt, "%s is on %s, a disk of a host that PCS replaces when it is unhealthy, if it has launched it: %s would end with it", dir, m, kept)
	default:
		r.ok("state-dir", "%s is on %s, and ends with this host", dir, m)
	}
	switch c := r.slurmConfig; {
	case c == nil || len(c.Backups) == 0 || !r.onEC2():
	case m.Shared():
		r.ok("backup", "%s takes slurmctld over, and needs the package, the settings, job_submit.lua, pcs-capacity.conf and AWS credentials, as this host", strings.Join(c.Backups, ", "))
	default:
		r.warn("backup", shareIt, "%s is on %s: when %s takes slurmctld over, its hooks know no reservation, and launch nothing", dir, m, strings.Join(c.Backups, ", "))
	}
}
