package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// TestRareCallsSideBySide holds how often setup and teardown wait for an answer of AWS, one after the
// other: it is their time on a real network. Each call of the simulator takes a tenth of a second.
func TestRareCallsSideBySide(t *testing.T) {
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

func operations(all []awssim.Request) string {
	var names []string
	for _, r := range all {
		names = append(names, r.Operation)
	}
	return strings.Join(names, " ")
}
