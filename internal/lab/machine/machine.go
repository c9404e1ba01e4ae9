// Package machine runs Linux machines on this one, in namespaces: each has a hostname, a network, processes and an
// uptime of its own, and a root file system that begins as this machine's and whose changes end with it.
// `capacity-lab up --plain` runs its controller and nodes on them.
//
// It takes root and Linux 5.6, and leaves nothing behind: machines end with the program that started them, however it
// ends.
package machine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is a running Linux machine.
type Machine struct {
	name, folder string
	cmd          *exec.Cmd
	life         io.Closer // its end is the machine's
	ended        chan struct{}
}

// Config describes a machine to start.
type Config struct {
	Name    string            // its hostname
	Address string            // that of its network interface, such as 10.0.0.2/16
	Switch  *Machine          // the machine whose network it joins; nil for one that has the switch
	Folder  string            // where its files are until it ends, beside its log; no other machine uses it
	Binds   map[string]string // files and folders of this machine that it sees at other paths, by these
	Hidden  []string          // paths of this machine's that it does not see
	Files   map[string]string // laid over its root file system, by path; those that begin with #! can be run
	Init    string            // what its first process runs as root when the network is there: a script for sh
}

//go:embed boot.sh
var bootScript string

// Possible returns an error where machines cannot run.
func Possible() error {
	if os.Getuid() != 0 {
		return errors.New("machines in namespaces of their own need root")
	}

	for _, program := range []string{"ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("machines need the program %s: apt-get install iproute2 util-linux", program)
		}
	}

	out, err := exec.Command("unshare", "--mount", "--net", "--time", "--fork", "ip", "link", "add", "type", "veth").
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("this machine allows no namespaces: %w: %s", err, out)
	}

	return nil
}

// readyTime bounds the wait until the init of a machine runs.
const readyTime = 30 * time.Second

// Start returns when the machine is on its network and its init has begun.
func Start(ctx context.Context, c Config) (*Machine, error) {
	m := &Machine{name: c.Name, folder: c.Folder, ended: make(chan struct{})}
	if err := m.start(ctx, c); err != nil {
		said, _ := os.ReadFile(m.Log())
		return nil, errors.Join(fmt.Errorf("starting machine %s: %w: %s", c.Name, err, said), m.Stop())
	}

	return m, nil
}

func (m *Machine) start(ctx context.Context, c Config) error {
	if err := os.MkdirAll(filepath.Join(c.Folder, "disk"), 0o755); err != nil {
		return err
	}

	files := map[string]string{"boot.sh": bootScript, "init.sh": c.Init, "hidden": strings.Join(c.Hidden, "\n")}
	for path, text := range c.Files {
		files[filepath.Join("files", path)] = text
	}

	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}

		path := filepath.Join(c.Folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), mode)); err != nil {
			return err
		}
	}

	log, err := os.OpenFile(m.Log(), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644) // units write there, too
	if err != nil {
		return err
	}
	defer log.Close()

	reads, writes, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reads.Close()

	m.life = writes

	args := []string{filepath.Join(c.Folder, "boot.sh"), c.Name, c.Folder}
	for inside, outside := range c.Binds {
		args = append(args, outside, inside)
	}

	m.cmd = exec.Command("sh", args...)

	m.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

	m.cmd.Stdin = reads

	m.cmd.Stdout = log

	m.cmd.Stderr = log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWPID,
	}
	if err := m.cmd.Start(); err != nil {
		m.cmd = nil
		return err
	}
	go func() {
		_ = m.cmd.Wait()
		close(m.ended)
	}()

	if err := m.connect(ctx, c); err != nil {
		return err
	}

	if _, err := io.WriteString(writes, "\n"); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()

	for {
		if _, err := os.Stat(filepath.Join(c.Folder, "booted")); err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.ended:
			return errors.New("it ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// bridge is the switch: an interface of the machine that has it.
const bridge = "switch"

var ports atomic.Int64

// connect gives the machine its interface. Interfaces end with their machine.
func (m *Machine) connect(ctx context.Context, c Config) error {
	pid := fmt.Sprint(m.cmd.Process.Pid)
	in := func(pid string, args ...string) error {
		out, err := exec.CommandContext(ctx, "nsenter", append([]string{"--target", pid, "--net", "ip"}, args...)...).
			CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}

		return nil
	}
	if err := in(pid, "link", "set", "lo", "up"); err != nil {
		return err
	}

	if c.Switch == nil {
		return errors.Join(in(pid, "link", "add", bridge, "type", "bridge"),
			in(pid, "address", "add", c.Address, "dev", bridge), in(pid, "link", "set", bridge, "up"))
	}

	at := fmt.Sprint(c.Switch.cmd.Process.Pid)
	port := fmt.Sprintf("port%d", ports.Add(1))

	return errors.Join(in(at, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid),
		in(at, "link", "set", port, "master", bridge, "up"), in(pid, "address", "add", c.Address, "dev", "eth0"),
		in(pid, "link", "set", "eth0", "up"), in(pid, "route", "add", "default", "dev", "eth0"))
}

// Log returns the path of what the machine's first process prints.
func (m *Machine) Log() string { return filepath.Join(m.folder, "console.log") }

// Enter returns the words before a command that run it on the machine, as root in a short
// environment to which more is added.
func (m *Machine) Enter(environment ...string) []string {
	words := []string{
		"nsenter",
		"--target",
		fmt.Sprint(m.cmd.Process.Pid),
		"--mount",
		"--root",
		"--wd",
		"--uts",
		"--ipc",
		"--net",
		"--pid",
		"env",
		"-i",
		"HOME=/root",
		"TERM=dumb",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}

	return append(words, environment...)
}

// Run runs a script for sh on the machine and returns what it printed, errors included.
func (m *Machine) Run(ctx context.Context, script string, environment ...string) (string, error) {
	words := slices.Concat(m.Enter(environment...), []string{"sh", "-c", script})
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.WaitDelay = time.Second // what it left running may have its output open

	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}

	if err != nil {
		return string(out), fmt.Errorf("on %s: %s: %w: %s", m.name, script, err, out)
	}

	return string(out), nil
}

// Listen listens in the machine's network, for this program.
func (m *Machine) Listen(address string) (net.Listener, error) {
	type answer struct {
		listener net.Listener
		err      error
	}

	answers := make(chan answer)
	go func() {
		// The thread is in another network from now on, and ends with this goroutine.
		runtime.LockOSThread()

		space, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.cmd.Process.Pid))
		if err == nil {
			defer space.Close()

			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
		}

		if err != nil {
			answers <- answer{nil, err}
			return
		}

		listener, err := net.Listen("tcp", address)
		answers <- answer{listener, err}
	}()

	got := <-answers

	return got.listener, got.err
}

// Stop ends the machine and all of its processes, at once.
func (m *Machine) Stop() error {
	if m.life != nil {
		_ = m.life.Close()
	}

	if m.cmd == nil {
		return nil
	}

	select {
	case <-m.ended:
	case <-time.After(time.Second):
		_ = m.cmd.Process.Kill() // the first process: the kernel ends the others with it
		<-m.ended
	}

	return os.RemoveAll(filepath.Join(m.folder, "disk"))
}
