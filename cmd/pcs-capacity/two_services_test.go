package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What tells a program that it is on a host of its own, and how long its leases last.
const (
	testBoot  = "PCS_CAPACITY_TEST_BOOT"
	testLease = "PCS_CAPACITY_TEST_LEASE"
)

// oneOfSeveralHosts is main on a host of its own, with a state_dir on a network file system.
func oneOfSeveralHosts() {
	state.Here.Boot = func() string { return os.Getenv(testBoot) }
	state.Here.Alone = func(state.Dir) bool { return false }
	leaseTime, _ = time.ParseDuration(os.Getenv(testLease))
	main()
}

// forgetfulScontrol keeps no reservation, so that each pass makes all of its fences. It writes down
// each, with the program that asked; a file "fault" beside it has the signal that this program gets
// while it asks for the next one.
const forgetfulScontrol = `#!/bin/sh
dir=${0%/*}
case "$*" in
*create*reservation*)
  for word in "$@"; do
    case $word in reservationname=*) echo "$PPID ${word#*=}" >>"$dir/journal";; esac
  done
  mv "$dir/fault" "$dir/fault.$$" 2>/dev/null || exit 0
  kill "-$(cat "$dir/fault.$$")" $PPID;;
*"show reservation"*) echo 'No reservations in the system';;
*) exec "$dir/true-scontrol" "$@";;
esac
`

// service is a `sync --watch` on a host of its own.
type service struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
}

func (s *service) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(text)
}

func (s *service) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

func (s *service) pid() int { return s.cmd.Process.Pid }

// stage of two hosts.
type twoHosts struct {
	*testing.T
	dir, slurm, settings string
	env                  []string
	lease                time.Duration
	hosts                [2]*service
}

func newTwoHosts(t *testing.T, lease time.Duration) *twoHosts {
	scenario, err := awssim.LoadScenario(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(scenario, awssim.NewClock(simStart, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	h := &twoHosts{T: t, dir: t.TempDir(), lease: lease}
	h.slurm, h.settings = filepath.Join(h.dir, "slurm"), filepath.Join(h.dir, "config.toml")
	path := fakeSlurmFor(t, h.slurm, "gpu-[1-2]", "next-[1-2]")
	text := fmt.Sprintf("state_dir = %q\nlocal_dir = \"\"\ntiming.poll = \"1s\"\n[[partition]]\nname = \"gpu\"\nprovider = \"ec2\"\n", filepath.Join(h.dir, "state"))
	for _, group := range [][2]string{{"gpu", "cr-0e2000000000000a1"}, {"next", "cr-0e2000000000000a2"}} {
		text += fmt.Sprintf("[[partition.node_group]]\nname = %q\ninstance_type = \"p5.48xlarge\"\nsubnet_ids = [\"subnet-0e200000000000a01\"]\ncapacity_reservation_ids = [%q]\nmax_nodes = 2\nlaunch_template = \"lt-0e2000000000000a2\"\n", group[0], group[1])
	}
	for file, content := range map[string]string{h.settings: text, filepath.Join(h.slurm, "journal"): ""} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(h.slurm, "scontrol"), filepath.Join(h.slurm, "true-scontrol")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.slurm, "scontrol"), []byte(forgetfulScontrol), 0o755); err != nil {
		t.Fatal(err)
	}
	h.env = append(append(os.Environ(), sim.Env()...), "AWS_EC2_METADATA_DISABLED=true", "TZ=UTC", path, "SLURM_CONF="+filepath.Join(h.slurm, "slurm.conf"), testLease+"="+lease.String())
	return h
}

// start starts the service of a host.
func (h *twoHosts) start(host int) {
	h.Helper()
	s := &service{cmd: exec.Command("pcs-capacity-host", "--config", h.settings, "sync", "--watch")}
	s.cmd.Env = append(slices.Clone(h.env), fmt.Sprintf("%s=host-%d", testBoot, host))
	s.cmd.Stdout, s.cmd.Stderr = s, s
	if err := s.cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.hosts[host] = s
	h.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
}

// journal is what the services have made, in its order: who, and the name of a fence.
func (h *twoHosts) journal() (all [][2]string) {
	h.Helper()
	text, err := os.ReadFile(filepath.Join(h.slurm, "journal"))
	if err != nil {
		h.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		pid, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, [2]string{pid, name})
	}
	return all
}

