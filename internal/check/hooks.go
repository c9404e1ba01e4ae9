package check

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// checkHooks compares the files with the plugins and programs in Slurm's settings.
func (s survey) checkHooks(f *findings) {
	if c := s.Slurmctld; c != nil {
		for _, path := range []string{c.Prolog, c.TaskProlog} {
			if filepath.Base(path) == "pcs-capacity-prolog" {
				s.checkProgram(f, "prolog", path)
			}
		}
	}

	s.checkProgram(f, string(capacity.FilterMissing), s.Filter)

	if s.needsHook("cli_filter") &&
		!slices.ContainsFunc(s.Hooks, func(h facts.Hook) bool { return h.Name == "cli_filter" }) {
		f.fail(string(capacity.ScriptMissing),
			"run this on a login node, or write slurm.conf's path into SLURM_CONF, and run `pcs-capacity hooks "+
				"install`",
			"this host has no folder with slurm.conf, and so no submit filter")
	}

	s.checkPlugins(f)

	for _, h := range s.Hooks {
		for _, words := range h.Wrong {
			f.failText("slurm.conf", words, "")
		}

		for _, words := range h.Notes {
			what, remedy := splitRemedy(words, "")
			f.warn("slurm.conf", remedy, "%s", what)
		}

		if h.Name == "settings" {
			s.checkInclude(f, h)
			continue
		}

		needed := s.needsHook(h.Name)
		if on := s.runsLua(h.Name); needed || on {
			s.checkScript(f, h, on, needed)
		}
	}

	if s.UsesEC2() && s.Slurmctld != nil {
		s.checkPowerPrograms(f)
	}

	s.checkHookSettings(f)

	if s.UsesEC2() {
		s.checkHookAccess(f)
	}
}

// needsHook reports whether our script of a hook must run. PCS lets nobody have a job_submit.lua.
func (s survey) needsHook(hook string) bool {
	if hook == "cli_filter" {
		return s.UsesPCS() || s.Cluster.ID != ""
	}

	return s.UsesEC2()
}

// runsLua reports whether Slurm runs the script of a hook, as slurmctld or PCS says.
func (s survey) runsLua(hook string) bool {
	running := s.SlurmConfig()

	if hook == "cli_filter" {
		return s.Cluster.SlurmSettings["CliFilterPlugins"] == "cli_filter/lua" ||
			slices.Contains(running.CliFilterPlugins, "lua")
	}

	return !s.needsHook("cli_filter") && slices.Contains(running.JobSubmitPlugins, "lua")
}

// checkPlugins finds hooks that Slurm cannot run, since it lacks its Lua plugin on this host.
func (s survey) checkPlugins(f *findings) {
	for _, hook := range slices.Sorted(maps.Keys(s.NoPlugin)) {
		if s.needsHook(hook) && (hook == "cli_filter" || s.Controller) {
			f.fail(hook, "install the Slurm package that has it, or build Slurm with Lua's headers installed",
				"Slurm has no %s_lua.so in %s, without which it does not run %[1]s.lua", hook,
				strings.Join(s.NoPlugin[hook], " or "))
		}
	}
}

// checkInclude checks the file that slurm.conf includes.
func (s survey) checkInclude(f *findings, h facts.Hook) {
	// Then slurm.conf says itself what our file would.
	byHand := filepath.Base(s.SlurmConfig().ResumeProgram) == "pcs-capacity-resume"

	switch {
	case h.State == "foreign":
		f.fail("slurm.conf", "rename it, and run `pcs-capacity hooks install`", "%s was not written by pcs-capacity",
			h.File)
	case h.State == "missing" && s.UsesEC2() && !byHand:
		f.fail("slurm.conf", "run `pcs-capacity hooks install` on the controller", "slurm.conf does not include %s",
			h.File)
	case h.State == "installed" && h.Wrong == nil:
		f.ok("slurm.conf", "%s is installed", h.File)
	}
}

// checkHookSettings judges whether slurmctld's hooks can read their settings, by trying, and by what the last ones left
// on the nodes that they could not launch.
func (s survey) checkHookSettings(f *findings) {
	for _, err := range s.Unreadable {
		f.failText("hook-settings", err.Error(), "")
	}

	marked := map[string][]string{}
	for _, node := range s.Nodes.Value {
		if why, is := strings.CutPrefix(node.Reason, string(capacity.SettingsUnreadable)+": "); is {
			marked[why] = append(marked[why], node.Name)
		}
	}

	for _, why := range slices.Sorted(maps.Keys(marked)) {
		f.warn("hook-settings", "if nothing else here fails, the next launch clears it",
			"when slurmctld last powered %s up, its hook could not read the settings: %s",
			hostlist.Compress(marked[why]), why)
	}
}

