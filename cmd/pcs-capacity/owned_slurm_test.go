package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// TestFitDoesNotBuyWhatIsOwned: with its nodes up, a block has no free instance for EC2.
// Those that Slurm has idle are free all the same, for fit, list and timeline, and those
// with a job are not.
func TestFitDoesNotBuyWhatIsOwned(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	const block = "cr-0e2000000000000a1"
	_, err := r.aws.Launch(r.ctx, capacity.Launch{ClientToken: "four", LaunchTemplate: "lt-0e200000000000a01", InstanceType: "p5.48xlarge",
		SubnetID: "subnet-0e200000000000a01", ReservationID: block, Kind: capacity.CapacityBlock, Count: 4})
	if err != nil {
		t.Fatal(err)
	}
	cfg := &maybeConfig{r.cfg, true}
	r.scontrol("update", "nodename=gpu-[1-4]", "state=power_up")
	r.until("the nodes are up", func() bool { return *r.status()["gpu"].NodesUp == 4 })
	run := func(doc any, command func(*terminal.Terminal) error) (said string, err error) {
		t.Helper()
		var out, errs strings.Builder
		err = command(&terminal.Terminal{Out: &out, Err: &errs, Format: terminal.JSON})
		if err != nil && !errors.Is(err, errShown) {
			t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
		}
		if err := json.Unmarshal([]byte(out.String()), doc); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		return errs.String(), err
	}
	fit := func(count int) (fitRow, string) {
		t.Helper()
		var doc fitDocument
		said, _ := run(&doc, func(to *terminal.Terminal) error {
			return (&FitCmd{InstanceType: "p5.48xlarge", Count: count, length: length{Duration: span(time.Minute)}, NoCache: true}).Run(r.ctx, &Globals{}, to, cfg, r.aws)
		})
		for _, c := range doc.Candidates {
			if c.ID == block {
				return c, said
			}
		}
		t.Fatalf("%s is not there: %+v", block, doc)
		return fitRow{}, ""
	}
	list := func() listRow {
		t.Helper()
		var doc struct {
			Reservations []listRow `json:"reservations"`
		}
		run(&doc, func(to *terminal.Terminal) error {
			return (&ListCmd{IDs: []string{block}}).Run(r.ctx, &Globals{}, to, cfg, r.aws)
		})
		return doc.Reservations[0]
	}

	if row, said := fit(4); !row.Fits || row.NodesIdle == nil || *row.NodesIdle != 4 {
		t.Errorf("4 idle nodes are not taken to be free: %+v\n%s", row, said)
	}
	if row := list(); row.Partition != "gpu" || row.Slot != "gpu" || row.Available != 0 || row.NodesIdle == nil || *row.NodesIdle != 4 {
		t.Errorf("list: %+v", row)
	}
	var drawn timelineDocument
	run(&drawn, func(to *terminal.Terminal) error { return (&TimelineCmd{}).Run(r.ctx, to, cfg, r.aws) })
	if b := drawn.Lanes[0].Blocks[0]; b.ID != block || b.Slot != "gpu" || b.NodesIdle == nil || *b.NodesIdle != 4 {
		t.Errorf("timeline: %+v", b)
	}

	r.running(r.submit("-C", "gpu", "-w", "gpu-2", "-t", "1"))
	if row, _ := fit(4); row.Fits || row.Message != "3 of its 4 instances are free, idle nodes included, 1 fewer than asked" {
		t.Errorf("with a job on one of them: %+v", row)
	}
	if row, _ := fit(3); !row.Fits {
		t.Errorf("3 are still idle: %+v", row)
	}
	if row := list(); row.NodesIdle == nil || *row.NodesIdle != 3 {
		t.Errorf("list: %+v", row)
	}

	// Without Slurm it works too, and says what it cannot count.
	t.Setenv("SLURM_CONF", "/nonexistent/slurm.conf")
	row, said := fit(5)
	if row.Fits || row.NodesIdle != nil || !strings.Contains(said, "Idle nodes of the cluster could not be counted: listing nodes: ") {
		t.Errorf("without Slurm: %+v\n%s", row, said)
	}
}
