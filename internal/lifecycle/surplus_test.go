package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// setUpFor are compute node groups and the reservations that they were set up for.
type setUpFor map[string]string

func (s setUpFor) Held(context.Context, []string) (map[string]string, error) { return s, nil }

// A PCS compute node group that is larger than max_nodes runs jobs on as many nodes as that,
// whatever runs when max_nodes is lowered, and it is said. When it is raised, jobs get the others.
func TestMaxNodesOnPCS(t *testing.T) {
	w := newWorld(t, 1)
	w.slurm.boot = 0
	for w.counts["blocks"] == 0 || len(w.blocks) == 0 {
		w.buy("gpu", 4, 24*time.Hour)
		w.goTo(w.now().Add(30 * time.Minute))
		w.seeBlocks()
	}
	w.slurm.nodes = slices.DeleteFunc(w.slurm.nodes, func(n *modelNode) bool { // as many as the block
		return !strings.HasPrefix(n.Name, "gpu-a-") || n.Name > "gpu-a-4"
	})
	w.sources.Settings.Partitions = w.sources.Settings.Partitions[:1]
	part := &w.sources.Settings.Partitions[0]
	part.Provider, part.Groups[0].Slots = capacity.ProviderPCS, 0
	held := setUpFor{}
	w.sources.PCS = held
	var opens time.Time
	for id, b := range w.blocks {
		held["gpu-a"], opens = id, b.start
	}
	pass := func(maxNodes int) *capacity.Snapshot {
		t.Helper()
		part.Groups[0].MaxNodes = maxNodes
		snap, err := w.pass(false)
		if err != nil {
			t.Fatal(err)
		}
		w.goTo(w.now().Add(time.Minute))
		return snap
	}
	surplus := func() []string {
		for _, r := range w.slurm.reservations {
			if strings.HasPrefix(r.Name, "pcs-capacity-surplus-gpu-a.") {
				return r.Nodes
			}
		}
		return nil
	}
	const note = "slot gpu-a has 4 nodes, of which max_nodes lets jobs use 2"
	says := func(snap *capacity.Snapshot) bool {
		return slices.ContainsFunc(snap.All(), func(p capacity.Problem) bool {
			return p.Severity == capacity.Note && strings.HasPrefix(p.Sentence, note)
		})
	}
	submit := func() *modelJob {
		return w.slurm.submit(modelJob{Job: capacity.Job{Partition: "gpu", Batch: true, NumNodes: 1, TimeLimit: capacity.Minutes(60)}, work: time.Hour})
	}

	pass(4)
	w.goTo(opens.Add(time.Second))
	if snap := pass(4); surplus() != nil || says(snap) {
		t.Fatalf("all nodes may be used: %q, %+v", surplus(), snap.All())
	}
	var jobs []*modelJob
	for range 3 {
		jobs = append(jobs, submit())
	}
	w.goTo(w.now().Add(time.Minute))
	if snap := pass(2); !slices.Equal(surplus(), []string{"gpu-a-3", "gpu-a-4"}) || !says(snap) {
		t.Fatalf("closed are %q; %+v", surplus(), snap.All())
	}
	last := submit()
	w.goTo(w.now().Add(10 * time.Minute))
	if i := slices.IndexFunc(jobs, func(j *modelJob) bool { return j.State != "RUNNING" }); i >= 0 || last.State != "PENDING" {
		t.Errorf("three ran, one is submitted: %s, %s", jobs[i].State, last.State)
	}
	if snap := pass(4); surplus() != nil || says(snap) {
		t.Errorf("raised again: %q", surplus())
	}
	if last.State != "RUNNING" {
		t.Errorf("max_nodes is raised, and the job is %s", last.State)
	}
}

// Which nodes of four take no jobs, by max_nodes and the size of the block.
func TestSurplus(t *testing.T) {
	nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"}
	for name, c := range map[string]struct {
		provider   capacity.Provider
		most, size int
		lost       []string
		want       int
	}{
		"as many as there are":                           {"pcs", 4, 4, nil, 0},
		"max_nodes is smaller":                           {"pcs", 2, 4, nil, 2},
		"more than there are":                            {"pcs", 8, 8, nil, 0},
		"EC2 does not say how large the block is":        {"pcs", 2, 0, nil, 0},
		"which nodes have the instances, PCS alone says": {"pcs", 3, 2, nil, 0},
		"PCS replaces instances of failed hosts":         {"pcs", 3, 4, nodes[:1], 1},
		"launched by us, max_nodes is smaller":           {"ec2", 2, 4, nil, 2},
		"launched by us, the block is smaller":           {"ec2", 3, 1, nil, 3},
		"launched by us, a host failed":                  {"ec2", 4, 4, nodes[:1], 1},
	} {
		snap := oneSlot(c.provider, []string{"cr-0"}, capacity.Reservation{ID: "cr-0", Kind: capacity.ODCR, State: capacity.StateActive, Total: c.size})
		snap.Partitions[0].Groups[0].MaxNodes = c.most
		v := views(snap, noon)[0]
		v.lost = c.lost
		if got := v.surplus(nodes); len(got) != c.want {
			t.Errorf("%s: %q, want %d", name, got, c.want)
		}
	}
}
