package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// A script that keeps a result in a file has to learn that the disk was full: whatever form the
// result has, the program says so, once, and its exit status is not 0.
func TestOutputThatCannotBeWritten(t *testing.T) {
	run := programForOutput(t)

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()

	offerings := []string{"offerings", "-t", "p5.48xlarge", "-n", "4", "-d", "7d"}
	for _, args := range [][]string{
		{"list"},
		{"list", "-o", "json"},
		{"list", "-o", "yaml"},
		{"list", "-o", "csv"},
		{"status"},
		{"status", "-o", "json"},
		offerings, append(offerings, "-o", "json"),
		{"explain", "gpu"},
		{"explain", "gpu", "-o", "json"},
		{"report"},
		{"report", "-o", "json"},
		{"report", "-o", "csv"},
		{"timeline"},
		{"config"},
		{"iam-policy", "sync"},
		{"completion", "bash"},
		{"--version"},
		{"--help"},
		{"list", "--help"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			status, said := run(full, args...)
			if status != 1 || strings.Count(said, "write /dev/stdout: no space left on device") != 1 {
				t.Errorf("exit status %d: %s", status, said)
			}
		})
	}
}

// A reader that has seen enough, as head, closes the pipe: that is no mistake, and the program ends as others do.
func TestOutputThatNobodyReads(t *testing.T) {
	run := programForOutput(t)
	for _, args := range [][]string{{"list"}, {"list", "-o", "json"}, {"report"}, {"--version"}, {"--help"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}

		r.Close()

		if status, said := run(w, args...); status != -int(syscall.SIGPIPE) || said != "" {
			t.Errorf("%s: exit status %d: %s", args, status, said)
		}

		w.Close()
	}
}

// programForOutput runs the program with a stdout and tells its exit status, or the signal that
// ended it as a negative number, and what it wrote to stderr. There is a sync's snapshot, there are
// samples for a report, and a Slurm without jobs.
func programForOutput(t *testing.T) func(stdout *os.File, args ...string) (status int, said string) {
	t.Helper()
	sim := simulatedAWS(t)
	settings := withoutSlurm(t)
	dir := filepath.Dir(settings)
	newFakeSlurm(t, t.Cleanup, dir, sim.Clock().Now)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	run := func(stdout *os.File, args ...string) (status int, said string) {
		var stderr strings.Builder

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		// installed by testscript
		c := exec.CommandContext(ctx, "pcs-capacity", append([]string{"--config", settings}, args...)...)
		c.Stdout, c.Stderr = stdout, &stderr
		_ = c.Run() // what matters is in ProcessState
		if end := c.ProcessState.Sys().(syscall.WaitStatus); end.Signaled() {
			return -int(end.Signal()), stderr.String()
		}

		return c.ProcessState.ExitCode(), stderr.String()
	}
	run(nil, "sync") // cannot write to Slurm, but saw AWS

	hour := time.Now().Add(-time.Hour)
	paid := state.Paid{
		Partition:    "gpu",
		Kind:         capacity.CapacityBlock,
		InstanceType: "p5.48xlarge",
		Size:         4,
		Start:        hour,
	}
	if err := state.Dir(filepath.Join(dir, "state")).AppendSample(state.Sample{
		At:   hour,
		Paid: map[string]*state.Paid{"cr-1": &paid},
	}, nil, time.Minute); err != nil {
		t.Fatal(err)
	}

	for _, args := range [][]string{{"list"}, {"explain", "gpu"}, {"report"}} {
		if status, said := run(nil, args...); status != 0 {
			t.Fatalf("%s: exit status %d: %s", args, status, said)
		}
	}

	return run
}
