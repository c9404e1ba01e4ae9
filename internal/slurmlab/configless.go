package slurmlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A configless cluster is as AWS PCS has it: slurmctld hands out slurm.conf, to the slurmd of
// each node and to sackd on a login machine. Both keep what they got in /run/slurm, by which
// commands find it, so each of them sees a /run of its own.

// ownRun runs a program that sees a /run of its own. It is the program's process, whose pid stays.
var ownRun = []string{"unshare", "--mount", "sh", "-ec", `mount -t tmpfs -o mode=755 run /run
mkdir /run/slurm
exec "$@"`, "sh"}

// loginRun has the login machine's /etc besides: without a slurm.conf of this machine's, and with
// the cluster's key, $0. Its changes end with it. $1 is a script for more of that.
var loginRun = []string{"unshare", "--mount", "sh", "-ec", `mount -t tmpfs -o mode=755 run /run
mkdir /run/slurm /run/changed /run/work
mount -t overlay -o lowerdir=/etc,upperdir=/run/changed,workdir=/run/work etc /etc
rm -rf /etc/slurm
mkdir /etc/slurm
cp -p "$0" /etc/slurm/slurm.key
sh -ec "$1"
shift
export RUNTIME_DIRECTORY=/run/slurm # as the unit of sackd has it
exec "$@"`}

// onLogin is the program that runs a command on the login machine, where nothing but /run/slurm
// says which cluster there is.
const onLogin = `#!/bin/sh
# Runs a command on the login machine.
read -r pid <'%s' || exit
unset SLURM_CONF
exec nsenter --mount=/proc/$pid/ns/mnt --root=/proc/$pid/root --wd=/proc/$pid/root sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
`

// configlessPossible is an error where such a cluster cannot run.
func (cfg Config) configlessPossible() error {
	if !cfg.Configless {
		return nil
	}
	if cfg.Auth != "slurm" {
		return errors.New("slurmlab: a configless cluster is one with auth/slurm")
	}
	if os.Getuid() != 0 {
		return errors.New("slurmlab: a configless cluster takes root: its machines have a /run of their own")
	}
	if _, err := findProgram("sackd"); err != nil {
		return fmt.Errorf("slurmlab: a configless cluster takes Slurm 24.05 or newer, with sackd: %w", err)
	}
	return nil
}

func (c *Cluster) key() string { return filepath.Join(c.dir, "etc", "slurm.key") }

// server is where slurmctld hands out slurm.conf.
func (c *Cluster) server() string { return fmt.Sprintf("localhost:%d", c.ports.first+controllerPort) }

// OnLogin is the path of the program that runs a command on the login machine of a configless
// cluster, in the same folder.
func (c *Cluster) OnLogin() string { return filepath.Join(c.dir, "bin", "on-login") }

// startLogin starts the sackd of the login machine, or a new one that fetches a changed slurm.conf.
func (c *Cluster) startLogin(ctx context.Context) error {
	if !c.cfg.Configless {
		return nil
	}
	if err := end(c.sackd); err != nil {
		return err
	}
	sackd, err := findProgram("sackd")
	if err != nil {
		return err
	}
	words := append(append([]string{}, loginRun[1:]...), c.key(), c.cfg.Login, sackd, "-D", "-v", "--conf-server", c.server())
	if c.sackd, err = c.startDaemon("sackd", loginRun[0], []string{nodeVariable + "=login", "SLURM_SACK_KEY=" + c.key()}, words...); err != nil {
		return err
	}
	pid := c.sackd.cmd.Process.Pid
	err = c.await(ctx, c.sackd, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/slurm/sack.socket", pid))
		return err == nil && strings.HasPrefix(program(pid), "sackd") // and has its own /run
	})
	if err != nil {
		return err
	}
	pidFile := filepath.Join(c.dir, "run", "login.pid")
	return errors.Join(writeFile(pidFile, fmt.Sprintln(pid), 0o644), writeFile(c.OnLogin(), fmt.Sprintf(onLogin, pidFile), 0o755))
}

// fetchAgain has the nodes that run and the login machine fetch a changed slurm.conf; jobs go on.
// On SIGHUP their daemons would read again what they got before.
func (c *Cluster) fetchAgain(ctx context.Context) error {
	if !c.cfg.Configless {
		return nil
	}
	for name, node := range c.nodes {
		if err := end(node); err != nil {
			return err
		}
		var err error
		if c.nodes[name], err = c.startSlurmd(name); err != nil {
			return err
		}
	}
	return c.startLogin(ctx)
}

// end ends a daemon and not what it has started.
func end(d *daemon) error {
	if d == nil {
		return nil
	}
	d.signal(syscall.SIGTERM)
	select {
	case <-d.done:
		return nil
	case <-time.After(hang):
		return fmt.Errorf("%s does not end on SIGTERM", d.name)
	}
}
