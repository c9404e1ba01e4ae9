package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// TestSecondQueueWhileSyncWatches: on PCS, `setup` of another queue while `sync --watch`
// runs. Its fence stays, and its users are filtered; self-managed Slurm is in
// TestWatchFollowsTheSettings.
func TestSecondQueueWhileSyncWatches(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	var dir state.Dir
	d := newTornDown(t, func(c *slurmlab.Config) {
		dir = state.Dir(filepath.Join(c.Dir, "capacity"))
		c.CloudGroups = append(c.CloudGroups, slurmlab.NodeGroup{Prefix: "more-a-", Count: 2, CPUs: 1, Features: "more-a", Partition: "more", AlwaysOn: true})
	})
	settings, err := os.OpenFile(d.globals.Config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settings.WriteString("[timing]\npoll = \"1s\"\n"); err != nil {
		t.Fatal(err)
	}
	settings.Close()
	const firstBlock, secondBlock = "cr-0e2000000000000a1", "cr-0e2000000000000a2"
	two := 2
	if out, err := d.run(&SetupCmd{Reservation: firstBlock, Queue: "gpu", NodeGroup: "gpu", Like: "compute", MaxNodes: &two, Filter: d.filter}); err != nil {
		t.Fatal(out, err)
	}

	ctx, stop := context.WithCancel(d.ctx)
	stopped := make(chan error)
	follower := lifecycle.Follower{Path: d.globals.Config}
	go func() {
		stopped <- lifecycle.Watch{Sources: follower.Sources, Say: func(line string) { t.Log(line) }}.Run(ctx)
	}()
	defer func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}()
	passes := func(n int) {
		t.Helper()
		for range n {
			snap, err := dir.ReadSnapshot()
			if err != nil {
				t.Fatal(err)
			}
			d.until("another pass is made", func() bool {
				next, err := dir.ReadSnapshot()
				return err == nil && next.TakenAt.After(snap.TakenAt)
			})
		}
	}
	passes(2)
	// Past the end of both blocks.
	long := []string{"--hold", "-p", "more", "-t", "300-0"}
	if _, err := d.cluster.Submit(d.ctx, "true", long...); err != nil {
		t.Fatalf("before the setup, which must not be filtered: %v", err)
	}

	if out, err := d.run(&SetupCmd{Reservation: secondBlock, Queue: "more", NodeGroup: "more", Like: "compute", MaxNodes: &two, Filter: d.filter}); err != nil {
		t.Fatal(out, err)
	}
	passes(10)
	if got := fmt.Sprint(d.slurmReservations()); got != "[pcs-capacity-fence-gpu-a pcs-capacity-fence-more-a]" {
		t.Errorf("reservations %s", got)
	}
	if out, err := d.cluster.Submit(d.ctx, "true", long...); err == nil || !strings.Contains(err.Error(), "pcs-capacity: ") || !strings.Contains(err.Error(), secondBlock) {
		t.Errorf("a job past the fence of the second queue: %v: %s", err, out)
	}
	if out, err := d.cluster.Submit(d.ctx, "true", "--hold", "-p", "more", "-t", "30"); err != nil {
		t.Errorf("a job that fits: %s", out)
	}
}
