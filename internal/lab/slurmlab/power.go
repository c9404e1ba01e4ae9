package slurmlab

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Slurm runs bin/resume and bin/suspend with a hostlist. They only write it to a FIFO from which the program that runs
// the lab reads: one short line each, so that lines of two calls never mix. Opened for reading and writing, the FIFO
// does not block when nobody reads.
const powerScript = `#!/bin/sh
# Slurm 22.05 runs this with no open file descriptors.
exec </dev/null >>%[1]s/log/power.log 2>&1
echo "%[2]s $1"
echo "%[2]s $1" 1<>%[1]s/run/power.fifo
`

// prologScript shortens the wait of batch jobs for nodes that power up. Such a job starts when slurmctld looks at it,
// which is every 30 s (PERIODIC_TIMEOUT, a constant of slurmctld's), or when a PrologSlurmctld ends. So this one ends
// as soon as the job's nodes are up. Real clusters have nothing like it. It asks nobody itself, for dozens of jobs may
// wait at once: it writes the path of a FIFO of its own to the lab, which opens that when the nodes are up.
const prologScript = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export SLURM_CONF=%[1]s/etc/slurm.conf
export %[3]s=no # Stop finds the processes below even when slurmctld was killed first
exec </dev/null >>%[1]s/log/prologctld.log 2>&1
[ -e %[1]s/run/stopping ] && exit 0 # do not hold up the end of slurmctld
up=%[1]s/run/prolog/$SLURM_JOB_ID.$$
mkfifo "$up" || exit 0
echo "prolog $SLURM_JOB_NODELIST $up" 1<>%[1]s/run/power.fifo
timeout %[2]d cat "$up"
rm "$up"
sleep 0.3
exit 0
`

func (c *Cluster) writeScripts() error {
	longest := int((c.cfg.ResumeTimeout + 15*time.Second) / time.Second)
	scripts := map[string]string{
		"resume":     fmt.Sprintf(powerScript, c.dir, "resume"),
		"suspend":    fmt.Sprintf(powerScript, c.dir, "suspend"),
		"prologctld": fmt.Sprintf(prologScript, c.dir, longest, nodeVariable),
	}
	for name, text := range scripts {
		if err := writeFile(filepath.Join(c.dir, "bin", name), text, 0o755); err != nil {
			return err
		}
	}

	return nil
}

// servePower answers what the scripts write, until Stop closes the FIFO.
func (c *Cluster) servePower(context.Context) error {
	path := filepath.Join(c.dir, "run", "power.fifo")
	if err := cmp.Or(os.RemoveAll(path), syscall.Mkfifo(path, 0o600)); err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}

	fifo, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}

	c.fifo = fifo
	c.power.Go(func() {
		for lines := bufio.NewScanner(fifo); lines.Scan(); {
			verb, about, _ := strings.Cut(lines.Text(), " ")
			c.power.Go(func() { c.answerPower(verb, about) })
		}
	})

	return nil
}

// endProlog ends a PrologSlurmctld, by opening its FIFO for writing, when the nodes of its job are up or lost, or
// slurmctld stops. All that wait share one look.
func (c *Cluster) endProlog(fifo string, nodes []string) {
	for c.ctx.Err() == nil {
		seen, err, _ := c.looks.Do("", func() (any, error) {
			time.Sleep(250 * time.Millisecond)

			ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
			defer cancel()

			if _, err := os.Stat(c.stoppingFile()); err == nil {
				return map[string]string{}, nil
			}

			return c.NodeStates(ctx)
		})
		if err != nil || booting(seen.(map[string]string), nodes) {
			continue
		}
		// Without O_NONBLOCK this would wait for a prolog that was killed. ENXIO: it does not read yet.
		f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			f.Close()
		}

		if !errors.Is(err, syscall.ENXIO) {
			return
		}
	}
}

// booting reports whether a job may still get all its nodes, and waits for one.
func booting(states map[string]string, nodes []string) (waits bool) {
	for _, node := range nodes {
		state := states[node]
		if strings.HasPrefix(state, "DOWN") || strings.Contains(state, "POWERING_DOWN") {
			return false // the job has lost it, and cannot start again before its prolog ends
		}

		waits = waits || strings.Contains(state, "POWERING_UP") || strings.Contains(state, "POWERED_DOWN")
	}

	return waits
}

func (c *Cluster) answerPower(verb, about string) {
	list, fifo, _ := strings.Cut(about, " ")

	nodes, err := hostlist.Expand(list)
	if err != nil {
		c.logPower(err)
		return
	}

	c.mu.Lock()
	resume := c.cfg.Resume
	suspend := c.cfg.Suspend
	c.mu.Unlock()

	switch {
	case verb == "prolog":
		c.endProlog(fifo, nodes)
	case verb == "resume" && resume != nil:
		resume(c.ctx, nodes)
	case verb == "suspend" && suspend != nil:
		suspend(c.ctx, nodes)
	case verb == "resume":
		var started sync.WaitGroup
		for _, node := range nodes {
			started.Go(func() { c.logPower(c.StartNode(c.ctx, node, "127.0.0.1")) })
		}

		started.Wait()
	case verb == "suspend":
		for _, node := range nodes {
			c.logPower(c.StopNode(node))
		}
	}
}

// logPower keeps an error where a person who debugs a node that does not come
// up will look: Slurm itself drops what its power programs print.
func (c *Cluster) logPower(err error) {
	if err == nil || c.ctx.Err() != nil {
		return
	}

	log, openErr := os.OpenFile(filepath.Join(c.dir, "log", "power.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if openErr != nil {
		return
	}
	defer log.Close()

	fmt.Fprintln(log, err)
}