// passes waits until a host has made the last line of the journal, and some more than there were.
func (h *twoHosts) passes(host, before int) {
	h.Helper()
	h.wait(fmt.Sprintf("host %d makes the passes", host), func() bool {
		j := h.journal()
		return len(j) > before && j[len(j)-1][0] == strconv.Itoa(h.hosts[host].pid())
	})
}

func (h *twoHosts) wait(what string, holds func() bool) {
	h.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("not within a minute: %s\nhost 0: %s\nhost 1: %s", what, h.hosts[0].text(), h.hosts[1].text())
		}
	}
}

// loseLocks does what a network file system does that loses locks: their files stay as they are.
func (h *twoHosts) loseLocks() {
	h.Helper()
	for _, which := range []state.Lock{state.WatchLock, state.PassLock} {
		path := state.Dir(filepath.Join(h.dir, "state")).PrivatePath(string(which))
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path+".new", text, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			h.Fatal(err)
		}
	}
}

// TestRareTwoServicesOnOneStateDir fails the service that makes the passes, in the middle of one, again and
// again: the other goes on, and the one that wakes in its pass changes nothing.
func TestRareTwoServicesOnOneStateDir(t *testing.T) {
	t.Parallel()
	const rounds = 20
	h := newTwoHosts(t, 600*time.Millisecond)
	h.start(0)
	h.passes(0, 0)
	h.start(1)
	h.wait("the second stands by", func() bool { return strings.Contains(h.hosts[1].text(), "stands by: process ") })
	active := 0
	for round := range rounds {
		fault := []string{"KILL", "STOP", "STOP, locks lost"}[round%3]
		signal, _, lost := strings.Cut(fault, ",")
		old, other := h.hosts[active], 1-active
		was := old.text()
		if err := os.WriteFile(filepath.Join(h.slurm, "fault"), []byte(signal), 0o644); err != nil {
			t.Fatal(err)
		}
		h.wait("the fault", func() bool {
			_, err := os.Stat(filepath.Join(h.slurm, "fault"))
			return os.IsNotExist(err) && isStopped(old.pid())
		})
		if lost {
			h.loseLocks()
		}
		h.passes(other, len(h.journal()))
		if signal == "KILL" {
			_ = old.cmd.Wait()
			h.start(active)
		} else if err := syscall.Kill(old.pid(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		again := h.hosts[active]
		if again != old {
			was = ""
		}
		h.wait("the failed one stands by", func() bool {
			return strings.Contains(strings.TrimPrefix(again.text(), was), "stands by: process "+strconv.Itoa(h.hosts[other].pid()))
		})
		if signal != "KILL" && !strings.Contains(again.text(), "this pass changes nothing more") {
			t.Errorf("round %d: it does not say why it stops:\n%s", round, again.text())
		}
		active = other
	}
	// Whoever begins to make fences begins a pass: nobody goes on with one that others have overtaken.
	var all []string
	for _, line := range h.journal() {
		if len(all) > 0 && line[1] == all[0] {
			break
		}
		all = append(all, line[1])
	}
	if len(all) < 2 {
		t.Fatalf("a pass makes %q only", all)
	}
	who, at := "", 0
	for i, line := range h.journal() {
		if line[0] != who {
			who, at = line[0], 0
		}
		if line[1] != all[at%len(all)] {
			t.Fatalf("line %d: process %s made %s, where %s is due; the passes are %q:\n%v", i, line[0], line[1], all[at%len(all)], all, h.journal())
		}
		at++
	}
	if _, err := state.Dir(filepath.Join(h.dir, "state")).ReadSnapshot(); err != nil {
		t.Error(err)
	}
}

// isStopped reports whether a process is stopped, or dead.
func isStopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "Z")
}
