package slurmlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// hang bounds the start and the end of a daemon, on the busiest machine.
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

// startDaemon starts a program in the foreground mode of its own, and waits until ready. What it
// prints goes to log/NAME.out; Slurm's daemons log to log/NAME.log beside it. A slurmd is named after its node, too.
func (c *Cluster) startDaemon(
	ctx context.Context,
	name string,
	env []string,
	ready func() bool,
	args ...string,
) (*daemon, error) {
	program, _, _ := strings.Cut(name, "-")

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
	cmd.Stdout = out
	cmd.Stderr = out
	// slurmstepd writes its title over the start of its environment, so the
	// variables by which stopOwned knows a process come last.
	cmd.Env = slices.Concat(
		[]string{"RUNTIME_DIRECTORY=" + runtime},
		env,
		c.Env(),
		[]string{nodeVariable + "=" + strings.TrimPrefix(name, "slurmd-")},
	)

	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}

	d := &daemon{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(d.done)
	}()

	return d, c.await(ctx, d, ready)
}

func (d *daemon) signal(sig syscall.Signal) { d.cmd.Process.Signal(sig) }

// hasEnded returns whether and how the daemon ended.
func (d *daemon) hasEnded() (string, bool) {
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

	err := WaitUntil(ctx, func() bool {
		_, ended := d.hasEnded()
		return ended || ready()
	})
	if state, ended := d.hasEnded(); ended {
		err = errors.New(state)
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
	socket := c.mungeSocket()
	_, err := c.startDaemon(
		ctx,
		"munged",
		nil,
		func() bool {
			_, err := os.Stat(socket)
			return err == nil
		},
		"--foreground",
		"--force",
		"--key-file="+filepath.Join(c.dir, "etc", "munge.key"),
		"--socket="+socket,
		"--pid-file="+filepath.Join(
			c.dir,
			"run",
			"munged.pid",
		),
		"--log-file="+c.Log("munged"),
		"--seed-file="+filepath.Join(c.dir, "run", "munged.seed"),
	)

	return err
}

func (c *Cluster) mungeSocket() string { return filepath.Join(c.dir, "run", "munge.socket") }

func (c *Cluster) startController(ctx context.Context) (err error) {
	c.ctld, err = c.startDaemon(ctx, "slurmctld", nil, func() bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()

		out, _ := c.Command(ctx, "scontrol", "ping")

		return strings.Contains(out, " is UP")
	}, "-D", "-f", c.conf)

	return err
}

// stopController ends slurmctld so that it saves its state. On 22.05 that takes 10 s while a ResumeProgram is running.
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

// StartNode starts the slurmd of a configured node, as the boot of a machine would. If addr is not empty, the node's
// address and host name are set to it first; any address in 127/8 reaches this machine. Starting a node that runs is
// not an error. The node is not registered yet when StartNode returns, which takes up to a second: start several nodes
// side by side.
func (c *Cluster) StartNode(ctx context.Context, name, addr string) error {
	// slurmd -b claims to have booted one second ago, and slurmctld ignores a node whose boot is older than the
	// power-up that it asked for, counted in whole seconds ("Still waiting for boot of node"): one that registers
	// within the same second stays POWERING_UP until ResumeTimeout.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startNode(ctx, name, addr)
}

func (c *Cluster) startNode(ctx context.Context, name, addr string) error {
	if c.stopped {
		return errors.New("starting node " + name + ": the cluster is stopped")
	}

	if !slices.Contains(c.cfg.nodes(), name) {
		return fmt.Errorf("starting node %s: no such node in %s", name, c.conf)
	}

	if c.running(name) {
		return nil
	}

	if addr != "" {
		_, err := c.Command(ctx, "scontrol", "update", "nodename="+name, "nodeaddr="+addr, "nodehostname="+addr)
		if err != nil {
			return fmt.Errorf("starting node %s: %w", name, err)
		}
	}
	// -b: the machine has just booted, whatever /proc/uptime says.
	d, err := c.startDaemon(ctx, "slurmd-"+name, nil, func() bool { return true }, "-D", "-N", name, "-b", "-f", c.conf)
	if d != nil {
		c.nodes[name] = d
	}

	return err
}

// StopNode ends the slurmd of a node and its jobs at once, as the end of a machine would. Slurm is not told. Stopping a
// node that does not run is not an error.
func (c *Cluster) StopNode(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopNode(name)
}

func (c *Cluster) stopNode(name string) error {
	delete(c.nodes, name)

	if err := stopOwned(c.conf, name); err != nil {
		return fmt.Errorf("stopping node %s: %w", name, err)
	}

	return nil
}

func (c *Cluster) running(name string) bool {
	d := c.nodes[name]
	if d == nil {
		return false
	}

	_, ended := d.hasEnded()

	return !ended
}

// startStatic starts the static nodes that do not run, and waits until Slurm can use these.
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
			node, err := c.Node(ctx, name)
			return err == nil && strings.HasPrefix(node["State"], "IDLE") &&
				!strings.Contains(node["State"], "NOT_RESPONDING")
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// Clusters take their ports in blocks below 32768, where Linux begins to hand
// out ports for outgoing connections (ip_local_port_range).
const (
	firstPort  = 12000
	portBlocks = 40
	blockSize  = 500

	controllerPort = 0 // offsets in a block
	// whoever listens there has the block; also SlurmdPort, which no slurmd binds: every node has its own
	ownerPort      = 1
	accountingPort = 2  // slurmdbd's
	firstNodePort  = 10 // the nodes' own
)

// takePorts takes a block that no other cluster owns and whose ports nobody listens on, such as a slurmd that a killed
// program left behind. The block is free again when the owner is closed, or ends.
func takePorts() (first int, owner net.Listener, err error) {
	listen := func(port int) (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf(":%d", port)) }
	for first = firstPort; first < firstPort+portBlocks*blockSize; first += blockSize {
		owner, err = listen(first + ownerPort)
		if err != nil {
			continue
		}

		for port := first; port < first+blockSize && err == nil; port++ {
			var l net.Listener

			if port == first+ownerPort {
				continue
			}

			l, err = listen(port)
			if err == nil {
				l.Close()
			}
		}

		if err == nil {
			return first, owner, nil
		}

		owner.Close()
	}

	return 0, nil, errors.New("no free block of ports for a Slurm cluster: are clusters left over on this machine?")
}
