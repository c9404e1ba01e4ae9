package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// R5: what a killed hook left is ended by sync; R9: nothing else is.
func TestLong_R5_R9_SyncEndsOrphans(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	clock := awssim.MachineClock()
	r := newRehearsal(t, clock)

	id, err := state.EnsureClusterID(filepath.Join(r.cluster.Dir(), "state"), "lab")
	if err != nil {
		t.Fatal(err)
	}

	lab := capacity.ClusterMark("lab", id)
	launched := 0
	// launch starts an instance in the block that is open for long, or on demand.
	launch := func(reservation, cluster, node string) capacity.Instance {
		t.Helper()

		kind := capacity.OnDemand
		if reservation != "" {
			kind = capacity.CapacityBlock
		}

		launched++

		tags := map[string]string{capacity.TagNodes: node, "Name": "x"}
		if cluster != "" {
			tags[capacity.TagCluster] = cluster
		}

		all, err := r.aws.Launch(
			r.ctx,
			capacity.Launch{
				ClientToken:    strings.Repeat("t", launched),
				LaunchTemplate: "lt-0e200000000000a01",
				InstanceType:   "p5.48xlarge",
				SubnetID:       "subnet-0e200000000000a01",
				ReservationID:  reservation,
				Kind:           kind,
				Count:          1,
				Tags:           tags,
			},
		)
		if err != nil {
			t.Fatal(err)
		}

		return all[0]
	}
	up := func(node string, i capacity.Instance) {
		t.Helper()
		r.scontrol("update", "nodename="+node, "state=POWER_UP")

		if _, err := r.cluster.WaitNode(r.ctx, node, func(s string) bool {
			return !strings.Contains(s, "POWER")
		}); err != nil {
			t.Fatal(err)
		}

		r.scontrol("update", "nodename="+node, "nodeaddr="+i.PrivateIP)
	}

	const block = "cr-0e2000000000000b2"

	mine := launch(block, lab, "gpu-1")
	older := launch(block, lab, "gpu-1")

	up("gpu-1", mine)

	off := launch(block, lab, "gpu-4")
	unknown := launch("", lab, "gpu-99")
	soonUp := launch("", lab, "gpu-2")

	r.bootDelay.Store(int64(time.Hour))

	booting := launch("", lab, "gpu-3")

	r.scontrol("update", "nodename=gpu-3", "state=POWER_UP")

	if _, err := r.cluster.WaitNode(r.ctx, "gpu-3", func(s string) bool {
		return strings.Contains(s, "POWERING_UP")
	}); err != nil {
		t.Fatal(err)
	}

	r.bootDelay.Store(0)

	others := launch("", "lab/0123456789abcdef", "gpu-4")
	unmarked := launch("", "lab", "gpu-4") // by an older version
	nobodys := launch("", "", "gpu-4")

	running := func() []string {
		all, err := r.aws.FindInstances(r.ctx, capacity.InstanceQuery{Tags: map[string][]string{"Name": {"x"}}})
		if err != nil {
			t.Fatal(err)
		}

		var ids []string
		for _, i := range all {
			if !i.Ended() {
				ids = append(ids, i.ID)
			}
		}

		slices.Sort(ids)

		return ids
	}
	pass := func() (*capacity.Snapshot, []string) {
		t.Helper()

		snap, report, err := lifecycle.Pass(r.ctx, sources.New(r.cfg, r.aws, nil))
		if err != nil {
			t.Fatal(err)
		}

		var ended []string
		for _, d := range report.Done {
			if d.Do == "end-instance" {
				ended = append(ended, d.Message)
			}
		}

		return snap, ended
	}
	seen := func(snap *capacity.Snapshot) []string {
		var ids []string
		for _, o := range snap.Orphans {
			ids = append(ids, o.Instance)
		}

		return ids
	}
	ids := func(is ...capacity.Instance) []string {
		var ids []string
		for _, i := range is {
			ids = append(ids, i.ID)
		}

		slices.Sort(ids)

		return ids
	}

	if snap, ended := pass(); len(seen(snap)) != 0 || len(ended) != 0 {
		t.Fatalf("what was launched this minute: %v, ended %v", snap.Orphans, ended)
	}

	clock.Advance(6 * time.Minute)

	snap, ended := pass()
	if got, want := seen(snap), ids(older, off, unknown, soonUp); !slices.Equal(got, want) || len(ended) != 0 {
		t.Fatalf("seen once: %v, want %v; ended %v", snap.Orphans, want, ended)
	}

	if text := strings.Join(append(snap.Texts(capacity.Admin), snap.Texts(capacity.Note)...), "\n"); !strings.Contains(
		text,
		"instance "+off.ID+" (gpu-4) uses capacity in "+block+": Slurm has powered the node down",
	) ||
		!strings.Contains(text, "instance "+unknown.ID+" (gpu-99) runs on demand: Slurm has no such node") ||
		!strings.Contains(
			text,
			"instance "+older.ID+" (gpu-1) uses capacity in "+block+": the node runs on another instance",
		) ||
		!strings.Contains(
			text,
			"instance "+others.ID+
				" (gpu-4) is left alone: its mark is lab/0123456789abcdef, but this cluster's is "+lab,
		) ||
		!strings.Contains(
			text,
			"instance "+unmarked.ID+" (gpu-4) is left alone: its mark is lab, but this cluster's is "+lab,
		) {
		t.Errorf("problems:\n%s", text)
	}

	if _, ended := pass(); len(ended) != 0 {
		t.Fatalf("at once: %v", ended)
	}
	// Between two passes one of the nodes comes up as its instance.
	up("gpu-2", soonUp)
	// A pass that finds no snapshot begins anew.
	if err := os.Remove(state.Dir(r.cfg.StateDir).SnapshotPath()); err != nil {
		t.Fatal(err)
	}

	clock.Advance(time.Minute)

	if _, ended := pass(); len(ended) != 0 {
		t.Fatalf("with a snapshot that was deleted: %v", ended)
	}

	clock.Advance(time.Minute)

	snap, ended = pass()
	if got, want := running(), ids(mine, soonUp, booting, others, unmarked, nobodys); len(ended) != 3 ||
		len(snap.Orphans) != 0 ||
		!slices.Equal(got, want) {
		t.Errorf("ended %q, seen %v; run %v, want %v", ended, snap.Orphans, got, want)
	}

	if _, ended := pass(); len(ended) != 0 {
		t.Errorf("again: %v", ended)
	}
}