// checkHookAccess checks the last hook's access to AWS. It differs from the access of the user who runs
// check: Slurm hands no environment on.
func (s survey) checkHookAccess(f *findings) {
	last, err := s.LastHook.Value, s.LastHook.Err
	environment := config.EnvironmentPath(s.Config.Path)

	switch {
	case err != nil:
		f.failText("hook-credentials", err.Error(), "delete it; the next power-up writes it again")
	case last == nil: // none has run
	case last.Without != "":
		f.fail("hook-credentials",
			"give the controller an instance profile, or write AWS_PROFILE or other variables into "+environment,
			"the last hook that slurmctld started had no AWS credentials, so that nothing is launched or "+
				"terminated: %s",
			last.Without)
	case last.Account != "" && s.Account != "" && last.Account != s.Account:
		f.warn("hook-credentials",
			"run check with the hooks' credentials, or write AWS_PROFILE or other variables into "+environment,
			"the last hook that slurmctld started had AWS credentials%s, but this command has those of account %s: "+
				"hooks may get other answers from AWS than those shown here",
			accountText(*last), s.Account)
	default:
		f.ok("hook-credentials", "the last hook that slurmctld started had AWS credentials%s", accountText(*last))
	}
}

// accountText names the account of a hook's credentials, as far as known.
func accountText(a state.HookAccess) (words string) {
	if a.Account != "" {
		words = " of account " + a.Account
	}

	if a.Source != "" {
		words += " (" + a.Source + ")"
	}

	return words
}

func (s survey) checkScript(f *findings, h facts.Hook, on, needed bool) {
	fix := "run `pcs-capacity hooks install " + h.Name + "` on this host"
	switch {
	case h.State == "missing" && on:
		f.fail(h.Name, fix, "%s is missing, but Slurm is configured to run it: every submission is refused", h.File)
	case h.State == "missing":
		f.fail(h.Name, fix, "%s is missing", h.File)
	case h.State == "old":
		f.warn(h.Name, fix, "%s is not what this version writes for these settings", h.File)
	case h.State == "foreign" && needed:
		f.fail(h.Name, fix+", and add the line that it shows", "%s is the site's own and does not load ours", h.File)
	case h.State == "foreign":
		f.ok(h.Name, "%s is the site's own", h.File)
	case !on && (s.Slurmctld != nil || s.Cluster.ID != ""):
		f.fail(h.Name, "run `pcs-capacity hooks install settings`",
			"%s exists, but Slurm is not configured to run it", h.File)
	default:
		f.ok(h.Name, "%s is %s", h.File, h.State)
	}
}

// checkPowerPrograms checks the programs that slurmctld runs.
func (s survey) checkPowerPrograms(f *findings) {
	for _, p := range []struct{ key, has, program string }{
		{"ResumeProgram", s.Slurmctld.ResumeProgram, "pcs-capacity-resume"},
		{"SuspendProgram", s.Slurmctld.SuspendProgram, "pcs-capacity-suspend"},
		{"ResumeFailProgram", s.Slurmctld.ResumeFailProgram, "pcs-capacity-suspend"},
	} {
		const fix = "run `pcs-capacity hooks install settings` on the controller"
		switch {
		case p.has == "":
			f.fail("power", fix, "Slurm has no %s", p.key)
		case filepath.Base(p.has) != p.program:
			f.fail("power", fix, "Slurm's %s is %s, not %s", p.key, p.has, p.program)
		default:
			s.checkProgram(f, "power", p.has)
		}
	}
}

// checkProgram checks that a program exists and that everybody may run it.
func (s survey) checkProgram(f *findings, check, path string) {
	switch mode, err := s.Programs[path].Value, s.Programs[path].Err; {
	case err != nil:
		f.fail(check, "install the package pcs-capacity", "%s", err)
	case !mode.IsRegular() || mode&0o111 != 0o111:
		f.fail(check, "chmod 755 "+path, "%s cannot be run by everybody: its mode is %04o", path, mode.Perm())
	default:
		f.ok(check, "%s", path)
	}
}

