package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Ctrl-C at a question ends the program. It is typed at a real pseudo-terminal, or sent as the signal that it is.
func TestCtrlCEndsAQuestion(t *testing.T) {
	setup := []string{
		"setup",
		"--reservation",
		"cr-0e2000000000000a1",
		"--cluster",
		"ml",
		"--queue",
		"gpu",
		"--node-group",
		"gpu",
		"--like",
		"compute",
	}
	purchase := []string{"purchase", "cb-0d05ecddf72412d79", "-t", "p5.48xlarge", "-n", "4", "-d", "7d"}
	for name, c := range map[string]struct {
		args []string
		asks string
		stop func(*session)
	}{
		"apply the plan": {setup, "Apply this plan? Type yes to go on: ", (*session).ctrlC},
		"the fee":        {purchase, "Type the fee (21143.81) to buy: ", (*session).ctrlC},
		"a signal":       {purchase, "Type the fee (21143.81) to buy: ", func(s *session) { s.signal(os.Interrupt) }},
		"termination": {setup, "Apply this plan? Type yes to go on: ", func(s *session) {
			s.signal(syscall.SIGTERM)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, c.args...)
			s.waitFor(c.asks)
			c.stop(s)

			if status := s.exitStatus(); status != 1 {
				t.Errorf("exit status %d, want 1\n%s", status, s.text())
			}

			s.waitFor("pcs-capacity: not confirmed; nothing was done")

			if bought := s.sim.Ledger(); len(bought) > 0 {
				t.Errorf("bought %+v", bought)
			}
		})
	}
}

// A command that waits for a silent AWS says at a terminal what it waits for, and since when.
func TestSignsOfLife(t *testing.T) {
	for command, says := range map[string]string{
		"list":                                "asking 1 region (",
		"check":                               "asking AWS and Slurm (",
		"timeline":                            "asking EC2 (",
		"offerings -t p5.48xlarge -n 4 -d 1d": "asking 1 region (",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := newSessionWith(t, awssim.Fault{Effect: awssim.Silent}, strings.Fields(command)...)
			s.waitFor(says)
		})
	}
}

// While a purchase waits for AWS's answer, it takes more than one Ctrl-C to end the program.
func TestSecondCtrlCAlwaysEnds(t *testing.T) {
	s := newSession(
		t,
		"purchase",
		"cb-0d05ecddf72412d79",
		"-t",
		"p5.48xlarge",
		"-n",
		"4",
		"-d",
		"7d",
		"--confirm-fee",
		"21143.81",
	)
	s.waitFor("an instance-hour")
	s.until("it buys", s.sends)
	s.until("it ends", func() bool { // the first is noted, and one after that ends it
		select {
		case <-s.ended:
			return true
		default:
			s.ctrlC()
			return false
		}
	})

	if s.exitStatus(); !s.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("%s, want an end by the signal\n%s", s.cmd.ProcessState, s.text())
	}
}

// sends reports whether the program has recorded that it sends the call that buys.
func (s *session) sends() bool {
	intents, err := market.Intents{StateDir: s.state}.All()
	if err != nil {
		s.Fatal(err)
	}

	return len(intents) == 1 && intents[0].Phase == market.Sending
}

// session is the program at a pseudo-terminal, with a simulated AWS that never answers the call that buys.
type session struct {
	*testing.T
	sim   *awssim.Sim
	slurm *fakeSlurm
	state state.Dir
	pty   *os.File // the side of the person
	cmd   *exec.Cmd
	ended chan struct{}

	mu    sync.Mutex
	shown strings.Builder
}

// columns is how wide the terminal is.
const columns = 100

// mostWait bounds short waits.
const mostWait = 2 * time.Minute

func newSession(t *testing.T, args ...string) *session {
	t.Helper()

	buys := awssim.Fault{Operation: "PurchaseCapacityBlock", Effect: awssim.Delay, Latency: awssim.Duration(time.Hour)}

	return newSessionWith(t, buys, args...)
}

func newSessionWith(t *testing.T, fault awssim.Fault, args ...string) *session {
	t.Helper()

	scenario, err := awssim.LoadScenario(simWorld)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	s := &session{T: t, state: state.Dir(filepath.Join(dir, "state")), ended: make(chan struct{})}
	if s.sim, err = awssim.New(scenario, awssim.NewClock(simStart, 0)); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { s.sim.Close() })

	if _, err := s.sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}

	if _, err := s.sim.AddFault(fault); err != nil {
		t.Fatal(err)
	}

	settings := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "cluster = \"ml\"\nstate_dir = %q\n", s.state),
		0o644); err != nil {
		t.Fatal(err)
	}

	s.slurm = newFakeSlurm(t, t.Cleanup, filepath.Join(dir, "slurm"), s.sim.Clock().Now)
	s.slurm.up("gpu-a-[1-4]")

	s.cmd = exec.Command("pcs-capacity", append([]string{"--config", settings}, args...)...) // installed by testscript
	s.cmd.Env = append(
		append(os.Environ(), s.sim.Env()...),
		"AWS_EC2_METADATA_DISABLED=true",
		"TZ=UTC",
		"PATH="+s.slurm.StateSave+":"+os.Getenv("PATH"),
		"SLURM_CONF="+filepath.Join(dir, "slurm.conf"),
	)
	if args[0] == "setup" { // it assumes the programs that Slurm runs at each submission
		hooks := exec.Command("pcs-capacity", "--config", settings, "hooks", "install", "cli_filter")
		hooks.Env = s.cmd.Env
		if out, err := hooks.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}

	s.start()

	return s
}

// start runs the program with a pseudo-terminal of its own as its controlling one, so that
// Ctrl-C typed there becomes a signal.
func (s *session) start() {
	s.Helper()

	var err error
	if s.pty, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		s.Fatal("no pseudo-terminals here: ", err)
	}

	fd := int(s.pty.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		s.Fatal(err)
	}

	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		s.Fatal(err)
	}

	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns}); err != nil {
		s.Fatal(err)
	}

	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer terminal.Close()

	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal

	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}

	read := make(chan struct{})
	go func() {
		_ = s.cmd.Wait()

		<-read
		close(s.ended)
	}()
	go func() {
		defer close(read)

		piece := make([]byte, 4096)
		for {
			n, err := s.pty.Read(piece)
			s.mu.Lock()
			s.shown.Write(piece[:n])
			s.mu.Unlock()

			if err != nil {
				return // the other side is closed
			}
		}
	}()

	s.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		_ = s.pty.Close()
	})
}

func (s *session) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

func (s *session) waitFor(text string) {
	s.Helper()
	s.until("it shows "+text, func() bool { return strings.Contains(s.text(), text) })
}

func (s *session) until(what string, ok func() bool) {
	s.Helper()

	ctx, cancel := context.WithTimeout(s.Context(), mostWait)
	defer cancel()

	if slurmlab.WaitUntil(ctx, ok) != nil {
		s.Fatalf("waited in vain until %s:\n%s", what, s.text())
	}
}

// ctrlC is typed.
func (s *session) ctrlC() {
	s.Helper()

	if _, err := s.pty.Write([]byte{3}); err != nil {
		s.Fatal(err)
	}
}

func (s *session) signal(what os.Signal) {
	s.Helper()

	if err := s.cmd.Process.Signal(what); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.Fatal(err)
	}
}

// exitStatus waits for the end.
func (s *session) exitStatus() int {
	s.Helper()

	select {
	case <-s.ended:
	case <-time.After(mostWait):
		s.Fatalf("it has not ended:\n%s", s.text())
	}

	return s.cmd.ProcessState.ExitCode()
}
