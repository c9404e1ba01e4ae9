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
	socket := c.mungeSocket()
	d, err := c.startDaemon("munged", "munged", nil, "--foreground", "--force",
		"--key-file="+filepath.Join(c.dir, "etc", "munge.key"), "--socket="+socket, "--pid-file="+filepath.Join(c.dir,
			"run", "munged.pid"), "--log-file="+c.Log("munged"), "--seed-file="+filepath.Join(c.dir, "run", "munged.seed"))
	if err != nil {
		return err
	}
	return c.await(ctx, d, func() bool {
		_, err := os.Stat(socket)
		return err == nil
	})
}

func (c *Cluster) mungeSocket() string { return filepath.Join(c.dir, "run", "munge.socket") }

func (c *Cluster) startController(ctx context.Context) error {
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
	if err := nextSecond(ctx); err != nil {
		return fmt.Errorf("starting node %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startNode(ctx, name, addr)
}

// nextSecond waits for the clock's next full second. slurmd -b claims to have booted one second ago, and slurmctld
// ignores a node whose boot is older than the power-up that it asked for, counted in whole seconds ("Still waiting for
// boot of node"): one that registers within the same second stays POWERING_UP until ResumeTimeout.
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
	if !slices.Contains(c.cfg.nodes(), name) {
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
	d, err := c.startDaemon("slurmd-"+name, "slurmd", []string{nodeVariable + "=" + name}, "-D", "-N", name, "-b", "-f", c.conf)
	if err != nil {
		return err
	}
	c.nodes[name] = d
	return nil
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
			state, err := c.NodeState(ctx, name)
			return err == nil && strings.HasPrefix(state, "IDLE") && !strings.Contains(state, "NOT_RESPONDING")
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

	controllerPort = 0  // offsets in a block
	defaultPort    = 1  // SlurmdPort: never bound, every node has its own
	accountingPort = 2  // slurmdbd's
	firstNodePort  = 10 // the nodes' own
)

// portBlock is a range of ports that one cluster on this machine owns.
type portBlock struct {
	first int
	lock  net.Listener
}

// takePorts takes a block that no other cluster owns and whose ports nobody listens on. An abstract unix socket is the
// lock: it is no file, and the kernel frees it with the process.
func takePorts() (*portBlock, error) {
	for i := range portBlocks {
		lock, err := net.Listen("unix", fmt.Sprintf("@slurmlab-ports-%d", firstPort+i*blockSize))
		if err != nil {
			continue
		}
		block := &portBlock{first: firstPort + i*blockSize, lock: lock}
		if block.free() {
			return block, nil
		}
		block.release()
	}
	return nil, errors.New("no free block of ports for a Slurm cluster: are clusters left over on this machine?")
}

// free tells whether nothing listens in the block, such as a slurmd that a killed program left behind. Ports of
// programs outside this package are found as well, but only at this moment.
func (b *portBlock) free() bool {
	for port := b.first; port < b.first+blockSize; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func (b *portBlock) release() { b.lock.Close() }
