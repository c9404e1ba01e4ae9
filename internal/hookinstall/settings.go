package hookinstall

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Settings is slurm.conf of Slurm that the site runs itself, and what is known of its slurmctld.
type Settings struct {
	SlurmConf
	// Pending: slurmctld runs with other settings than slurm.conf has, as after a run of ours
	// that was killed before the restart.
	Pending  bool
	Restarts bool         // slurm.conf's slurmctld runs on this host
	Slurm    Slurmctld    // nil where it does not answer
	Running  slurm.Config // what it runs with; zero where it does not answer
	Force    bool         // takes nodes away from jobs
}

// State reports whether slurm.conf includes our settings, and what it says otherwise than when they were written.
func (s SlurmConf) State() (state State, wrong []string, err error) {
	ours, there, err := read(s.sibling(IncludeFile))
	switch {
	case err != nil || !s.Included || !there:
		return Missing, nil, err
	case !isOurs(ours):
		return Foreign, nil, nil
	}

	// slurmctld takes the last value of a key, so an edit of slurm.conf above our line has no effect.
	wrong = s.conflicts(ours)
	if len(wrong) > 0 {
		return Old, wrong, nil
	}

	return Installed, nil, nil
}

// InstallSettings plans our files, then the lines of slurm.conf and gres.conf that read them, at
// the end, since the last value counts, then the restart: nodes are added, for which `scontrol
// reconfigure` does not do, and kills slurmctld 22.05. gres is "" for none.
func (p *Plan) InstallSettings(ctx context.Context, s Settings, text, gres string) error {
	if p.err == nil && s.Restarts {
		p.err = FindPlugin(s.Running, JobSubmit)
	}

	before := len(p.Changes)
	p.checkJobs(ctx, s, text)

	// The files first: slurmctld does not start with a line that includes what is not there.
	if gres != "" {
		p.write(s.sibling(GresFile), gres)
	}

	p.write(s.sibling(IncludeFile), text)
	p.setInclude(s.sibling("gres.conf"), GresFile, gres != "")
	p.setInclude(s.Path, IncludeFile, true)

	if len(p.Changes) > before || s.Pending {
		p.restart(ctx, s)
	}

	// Only now does slurmctld no longer read it.
	if gres == "" {
		p.remove(s.sibling(GresFile), "")
	}

	return p.err
}

// RemoveSettings plans the same backwards: the lines, the restart, our files, and only then
// the script that the settings named.
func (p *Plan) RemoveSettings(ctx context.Context, s Settings, script Script) error {
	_, left := p.read(s.sibling(IncludeFile)) // a run that was cut off before the restart leaves it
	restarts := s.Included || s.Pending && left
	if restarts {
		p.checkJobs(ctx, s, "")
	}

	p.setInclude(s.Path, IncludeFile, false)
	p.setInclude(s.sibling("gres.conf"), GresFile, false)

	if p.err == nil && (restarts || len(p.Changes) > 0) {
		p.restart(ctx, s)

		// A person has to restart slurmctld; until then it may read the files again at any moment.
		if !p.Restarts() {
			p.addByHand("then run this again: slurmctld reads our files until it is restarted, so they stay until then")
			return nil
		}
	}

	p.remove(s.sibling(IncludeFile), "")
	p.remove(s.sibling(GresFile), "")

	// The script that we wrote serves the site's own setting as well.
	if p.err == nil && hasLua(s.list("JobSubmitPlugins")) {
		p.addByHand(
			"slurm.conf itself has JobSubmitPlugins=lua, so %s stays; remove that setting, restart slurmctld, and "+
				"run this again",
			script.Path)

		return nil
	}

	return p.Remove(ctx, script)
}

// setInclude plans a file with the line that reads ours as its last one, or without it.
func (p *Plan) setInclude(path, file string, wanted bool) {
	before, _ := p.read(path)

	// Taken out first: the line may stand somewhere else, and slurmctld reads the last value of a key.
	var kept strings.Builder
	for line := range strings.Lines(before) {
		if words := strings.Fields(line); len(words) < 2 || !strings.EqualFold(words[0], "include") ||
			words[1] != file {
			kept.WriteString(line)
		}
	}

	text := kept.String()
	if wanted {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}

		text += "Include " + file + "\n"
	}

	p.edit(path, before, text, "")
}

// restart plans the restart of slurmctld, where systemd runs it.
func (p *Plan) restart(ctx context.Context, s Settings) {
	if !s.Restarts || p.World.Systemctl(ctx, "is-active", "--quiet", service) != nil {
		p.addByHand("restart slurmctld: it reads nodes when it starts (`scontrol reconfigure` kills slurmctld 22.05)")
		return
	}

	p.add("restart", service, s.restart)
}

// Systemd is a part of a World: systemctl of this machine.
type Systemd struct{}

// Systemctl runs systemctl.
func (Systemd) Systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}

	return nil
}

// removedNames returns the nodes and partitions that our file had before and that neither it nor the site has after:
// slurmctld loses them at its restart, and with them their jobs.
func (s SlurmConf) removedNames(before, after string) ([]string, error) {
	was, err := parseLines(strings.Split(before, "\n"))
	is, failed := parseLines(strings.Split(after, "\n"))
	stay := append(is.allNames(), s.allNames()...)
	lost := slices.DeleteFunc(was.allNames(), func(name string) bool { return slices.Contains(stay, name) })

	return lost, cmp.Or(err, failed)
}

// allNames lists those of the nodes and partitions.
func (s SlurmConf) allNames() []string {
	return slices.AppendSeq(slices.Collect(maps.Keys(s.nodes)), maps.Keys(s.partitions))
}

// checkJobs refuses while jobs end with what goes, unless that is forced.
func (p *Plan) checkJobs(ctx context.Context, s Settings, after string) {
	// Nodes and partitions that the site has itself are none of ours, and stay.
	before, _ := p.read(s.sibling(IncludeFile))
	gone, err := s.removedNames(before, after)
	p.err = cmp.Or(p.err, err)
	if p.err != nil || len(gone) == 0 || s.Slurm == nil || s.Force {
		return
	}

	all, err := s.Slurm.Jobs(ctx)
	p.err = err
	if ids := affectedJobs(all, gone); err == nil && len(ids) > 0 {
		p.err = fmt.Errorf(
			"removing %s would end jobs there: %s; wait until they have ended, move those that are pending "+
				"(`scontrol update jobid=ID partition=NAME`), or add --force",
			hostlist.Compress(gone), strings.Join(ids, ", "))
	}
}

// affectedJobs returns the jobs that have nodes which are gone, or no partition any more.
func affectedJobs(all []capacity.Job, gone []string) (ids []string) {
	is := func(name string) bool { return slices.Contains(gone, name) }
	for _, j := range all {
		if j.Active() && (len(slices.DeleteFunc(j.Partitions(), is)) == 0 || slices.ContainsFunc(j.Nodes, is)) {
			ids = append(ids, j.Shown)
		}
	}

	return ids
}
