package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// openBlock is the id of the block of `up`.
const openBlock = "cr-01ab00000000000b1"

// addBlock gives the built-in account a block that is open: two p5.48xlarge, for two hours.
func addBlock(s *awssim.Scenario) {
	r := awssim.ReservationScenario{ID: openBlock, Kind: "capacity-block", Type: "p5.48xlarge", Zone: "us-east-2a", Count: 2}
	for text, moment := range map[string]*awssim.Moment{"-1h": &r.Start, "+2h": &r.End} {
		if err := moment.UnmarshalText([]byte(text)); err != nil {
			panic(err) // they are compiled in
		}
	}
	at := slices.IndexFunc(s.Regions, func(r awssim.RegionScenario) bool { return r.Name == s.Home })
	s.Regions[at].Reservations = append(s.Regions[at].Reservations, r)
}

// readyTime is how long a lab may take to start, on a machine that is busy.
const readyTime = 2 * time.Minute

// detach starts the lab in the background, as this program without --detach, and prints what
// the shell is to evaluate when it is ready.
//
// The shell that evaluates it does not see this program's exit status: without a lab it gets a
// command that fails.
func (cmd *upCmd) detach(out io.Writer) error {
	err := cmd.startDetached(out)
	if err != nil {
		fmt.Fprintln(out, "false # no lab")
	}
	return err
}

func (cmd *upCmd) startDetached(out io.Writer) error {
	dir, err := filepath.Abs(cmd.Dir)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := ownFolder(dir); err != nil {
		return err
	}
	env := filepath.Join(dir, "env")
	if _, err := os.Stat(env); err == nil {
		return fmt.Errorf("a lab is running in %s already, or was killed; stop it and delete %s, or choose another --dir", dir, env)
	}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "log", "up.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return arg == "--detach" })
	child := exec.Command(self, args...)
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for deadline := time.Now().Add(readyTime); ; time.Sleep(50 * time.Millisecond) {
		if info, err := os.Stat(env); err == nil && info.Size() > 0 {
			_, err := fmt.Fprintf(out, ". %s; export CAPACITY_LAB_PID=%d\n", shellQuote(env), child.Process.Pid)
			return err
		}
		select {
		case <-ended:
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the lab did not start: %s", said)
		default:
		}
		if time.Now().After(deadline) {
			_ = child.Process.Signal(syscall.SIGTERM)
			return fmt.Errorf("the lab is not ready after %s; see %s", readyTime, log.Name())
		}
	}
}
