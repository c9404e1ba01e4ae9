package power

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// site is the program that a site used for its own nodes before ours replaced it.
type site struct {
	program     string
	environment []string
	log         *slog.Logger
	running     *exec.Cmd
}

// newSite runs before anything changes the environment: the site's program gets Slurm's.
func newSite(setting string) *site {
	return &site{program: slurm.SiteProgram(os.Getenv("SLURM_CONF"), setting), environment: os.Environ()}
}

// start starts the site's program for the nodes that are not ours, and returns ours; without such a program, all nodes.
func (s *site) start(settings capacity.Settings, hostlist string) (ours string, err error) {
	if s.program == "" {
		return hostlist, nil
	}
	names, err := slurm.Expand(hostlist)
	if err != nil {
		return "", fmt.Errorf("reading the nodes: %w", err)
	}
	own, theirs := apart(settings, names)
	if len(theirs) == 0 {
		return hostlist, nil
	}
	list := slurm.Compress(theirs)
	s.log.Info("the site's program is called for its own nodes", "program", s.program, "nodes", list)
	s.running = exec.Command(s.program, list)
	s.running.Env = s.environment
	if err := s.running.Start(); err != nil {
		s.running = nil
		return slurm.Compress(own), fmt.Errorf("the site's program for its own nodes: %w", err)
	}
	return slurm.Compress(own), nil
}

// wait ends with the site's program, so Slurm waits for it as before; err is passed through.
func (s *site) wait(err error) error {
	if s.running == nil {
		return err
	}
	if ended := s.running.Wait(); ended != nil {
		return errors.Join(err, fmt.Errorf("%s, the site's program for its own nodes: %w", s.program, ended))
	}
	return err
}

// end is the exit status if all nodes are the site's.
func (s *site) end(err error) int {
	if err := s.wait(err); err != nil {
		s.log.Error("nodes of the site's own", "err", err)
		return 1
	}
	return 0
}

// all gives the site's program all nodes: without settings nobody knows whose they are.
func (s *site) all(nodes string) {
	_, err := s.start(capacity.Settings{}, nodes)
	s.end(err)
}

// apart divides the nodes into those that the settings have us launch, and the others.
func apart(settings capacity.Settings, names []string) (ours, theirs []string) {
	for _, name := range names {
		if p, _, _, ok := settings.PlaceOf(name); ok && !p.Provider.Guest() {
			ours = append(ours, name)
		} else {
			theirs = append(theirs, name)
		}
	}
	return ours, theirs
}