// Host returns what would keep setup from its steps on this host: a queue must not be left without settings, fence or
// filter. For a queue that users already have, a missing filter is only a warning.
func Host(of *facts.Survey, newQueue bool) (missing capacity.Problems) {
	const another = "run this as a user who may write there, such as root, "

	var f findings

	s := survey{of}
	if err := s.SettingsReadOnly; err != nil {
		f.Add(capacity.Problemf(capacity.ConfigFolder, capacity.Subject{},
			another+"or name other settings with --config", "the settings cannot be written: %s", err))
	}

	if err := s.StateReadOnly; err != nil {
		f.Add(capacity.Problemf(capacity.StateDir, capacity.Subject{}, another+"or name another folder as state_dir",
			"state_dir cannot be written: %s", err))
	}

	s.checkSlurmctld(&f)
	s.checkRights(&f)

	host := len(f.Problems)
	if s.Cluster.ID != "" {
		s.checkHooks(&f)
	}

	for i, p := range f.Problems {
		if p.Severity != capacity.Admin {
			continue
		}

		p.Code = cmp.Or(p.Code, capacity.Code(p.About.Check))
		if i >= host && !newQueue {
			p.Severity = capacity.Note
		}

		missing.Add(p)
	}

	return missing
}

// checkState looks at the files that sync has written, and whether sync runs.
func (s survey) checkState(f *findings) {
	start := "start it: " + s.Watch
	dir := state.Dir(s.Config.StateDir)
	switch mode, err := s.StateDir.Value, s.StateDir.Err; {
	case errors.Is(err, fs.ErrNotExist):
		f.fail("state-dir", start, "%s does not exist yet", dir)
		return
	case err != nil || !mode.IsDir():
		f.fail("state-dir", "name a folder as state_dir", "%s is not a folder", dir)
		return
	case mode.Perm()&0o005 != 0o005:
		f.fail("state-dir", fmt.Sprintf("chmod 755 %s", dir),
			"%s has mode %04o, so that the commands of users cannot read the snapshot", dir, mode.Perm())
	}

	s.checkStateMount(f)

	snap := s.Snapshot.Value

	err := s.Snapshot.Err
	now := s.Now
	fresh := err == nil && !snap.IsStale(now)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.fail("snapshot", start, "%s does not exist: every job is let through unchecked", dir.SnapshotPath())
	case err != nil:
		f.failText("snapshot", err.Error(), "run `pcs-capacity sync` to write it again")
	case !fresh:
		f.fail("snapshot", "see `journalctl -u 'pcs-capacity-*'`",
			"sync last saw AWS %s ago, more than %s", capacity.FormatDuration(now.Sub(snap.TakenAt)),
			capacity.FormatDuration(snap.Submit.StaleAfter.Duration))
	default:
		f.ok("snapshot", "sync last saw AWS %s ago", capacity.FormatDuration(max(0, now.Sub(snap.TakenAt))))
	}

	switch service, err := s.Watcher.Value, s.Watcher.Err; {
	case service != "":
		f.ok("service", "`pcs-capacity sync --watch` runs: %s", service)
	case err != nil:
		f.warn("service", "run this as root",
			"could not determine whether `pcs-capacity sync --watch` runs here: %s", err)
	case fresh:
		f.warn("service", "if no other host runs it, "+start, "`pcs-capacity sync --watch` does not run on this host")
	default:
		f.fail("service", start, "`pcs-capacity sync --watch` does not run")
	}
}

const shareFix = "put state_dir on a shared file system, such as EFS or FSx: see Two hosts in docs/operations.md"

// checkStateMount judges the file system of state_dir: whether it outlives this host, and whether the backup of
// slurmctld has it. What else a backup needs cannot be seen from here.
func (s survey) checkStateMount(f *findings) {
	const kept = "the record of purchases and the samples of report"

	m := s.Mount
	dir := s.Config.StateDir
	switch {
	case m.Shared():
		f.ok("state-dir", "%s is on %s, and outlives this host", dir, m)
	case m.InMemory():
		f.warn("state-dir", "name a folder on a disk as state_dir",
			"%s is on %s: %s are lost at the next boot", dir, m, kept)
	case !m.Local():
		f.warn("state-dir", shareFix, "%s is on %s; locking may not work there", dir, m)
	case s.UsesPCS():
		f.warn("state-dir", shareFix,
			"%s is on %s, a disk of this host; PCS replaces unhealthy hosts that it launched, and %s would be lost",
			dir, m, kept)
	default:
		f.ok("state-dir", "%s is on %s, and would be lost with this host", dir, m)
	}

	switch c := s.Slurmctld; {
	case c == nil || len(c.Backups) == 0 || !s.UsesEC2():
	case m.Shared():
		f.ok("backup",
			"%s takes over slurmctld, and needs the package, the settings, job_submit.lua, pcs-capacity.conf and "+
				"AWS credentials, like this host",
			strings.Join(c.Backups, ", "))
	default:
		f.warn("backup", shareFix,
			"%s is on %s: when %s takes over slurmctld, its hooks find no reservation and launch nothing", dir, m,
			strings.Join(c.Backups, ", "))
	}
}
