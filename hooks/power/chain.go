package power

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// chained is the program that a site used for its own nodes before ours replaced it.
type chained struct {
	program     string
	environment []string
	running     *exec.Cmd
}

// newChained runs before anything changes the environment: the site's program gets Slurm's.
func newChained(setting string) *chained {
	return &chained{program: slurm.SiteProgram(os.Getenv("SLURM_CONF"), setting), environment: os.Environ()}
}

// start starts the site's program for the nodes that are not ours, and returns ours; without such a program, all nodes.
func (c *chained) start(log *slog.Logger, settings capacity.Settings, list string) (ours string, err error) {
	if c.program == "" {
		return list, nil
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return "", fmt.Errorf("reading the nodes: %w", err)
	}
	var own, theirs []string
	for _, name := range names {
		if _, is := placeOf(settings, name); is {
			own = append(own, name)
		} else {
			theirs = append(theirs, name)
		}
	}
	if len(theirs) == 0 {
		return list, nil
	}
	log.Info("the site's program is called for its own nodes", "program", c.program, "nodes", hostlist.Compress(theirs))
	c.running = exec.Command(c.program, hostlist.Compress(theirs))
	c.running.Env = c.environment
	if err := c.running.Start(); err != nil {
		c.running = nil
		return hostlist.Compress(own), fmt.Errorf("the site's program for its own nodes: %w", err)
	}
	return hostlist.Compress(own), nil
}

// wait ends with the site's program, so Slurm waits for it as before; err is passed through.
func (c *chained) wait(err error) error {
	if c.running == nil {
		return err
	}
	if ended := c.running.Wait(); ended != nil {
		return errors.Join(err, fmt.Errorf("%s, the site's program for its own nodes: %w", c.program, ended))
	}
	return err
}
