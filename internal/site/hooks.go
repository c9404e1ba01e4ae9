package site

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Hook is a script of Slurm's on this host, or the settings that slurm.conf includes.
type Hook struct {
	// Name is cli_filter, job_submit or settings.
	Name, File string
	// State is installed, loaded, old, missing or foreign.
	State string
	// Wrong lists why Slurm lacks the settings, each a sentence with its remedy.
	Wrong []string
}

// hooks compares the files with the plugins and programs in Slurm's settings.
func (r *run) hooks() {
	plugins := map[string][]string{}
	needed := map[string]bool{"cli_filter": r.onPCS(), "job_submit": r.onEC2()}
	if c := r.slurmConfig; c != nil {
		plugins["cli_filter"], plugins["job_submit"] = c.CliFilterPlugins, c.JobSubmitPlugins
		for _, path := range []string{c.Prolog, c.TaskProlog} {
			if filepath.Base(path) == "pcs-capacity-prolog" {
				r.runs("prolog", path)
			}
		}
	}
	if r.cluster != nil && r.cluster.SlurmSettings["CliFilterPlugins"] == "cli_filter/lua" {
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
		case h.State == "missing" && needed["job_submit"] && !r.wiredByHand():
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

// wiredByHand reports whether slurm.conf says itself what our file would.
func (r *run) wiredByHand() bool {
	return r.slurmConfig != nil && filepath.Base(r.slurmConfig.ResumeProgram) == "pcs-capacity-resume"
}

// hookAccess checks the last hook's access to AWS. It differs from the access of the user who runs
// check: Slurm hands no environment on.
func (r *run) hookAccess() {
	last, err := state.Dir(r.Config.StateDir).LastHook()
	switch {
	case errors.Is(err, fs.ErrNotExist): // none has run
	case err != nil:
		r.failWords("hook-credentials", err.Error(), "delete it; the next power-up writes it anew")
	case last.Without != "":
		r.fail("hook-credentials", "give the controller an instance profile, or write AWS_PROFILE or other variables into "+config.EnvironmentPath(r.Config.Path),
			"the last hook that slurmctld started had no AWS credentials, so that nothing is launched or terminated: %s", last.Without)
	case last.Account != "" && r.account != "" && last.Account != r.account:
		r.warn("hook-credentials", "run check with the hooks' credentials, or write AWS_PROFILE or other variables into "+config.EnvironmentPath(r.Config.Path),
			"the last hook that slurmctld started had AWS credentials%s, and this command those of account %s: what is said here of AWS is not what hooks find", whose(last), r.account)
	default:
		r.ok("hook-credentials", "the last hook that slurmctld started had AWS credentials%s", whose(last))
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
		r.fail(h.Name, fix+", and add the line that it shows",
			"%s is the site's own and does not load ours", h.File)
	case h.State == "foreign":
		r.ok(h.Name, "%s is the site's own", h.File)
	case !on && (r.slurmConfig != nil || r.cluster != nil):
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
