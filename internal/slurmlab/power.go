package slurmlab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Slurm runs bin/resume and bin/suspend with a hostlist. They only write it to
// a FIFO from which the program that runs the lab reads: one short line each,
// so that lines of two calls never mix. Opened for reading and writing, the
// FIFO does not block when nobody reads.
const powerScript = `#!/bin/sh
# Slurm 22.05 runs this with no open file descriptors.
exec </dev/null >>%[1]s/log/power.log 2>&1
echo "%[2]s $1"
echo "%[2]s $1" 1<>%[1]s/run/power.fifo
`

// prologScript shortens the wait of batch jobs for nodes that power up. Such a
// job starts when slurmctld looks at it, which is every 30 s (PERIODIC_TIMEOUT,
// a constant of slurmctld's), or when a PrologSlurmctld ends. So this one ends
// as soon as the job's nodes are up. Real clusters have nothing like it.
const prologScript = `#!/bin/sh
export PATH=%[3]s
export SLURM_CONF=%[1]s/etc/slurm.conf
exec </dev/null >>%[1]s/log/prologctld.log 2>&1
for i in $(seq %[2]d); do
  [ -e %[1]s/run/stopping ] && exit 0 # do not hold up the end of slurmctld
  state=$(timeout 5 scontrol -o show node "$SLURM_JOB_NODELIST" | sed -E 's/.* State=([^ ]+).*/\1/' | tr '\n' ' ')
  case "$state" in
    DOWN*|*POWERING_DOWN*) break ;; # the job has lost them, and cannot start again before this ends
    *POWERING_UP*|*POWERED_DOWN*) ;;
    *) break ;;
  esac
  sleep 0.25
done
sleep 0.3
exit 0
`

// prologPath is the PATH of that script: scontrol is the one beside slurmctld.
func prologPath() string {
	slurmctld, _ := findProgram("slurmctld")
	return prologPathFor(slurmctld)
}

func prologPathFor(slurmctld string) string {
	const usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	bin := filepath.Join(filepath.Dir(slurmctld), "../bin")
	if info, err := os.Stat(filepath.Join(bin, "scontrol")); err != nil || !info.Mode().IsRegular() || strings.ContainsAny(bin, "'\n") {
		return usual
	}
	return "'" + bin + "':" + usual
}

func (c *Cluster) writeScripts() error {
	polls := int((c.cfg.ResumeTimeout + 5*time.Second) / (250 * time.Millisecond))
	scripts := map[string]string{
		"resume":     fmt.Sprintf(powerScript, c.dir, "resume"),
		"suspend":    fmt.Sprintf(powerScript, c.dir, "suspend"),
		"prologctld": fmt.Sprintf(prologScript, c.dir, polls, prologPath()),
	}
	for name, text := range scripts {
		if err := writeFile(filepath.Join(c.dir, "bin", name), text, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// servePower answers what the scripts write, until Stop closes the FIFO.
func (c *Cluster) servePower() error {
	path := filepath.Join(c.dir, "run", "power.fifo")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	fifo, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	c.fifo = fifo
	c.power.Go(func() {
		lines := bufio.NewScanner(fifo)
		for lines.Scan() {
			verb, hostlist, ok := strings.Cut(lines.Text(), " ")
			if !ok {
				continue
			}
			c.power.Go(func() { c.answerPower(verb, hostlist) })
		}
	})
	return nil
}

func (c *Cluster) answerPower(verb, hostlist string) {
	nodes, err := c.Hostnames(c.ctx, hostlist)
	if err != nil {
		c.logPower(err)
		return
	}
	c.mu.Lock()
	resume, suspend := c.cfg.Resume, c.cfg.Suspend
	c.mu.Unlock()
	switch {
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

// Hostnames expands a hostlist such as "gpu-[1-4]".
func (c *Cluster) Hostnames(ctx context.Context, hostlist string) ([]string, error) {
	out, err := c.Command(ctx, "scontrol", "show", "hostnames", hostlist)
	if err != nil {
		return nil, err
	}
	return strings.Fields(out), nil
}
