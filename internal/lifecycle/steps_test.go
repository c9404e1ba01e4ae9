package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

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
		cluster := &Cluster{Config: slurm.Config{Version: slurm.Version{Major: map[bool]int{false: 22, true: 23}[shows], Minor: 5}}, Nodes: []capacity.Node{{Name: "gpu-1"}},
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
