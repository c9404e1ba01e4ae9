package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// TestCallsSideBySide holds how often setup and teardown wait for an answer of AWS, one after the
// other: it is their time on a real network. Each call of the simulator takes a tenth of a second.
func TestCallsSideBySide(t *testing.T) {
	if testing.Short() {
		t.Skip("each call takes its time")
	}
	sim, _, run := queueWorld(t, "gpu-a-[1-2]")
	const latency = 100 * time.Millisecond
	if _, err := sim.AddFault(awssim.Fault{Effect: awssim.Delay, Latency: awssim.Duration(latency)}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		most int
	}{
		{"dry run", append(slices.Clone(setupOnHost), "--dry-run"), 8},
		{"setup", setupOnHost, 32},
		{"again", setupOnHost, 8},
		{"teardown, dry run", []string{"teardown", "--queue", "gpu", "--dry-run"}, 8},
	} {
		stop := sim.RecordRequests()
		if err := run(c.args...); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		all := stop()
		chain := awssim.Sequence(all)
		t.Logf("%s: %d calls, %d one after the other", c.name, len(all), len(chain))
		if len(chain) > c.most {
			t.Errorf("%s: %d of %d calls one after the other, want %d or fewer: %s", c.name, len(chain), len(all), c.most, operations(chain))
		}
	}
}

// TestPCSIsHardlyWaitedFor runs a whole setup and teardown with a PCS that takes its time: how late they notice that PCS
// is done, all together, is at most a fifth of that time and a second. What the machine takes is not counted.
func TestPCSIsHardlyWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("PCS takes its time")
	}
	t.Parallel()
	scenario, err := awssim.LoadScenario(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	const takes = time.Second / 2
	scenario.PCSDelay = awssim.Duration(takes)
	sim, err := awssim.New(scenario, awssim.NewClock(simStart, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	_, run := queueHost(t, sim, "gpu-a-[1-2]")
	for _, args := range [][]string{setupOnHost, {"teardown", "--queue", "gpu"}} {
		stop := sim.RecordRequests()
		began := time.Now()
		if err := run(args...); err != nil {
			t.Fatal(err)
		}
		whole := time.Since(began)
		all := stop()
		var work, late time.Duration
		for i, change := range all {
			if change.Service != "pcs" || !slices.Contains([]string{"Create", "Update", "Delete"}, change.Operation[:6]) {
				continue
			}
			done := change.Ended.Add(takes)
			next := slices.IndexFunc(all[i+1:], func(r awssim.Request) bool {
				return r.Service == "pcs" && strings.HasPrefix(r.Operation, "Get") && r.Began.After(done)
			})
			if next < 0 {
				t.Fatalf("%s: nobody waits for %s", args[0], change.Operation)
			}
			work, late = work+takes, late+all[i+1+next].Began.Sub(done)
		}
		t.Logf("%s: %s, of which PCS works for %s; noticed %s late", args[0], whole, work, late)
		if work != 2*takes || late > work/5+time.Second {
			t.Errorf("%s: PCS works for %s, which is noticed %s late: %s", args[0], work, late, operations(all))
		}
	}
}

func operations(all []awssim.Request) string {
	var names []string
	for _, r := range all {
		names = append(names, r.Operation)
	}
	return strings.Join(names, " ")
}
