package slurmlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// daemon is a child process in a session of its own, so that a Ctrl-C in the
// terminal reaches only the program that runs the lab.
type daemon struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// hang is how long a daemon may take to start or to end, on the busiest machine.
const hang = 2 * time.Minute

// findProgram looks in PATH and where daemons are installed.
func findProgram(name string) (string, error) {
	for _, dir := range filepath.SplitList(searchPath()) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// startDaemon starts a program in the foreground mode of its own. What it
// prints goes to log/NAME.out; Slurm's daemons log to log/NAME.log beside it.
func (c *Cluster) startDaemon(name, program string, env []string, args ...string) (*daemon, error) {
	path, err := findProgram(program)
	if err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(c.dir, "log", name+".out"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	// Its own, so that daemons of several clusters never share a default.
	runtime := filepath.Join(c.dir, "run", name)
	if err := os.MkdirAll(runtime, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = filepath.Join(c.dir, "log")
	cmd.Stdout, cmd.Stderr = out, out
	// slurmstepd writes its title over the start of its environment, so the
	// variables by which stopAll knows a process come last.
	cmd.Env = append([]string{"RUNTIME_DIRECTORY=" + runtime}, env...)
	cmd.Env = append(cmd.Env, c.Env()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	d := &daemon{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(d.done)
	}()
	return d, nil
}

func (d *daemon) signal(sig syscall.Signal) { d.cmd.Process.Signal(sig) }

// ended returns whether and how the daemon ended.
func (d *daemon) ended() (string, bool) {
	select {
	case <-d.done:
		return d.cmd.ProcessState.String(), true
	default:
		return "", false
	}
}

// await polls ready until it is true. It fails at once when the daemon ends.
func (c *Cluster) await(ctx context.Context, d *daemon, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	err := Until(ctx, func() bool {
		_, ended := d.ended()
		return ended || ready()
	})
	if state, ended := d.ended(); ended {
		return c.withLog(d.name, fmt.Errorf("%s ended: %s", d.name, state))
	}
	if err != nil {
		return c.withLog(d.name, fmt.Errorf("%s is not ready: %w", d.name, err))
	}
	return nil
}

// withLog adds the last lines of a daemon's log to an error.
func (c *Cluster) withLog(name string, err error) error {
	path := c.Log(name)
	data, _ := os.ReadFile(path)
	if len(data) == 0 {
		path = filepath.Join(c.dir, "log", name+".out")
		data, _ = os.ReadFile(path)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) > 8 {
		lines = lines[len(lines)-8:]
	}
	return fmt.Errorf("%w; the last lines of %s:\n%s", err, path, strings.Join(lines, "\n"))
}

func (c *Cluster) startMunged(ctx context.Context) error {
	if c.cfg.Auth != "munge" {
		return nil
	}
	socket := c.mungeSocket()
	d, err := c.startDaemon("munged", "munged", nil, "--foreground", "--force",
		"--key-file="+filepath.Join(c.dir, "etc", "munge.key"),
		"--socket="+socket,
		"--pid-file="+filepath.Join(c.dir, "run", "munged.pid"),
		"--log-file="+c.Log("munged"),
		"--seed-file="+filepath.Join(c.dir, "run", "munged.seed"))
	if err != nil {
		return err
	}
	c.munged = d
	return c.await(ctx, d, func() bool {
		_, err := os.Stat(socket)
		return err == nil
	})
}

func (c *Cluster) mungeSocket() string { return filepath.Join(c.dir, "run", "munge.socket") }

// giveToSlurmUser gives slurmctld's files to the user that it changes to.
func (c *Cluster) giveToSlurmUser() error {
	if c.cfg.SlurmUser == "" {
		return nil
	}
	who, err := user.Lookup(c.cfg.SlurmUser)
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	for _, name := range []string{"state", "run/prolog", "run/power.fifo"} {
		err = errors.Join(err, os.Chown(filepath.Join(c.dir, name), uid, gid))
	}
	for _, name := range []string{"slurmctld", "prologctld", "power"} {
		log, openErr := os.OpenFile(c.Log(name), os.O_CREATE|os.O_WRONLY, 0o644)
		if openErr != nil {
			return openErr
		}
		err = errors.Join(err, log.Chown(uid, gid), log.Close())
	}
	return err
}

func (c *Cluster) startController(ctx context.Context) error {
	if err := c.giveToSlurmUser(); err != nil {
		return err
	}
	d, err := c.startDaemon("slurmctld", "slurmctld", nil, "-D", "-f", c.conf)
	if err != nil {
		return err
	}
	c.ctld = d
	return c.await(ctx, d, func() bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		out, _ := c.Command(ctx, "scontrol", "ping")
		return strings.Contains(out, " is UP")
	})
}

// stopController ends slurmctld so that it saves its state. On 22.05 that
// takes 10 s while a ResumeProgram is running.
func (c *Cluster) stopController() error {
	if c.ctld == nil {
		return nil
	}
	os.WriteFile(c.stoppingFile(), nil, 0o644)
	defer os.Remove(c.stoppingFile())
	c.ctld.signal(syscall.SIGTERM)
	select {
	case <-c.ctld.done:
		return nil
	case <-time.After(hang):
		c.ctld.signal(syscall.SIGKILL)
		<-c.ctld.done
		return c.withLog("slurmctld", errors.New("slurmctld did not end on SIGTERM within 2 minutes and was killed"))
	}
}
