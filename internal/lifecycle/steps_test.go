package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What a pass says about a step.
func TestStepsAreDescribed(t *testing.T) {
	nodes := []string{"gpu-1", "gpu-2"}
	open, next := at("23h20m"), at("30h")
	for name, c := range map[string]struct {
		do, kind string
		r        capacity.SlurmReservation
		code     string
		says     string
	}{
		"a fence":          {"create", "fence", reservation("pcs-capacity-fence-gpu", nodes, open, noon.AddDate(1, 0, 0)), "create-fence", "slot gpu: placed the fence pcs-capacity-fence-gpu, no job runs on gpu-[1-2] after 2026-11-21 11:20 UTC"},
		"until the next":   {"update", "fence", reservation("pcs-capacity-fence-gpu", nodes, open, next), "update-fence", "slot gpu: moved the fence pcs-capacity-fence-gpu, no job runs on gpu-[1-2] after 2026-11-21 11:20 UTC until 2026-11-21 18:00 UTC, when the next block opens"},
		"a fence replaced": {"replace", "fence", reservation("pcs-capacity-fence-gpu", nodes, open, noon.AddDate(1, 0, 0)), "replace-fence", "slot gpu: moved the fence pcs-capacity-fence-gpu, no job runs on gpu-[1-2] after 2026-11-21 11:20 UTC"},
		"a fence removed":  {"delete", "fence", reservation("pcs-capacity-fence-gpu", nodes, open, next), "delete-fence", "slot gpu: removed the fence pcs-capacity-fence-gpu, no reservation needs it"},
		"a wait":           {"create", "wait", reservation("pcs-capacity-wait-gpu", nodes, noon, next), "create-wait", "slot gpu: placed the wait pcs-capacity-wait-gpu, no job starts on gpu-[1-2] before 2026-11-21 18:00 UTC"},
		"a wait removed":   {"delete", "wait", reservation("pcs-capacity-wait-gpu", nodes, noon, next), "delete-wait", "slot gpu: removed the wait pcs-capacity-wait-gpu, nothing holds jobs back from gpu-[1-2] any more"},
		"surplus nodes":    {"create", "surplus", reservation("pcs-capacity-surplus-gpu", nodes, noon, noon.AddDate(1, 0, 0)), "create-surplus", "slot gpu: placed pcs-capacity-surplus-gpu, no job starts on gpu-[1-2]: there are no instances for more nodes, or max_nodes allows no more"},
		"surplus removed":  {"delete", "surplus", reservation("pcs-capacity-surplus-gpu", nodes, noon, noon.AddDate(1, 0, 0)), "delete-surplus", "slot gpu: removed pcs-capacity-surplus-gpu, jobs get gpu-[1-2] again"},
	} {
		t.Run(name, func(t *testing.T) {
			e := ChangeGuard{Do: c.do, R: c.r.ByClock(-time.Hour), Slot: "gpu", ToAWS: time.Hour}
			if got := e.Sentence(capacity.Did); got != c.says || e.Code() != c.code {
				t.Errorf("%s: %q, want %s: %q", e.Code(), got, c.code, c.says)
			}
		})
	}
	if got := (Done{Message: "moved", Error: "timeout"}).String(); got != "moved: timeout" {
		t.Errorf("a step that failed: %q", got)
	}
	if got := (Done{Message: "moved"}).String(); got != "moved" {
		t.Errorf("a step: %q", got)
	}
}

// The nodes of a slot are those that Slurm shows, and those that only its partitions name;
// in the order of their numbers, each once.
func TestNodesOfASlot(t *testing.T) {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu"}}}}}
	c := &Cluster{
		Nodes:      []capacity.Node{{Name: "gpu-10", Features: []string{"gpu"}, GPUs: 4}, {Name: "gpu-9", Features: []string{"x", "gpu"}, GPUs: 8}, {Name: "login"}, {Name: "old-1"}},
		Partitions: []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-9", "gpu-2"}}},
	}
	c.assign(settings)
	if got := c.SlotNodes("gpu"); !slices.Equal(got, []string{"gpu-2", "gpu-9", "gpu-10"}) {
		t.Errorf("gpu: %v", got)
	}
	if got := c.SlotNodes("old"); !slices.Equal(got, []string{"old-1"}) {
		t.Errorf("a slot that the settings had before: %v", got)
	}
	if got := c.feature("gpu", c.SlotNodes("gpu")); got != "gpu" {
		t.Errorf("every node that is shown has the feature: %q", got)
	}
	if got := c.feature("gpu", []string{"gpu-2"}); got != "" {
		t.Errorf("no node is shown: %q", got)
	}
	c.Nodes[0].Features = nil
	if got := c.feature("gpu", c.SlotNodes("gpu")); got != "" {
		t.Errorf("a node lacks the feature: %q", got)
	}
	if got, _ := c.parts(c.SlotNodes("gpu")); got != 8 {
		t.Errorf("%d GPUs a node", got)
	}
	if got, _ := c.parts([]string{"gpu-2", "login"}); got != 0 {
		t.Errorf("%d GPUs a node", got)
	}
}

// Nodes of a partition that Slurm no longer shows are named: a note, and after another pass a
// problem. Where Slurm hides what is powered down, nothing is known.
func TestNodesThatAreGone(t *testing.T) {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", Slots: 1}}}}}
	look := func(shows bool, old *capacity.Snapshot) []capacity.Problem {
		cluster := &Cluster{ShowsPoweredDown: shows, Nodes: []capacity.Node{{Name: "gpu-1"}},
			Partitions: []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-1", "gpu-2", "gpu-3"}}, {Name: "cpu", Nodes: []string{"cpu-1"}}}}
		cluster.assign(settings)
		p := passOf(Sources{Settings: settings}, Seen{Cluster: cluster, Old: old, Snap: &capacity.Snapshot{}})
		p.sayGone("gpu", "gpu")
		return p.seen.Snap.All()
	}
	if said := look(false, nil); len(said) > 0 {
		t.Errorf("Slurm hides nodes: %v", said)
	}
	first := look(true, nil)
	if len(first) != 1 || first[0].Severity != capacity.Note || !strings.HasPrefix(first[0].Sentence, "Slurm no longer shows nodes gpu-[2-3] of partition gpu, ") {
		t.Fatalf("first: %v", first)
	}
	old := &capacity.Snapshot{}
	old.Add(first...)
	again := look(true, old)
	if len(again) != 1 || again[0].Severity != capacity.Admin {
		t.Errorf("again: %v", again)
	}
}
