package power_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// R9: two clusters of one account that have the same ClusterName, jobs and nodes.
func TestR9_TwinClusters(t *testing.T) {
	a := startPower(t, nil)
	b := startPowerIn(t, a.sim, powerConfig, nil)
	// The first two hooks run at once and make one id.
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := a.run("pcs-capacity-suspend", "gpu-4"); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	id, err := state.ClusterID(filepath.Join(a.cluster.Dir(), "state"), "lab")
	if mark, markErr := a.state.Mark(); err != nil || markErr != nil || mark != capacity.ClusterMark("lab", id) {
		t.Fatalf("id %q, %v; mark %q, %v", id, err, mark, markErr)
	}
	a.wait(a.submit("-p", "gpu", "-w", "gpu-1", "-t", "5"), "COMPLETED")
	ofA := a.instances()["gpu-1"]

	mark := capacity.ClusterMark("lab", id)
	if ofA.Tags[capacity.TagCluster] != mark {
		t.Fatalf("tags %v, want the mark %s", ofA.Tags, mark)
	}

	// For b's Slurm gpu-1 is powered down.
	passes := func(want string) {
		t.Helper()
		var said string
		for range 3 {
			a.sim.Clock().Advance(6 * time.Minute)
			for _, p := range []*power{a, b} {
				out, err := p.sync()
				if err != nil {
					t.Fatal(err, out)
				}
				if p == b {
					said = out
				}
			}
		}
		if !a.runs(ofA.ID) {
			t.Fatal("the twin's sync ended the instance of the other")
		}
		if want := "instance " + ofA.ID + " (gpu-1) has the mark " + mark + ", " + want; !strings.Contains(said, want) {
			t.Errorf("the twin does not say %q:\n%s", want, said)
		}
	}
	passes("this cluster's is not known, so nothing here ends it: no power-up has made an id in " + filepath.Join(b.cluster.Dir(), "state"))

	if err := b.run("pcs-capacity-suspend", "gpu-1"); err != nil || !a.runs(ofA.ID) {
		t.Fatal("the twin's suspend ended the instance of the other", err)
	}

	// The same job of the other is another launch, and what runs is not in its way, also
	// when its state folder is a copy.
	if err := b.state.KeepMark(mark); err != nil {
		t.Fatal(err)
	}
	b.wait(b.submit("-p", "gpu", "-w", "gpu-1", "-t", "5"), "COMPLETED")
	if n := a.launches(); n != 2 || !a.runs(ofA.ID) {
		t.Fatalf("%d launches, one of each cluster, and the first is to run on", n)
	}
	ofB := slices.DeleteFunc(a.sim.Instances(region), func(i awssim.Instance) bool { return i.ID == ofA.ID })[0]
	if kept, err := b.state.Mark(); err != nil || kept == mark || ofB.Tags[capacity.TagCluster] != kept {
		t.Fatalf("launched with %v, and %q is kept, %v", ofB.Tags, kept, err)
	}
	passes("this cluster's is " + ofB.Tags[capacity.TagCluster] + "; nothing here ends it")
	if !b.runs(ofB.ID) {
		t.Fatal("a pass ended the twin's own instance")
	}

	// A state folder that is deleted does not make another cluster of it.
	if err := os.RemoveAll(filepath.Join(a.dir, "state")); err != nil {
		t.Fatal(err)
	}
	a.scontrol("update", "nodename=gpu-1", "state=POWER_DOWN", "reason=test")
	a.until("its own suspend ends it", func() bool { return !a.runs(ofA.ID) })
	if kept, err := a.state.Mark(); err != nil || kept != mark {
		t.Errorf("mark %q, %v; want %q as before", kept, err, mark)
	}
}
