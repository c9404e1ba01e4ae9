//go:build !race

// Hundreds of runs of programs, each with a deadline: under the race detector they start so
// slowly that the deadline comes before the fault. `make test` runs them without.

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// faulted is a command or a hook that is run through faults.
type faulted struct {
	name string
	// start makes a world to run it in.
	start func(t *testing.T) faultedWorld
	// workers are how many worlds are used at once; each may have a Slurm.
	workers int
	// more are further faults of a call.
	more func(call string) []fault
	// sample are the cases that `make test` runs: parts of "CALL/FAULT". They have all that
	// once fell.
	sample []string
}

// faultedWorld is an AWS and, for most, a Slurm.
type faultedWorld interface {
	// gate is what the program calls through.
	gate() *gate
	// reset makes everything as it is before the program runs.
	reset(t *testing.T)
	// run runs the program once, which the fault may keep from doing its work, and returns
	// what it said.
	run(t *testing.T) string
	// settle runs it again, or sync, as often as it should take; what cannot be is an error of
	// the test. It returns what was said.
	settle(t *testing.T) string
	// seen is what there is then: one line a thing.
	seen(t *testing.T) []string
}

// faultedCommands are all that call AWS or Slurm and change something. Not here: the filter
// and the Prolog, which call neither (R1), and `sync --watch`, whose every kill is in
// TestR5_SyncKilledAtEachCall.
var faultedCommands = slices.Concat(faultedPurchases, faultedOnPCS, faultedOnEC2, faultedHolds, faultedPower)

// faultsFile is where `make faults` wants its table, and then every case is run.
var faultsFile = os.Getenv("PCS_CAPACITY_FAULTS")

// TestR5_Faults runs each command and hook through each fault at each of its calls, to AWS and
// to Slurm, and then lets it come to rest: it is run again, or sync makes a pass. What is there then is what is there
// after a run
// without trouble: nothing is lost, nothing is left over, and what is not ours is as it was.
func TestR5_Faults(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Slurm clusters")
	}
	t.Parallel()
	for _, c := range faultedCommands {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

type faultCase struct {
	call string
	fault
}

func (c faultCase) String() string { return c.call + "/" + c.name }

func (c faulted) test(t *testing.T) {
	first := c.start(t)
	first.reset(t)
	first.gate().arm(t, nil, "")
	first.run(t)
	calls := first.gate().made(t)
	said := first.settle(t)
	want := first.seen(t)
	if len(calls) == 0 {
		t.Fatalf("it calls nobody: %s", said)
	}
	var cases []faultCase
	for _, call := range calls {
		faults := callFaults
		if c.more != nil {
			faults = slices.Concat(faults, c.more(call))
		}
		for _, f := range faults {
			one := faultCase{call, f}
			if faultsFile != "" || slices.ContainsFunc(c.sample, func(part string) bool { return strings.Contains(one.String(), part) }) {
				cases = append(cases, one)
			}
		}
	}
	for _, part := range c.sample {
		if !slices.ContainsFunc(cases, func(one faultCase) bool { return strings.Contains(one.String(), part) }) {
			t.Errorf("no case of the sample is %q; the calls are\n%s", part, strings.Join(calls, "\n"))
		}
	}
	queue := make(chan faultCase)
	go func() {
		defer close(queue)
		for _, one := range cases {
			queue <- one
		}
	}()
	var ran, failed, missed atomic.Int32
	var working sync.WaitGroup
	for worker := range max(1, min(c.workers, len(cases))) {
		working.Go(func() {
			w := first
			if worker > 0 {
				w = c.start(t)
			}
			for one := range queue {
				ok := t.Run(one.String(), func(t *testing.T) {
					if !runFault(t, w, one, want) {
						missed.Add(1)
					}
				})
				if ran.Add(1); !ok {
					failed.Add(1)
				}
			}
		})
	}
	working.Wait()
	line := fmt.Sprintf("%-28s %3d calls  %4d cases  %3d not met again  %3d failed\n", c.name, len(calls), ran.Load(), missed.Load(), failed.Load())
	t.Log(line)
	if faultsFile == "" {
		return
	}
	table, err := os.OpenFile(faultsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = table.WriteString(line)
		_ = table.Close()
	}
	if err != nil {
		t.Error(err)
	}
}

// runFault reports whether the fault was met.
func runFault(t *testing.T, w faultedWorld, one faultCase, want []string) bool {
	w.reset(t)
	w.gate().arm(t, &one.fault, one.call)
	first := w.run(t)
	struck := w.gate().struck()
	w.gate().arm(t, nil, "")
	then := w.settle(t)
	if diff := cmp.Diff(want, w.seen(t)); diff != "" {
		t.Errorf("what is there (-undisturbed +after the fault):\n%s", diff)
	}
	if t.Failed() {
		t.Logf("the first run said:\n%s\nthen:\n%s", first, then)
	}
	return struck
}
