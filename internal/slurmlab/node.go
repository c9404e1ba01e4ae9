package slurmlab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// StartNode starts the slurmd of a configured node, as the boot of a machine
// would. If addr is not empty, the node's address and host name are set to it
// first; any address in 127/8 reaches this machine. Starting a node that runs
// is not an error. The node is not registered yet when StartNode returns, which
// takes up to a second: start several nodes side by side.
func (c *Cluster) StartNode(ctx context.Context, name, addr string) error {
	if err := nextSecond(ctx); err != nil {
		return fmt.Errorf("starting node %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startNode(ctx, name, addr)
}

// nextSecond waits for the clock's next full second. slurmd -b claims to have
// booted one second ago, and slurmctld ignores a node whose boot is older than
// the power-up that it asked for, counted in whole seconds ("Still waiting for
// boot of node"): one that registers within the same second stays POWERING_UP
// until ResumeTimeout.
func nextSecond(ctx context.Context) error {
	now := time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now)):
		return nil
	}
}

func (c *Cluster) startNode(ctx context.Context, name, addr string) error {
	if c.stopped {
		return errors.New("starting node " + name + ": the cluster is stopped")
	}
	if _, ok := c.nodePort[name]; !ok {
		return fmt.Errorf("starting node %s: no such node in %s", name, c.conf)
	}
	if c.running(name) {
		return nil
	}
	if addr != "" {
		if _, err := c.Command(ctx, "scontrol", "update", "nodename="+name, "nodeaddr="+addr, "nodehostname="+addr); err != nil {
			return fmt.Errorf("starting node %s: %w", name, err)
		}
	}
	// -b: the machine has just booted, whatever /proc/uptime says.
	d, err := c.startSlurmd(name, "-b")
	if err != nil {
		return err
	}
	c.nodes[name] = d
	return nil
}

func (c *Cluster) startSlurmd(name string, more ...string) (*daemon, error) {
	env := []string{nodeVariable + "=" + name}
	args := append([]string{"-D", "-N", name}, more...)
	if !c.cfg.Configless {
		return c.startDaemon("slurmd-"+name, "slurmd", env, append(args, "-f", c.conf)...)
	}
	slurmd, err := findProgram("slurmd")
	if err != nil {
		return nil, err
	}
	args = slices.Concat(ownRun[1:], []string{slurmd}, args, []string{"--conf-server", c.server()})
	return c.startDaemon("slurmd-"+name, ownRun[0], append(env, "SLURM_SACK_KEY="+c.key()), args...)
}

// StopNode ends the slurmd of a node and its jobs at once, as the end of a
// machine would. Slurm is not told. Stopping a node that does not run is not
// an error.
func (c *Cluster) StopNode(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopNode(name)
}

func (c *Cluster) stopNode(name string) error {
	delete(c.nodes, name)
	// A slurmd whose registration was refused can hang on SIGTERM.
	if err := stopOwned(c.conf, name, time.Second); err != nil {
		return fmt.Errorf("stopping node %s: %w", name, err)
	}
	return nil
}

func (c *Cluster) running(name string) bool {
	d := c.nodes[name]
	if d == nil {
		return false
	}
	_, ended := d.ended()
	return !ended
}

// startStatic starts the static nodes that do not run, and waits until Slurm
// can use these.
func (c *Cluster) startStatic(ctx context.Context) error {
	var started []string
	for i := 1; i <= c.cfg.Static.Count; i++ {
		name := c.cfg.Static.Name(i)
		if c.running(name) {
			continue
		}
		if err := c.startNode(ctx, name, ""); err != nil {
			return err
		}
		started = append(started, name)
	}
	for _, name := range started {
		err := c.await(ctx, c.nodes[name], func() bool {
			state, err := c.NodeState(ctx, name)
			return err == nil && strings.HasPrefix(state, "IDLE") && !strings.Contains(state, "NOT_RESPONDING")
		})
		if err != nil {
			return err
		}
	}
	return nil
}
