package wiring

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
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

func (s Settings) include() string { return filepath.Join(filepath.Dir(s.Conf), IncludeFile) }

// State is whether slurm.conf includes our settings, and whether these are what text says;
// "" leaves that out.
func (s Settings) State(text string) (State, error) {
	site, err := ReadConf(s.Conf)
	if err != nil {
		return "", err
	}
	ours, there, err := read(s.include())
	switch {
	case err != nil:
		return "", err
	case !site.Included || !there:
		return Missing, nil
	case !marked(ours):
		return Foreign, nil
	case text != "" && string(ours) != text:
		return Old, nil
	}
	return Installed, nil
}

// InstallSettings plans the include, then the line of slurm.conf that reads it, then the
// restart: nodes are added, for which `scontrol reconfigure` does not do, and kills slurmctld
// 22.05.
func (p *Plan) InstallSettings(ctx context.Context, s Settings, site Conf, text string) error {
	if err := p.ending(ctx, s, site, text); err != nil {
		return err
	}
	before := len(p.Changes)
	if err := p.write(s.include(), text); err != nil {
		return err
	}
	if !site.Included {
		p.edit(s.Conf, site.text, strings.TrimSuffix(site.text, "\n")+"\n"+IncludeLine+"\n")
	}
	if len(p.Changes) > before || s.Pending {
		p.restart(ctx, s)
	}
	return nil
}

// RemoveSettings plans the same backwards: the line, the restart, the include, and only then
// the script that the settings named.
func (p *Plan) RemoveSettings(ctx context.Context, s Settings, site Conf, script Script) error {
	_, left, err := read(s.include()) // a run that was cut off before the restart leaves it
	if err != nil {
		return err
	}
	restarts := site.Included || s.Pending && left
	if restarts {
		if err := p.ending(ctx, s, site, ""); err != nil {
			return err
		}
	}
	if site.Included {
		var kept []string
		for line := range strings.Lines(site.text) {
			words := strings.Fields(line)
			if len(words) < 2 || !strings.EqualFold(words[0], "include") || words[1] != IncludeFile {
				kept = append(kept, line)
			}
		}
		p.edit(s.Conf, site.text, strings.Join(kept, ""))
	}
	if restarts {
		p.restart(ctx, s)
		if !p.Restarts() {
			p.ByHand = append(p.ByHand, "then run this again: the files of ours that slurmctld still reads stay until it is restarted")
			return nil
		}
	}
	if err := p.remove(s.include()); err != nil {
		return err
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
