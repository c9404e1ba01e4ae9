package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Settings is slurm.conf of Slurm that the site runs itself, and the file of ours that it
// includes.
type Settings struct {
	// Conf is the path of slurm.conf.
	Conf string
	// Pending: slurmctld runs with other settings than slurm.conf has, as after a run of ours
	// that was killed before the restart.
	Pending bool
	// Gres is the text of GresFile; "" for none.
	Gres string
	// Restarts: the slurmctld that reads Conf is the one of this host.
	Restarts bool
	// Slurm is asked for the jobs of nodes that go; nil where it does not answer.
	Slurm *slurm.Client
	// Force takes nodes away from jobs.
	Force bool
	// Off refuses while slurmctld still runs the script, right before it goes; nil asks nobody.
	Off func(context.Context) error
	// Systemctl runs systemctl; nil for the machine's.
	Systemctl func(ctx context.Context, args ...string) error
}

func (s Settings) include() string { return s.beside(IncludeFile) }

func (s Settings) beside(name string) string { return filepath.Join(filepath.Dir(s.Conf), name) }

// State reports whether slurm.conf includes our settings, and why Slurm may not have them. running
// is what slurmctld says, nil if it does not answer or reads another slurm.conf.
func (s Settings) State(running *slurm.Config) (state State, wrong []string, err error) {
	site, err := ReadConf(s.Conf)
	if err != nil {
		return "", nil, err
	}
	ours, there, err := read(s.include())
	switch {
	case err != nil:
		return "", nil, err
	case !site.Included || !there:
		return Missing, nil, nil
	case !marked(ours):
		return Foreign, nil, nil
	}
	for _, word := range Lost(site, string(ours)) {
		wrong = append(wrong, word.String()+"; run `pcs-capacity hooks install`, which merges the two")
	}
	if len(wrong) > 0 {
		return Old, wrong, nil
	}
	if running != nil {
		for _, sentence := range Unread(site, string(ours), *running) {
			wrong = append(wrong, sentence+"; restart slurmctld")
		}
	}
	return Installed, wrong, nil
}

// InstallSettings plans the include, then the line of slurm.conf that reads it, then the
// restart: nodes are added, for which `scontrol reconfigure` does not do, and kills slurmctld
// 22.05.
func (p *Plan) InstallSettings(ctx context.Context, s Settings, site Conf, text string) error {
	if err := p.ending(ctx, &s, site, text); err != nil {
		return err
	}
	if err := s.exempt(site, s.Gres); err != nil {
		return err
	}
	before := len(p.Changes)
	if s.Gres != "" {
		gres, err := ReadGres(s.beside("gres.conf"))
		if err != nil {
			return err
		}
		if err := p.write(s.beside(GresFile), s.Gres); err != nil {
			return err
		}
		if !gres.Included {
			p.edit(s.beside("gres.conf"), gres.text, withLine(gres.text, gresLine))
		}
	}
	if err := p.write(s.include(), text); err != nil {
		return err
	}
	overridden := slices.ContainsFunc(Lost(site, text), func(w Word) bool { return w.Ours })
	if without := withoutLine(site.text, IncludeFile); !site.Included || overridden && without != site.text {
		p.edit(s.Conf, site.text, withLine(without, IncludeLine))
	}
	if s.Gres == "" {
		if err := p.removeGresLine(s); err != nil {
			return err
		}
	}
	if len(p.Changes) > before || s.Pending {
		p.restart(ctx, s)
	}
	if s.Gres == "" {
		return p.remove(s.beside(GresFile))
	}
	return nil
}

// removeGresLine plans the end of our line in gres.conf, and of gres.conf if nothing else is in
// it. Slurm reads our file until slurmctld is restarted.
func (p *Plan) removeGresLine(s Settings) error {
	path := s.beside("gres.conf")
	gres, err := ReadGres(path)
	if err != nil || !gres.Included {
		return err
	}
	text := withoutLine(gres.text, GresFile)
	if text != "" {
		p.edit(path, gres.text, text)
		return nil
	}
	p.Changes = append(p.Changes, Change{"remove", path, "", func(context.Context) error {
		now, there, err := read(path)
		if err != nil || !there {
			return err
		}
		if string(now) != gres.text {
			return errors.New("it has changed since it was shown; run this again")
		}
		return os.Remove(path)
	}})
	return nil
}

// RemoveSettings plans the same backwards: the line, the restart, the include, and only then
// the script that the settings named.
func (p *Plan) RemoveSettings(ctx context.Context, s Settings, site Conf, script Script) error {
	if err := s.exempt(site, ""); err != nil {
		return err
	}
	_, left, err := read(s.include()) // a run that was cut off before the restart leaves it
	if err != nil {
		return err
	}
	restarts := site.Included || s.Pending && left
	if restarts {
		if err := p.ending(ctx, &s, site, ""); err != nil {
			return err
		}
	}
	if site.Included {
		p.edit(s.Conf, site.text, withoutLine(site.text, IncludeFile))
	}
	before := len(p.Changes)
	if err := p.removeGresLine(s); err != nil {
		return err
	}
	if restarts || len(p.Changes) > before {
		p.restart(ctx, s)
		if !p.Restarts() {
			p.ByHand = append(p.ByHand, "then run this again: the files of ours that slurmctld still reads stay until it is restarted")
			return nil
		}
	}
	for _, file := range []string{s.include(), s.beside(GresFile)} {
		if err := p.remove(file); err != nil {
			return err
		}
	}
	if runsLua(site.list("JobSubmitPlugins"), "job_submit/") {
		p.ByHand = append(p.ByHand, fmt.Sprintf("slurm.conf has JobSubmitPlugins=lua itself, so that %s stays; take it out, restart slurmctld, and run this again", script.Path))
		return nil
	}
	if _, there, err := read(script.Path); err == nil && there && s.Off != nil && !p.Restarts() {
		if err := s.Off(ctx); err != nil {
			return err
		}
	}
	return p.Remove(script, s.Off)
}

const service = "slurmctld"

// restart plans the restart of slurmctld, where systemd runs it.
func (p *Plan) restart(ctx context.Context, s Settings) {
	systemctl := s.Systemctl
	if systemctl == nil {
		systemctl = func(ctx context.Context, args ...string) error {
			out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
			}
			return nil
		}
	}
	if !s.Restarts || systemctl(ctx, "is-active", "--quiet", service) != nil {
		p.ByHand = append(p.ByHand, "restart slurmctld: it reads nodes when it starts (`scontrol reconfigure` kills slurmctld 22.05)")
		return
	}
	p.Changes = append(p.Changes, Change{Do: "restart", What: service, do: func(ctx context.Context) error { return systemctl(ctx, "restart", service) }})
}
