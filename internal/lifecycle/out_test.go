package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Nodes that get no job are named by what keeps them and why.
func TestNodesOut(t *testing.T) {
	cluster := &Cluster{Nodes: []capacity.Node{
		{Name: "gpu-1", State: "IDLE+DRAIN", Reason: "bad cable"}, {Name: "gpu-2", State: "IDLE"}, {Name: "gpu-3", State: "IDLE+DRAIN", Reason: "bad cable"},
		{Name: "gpu-4", State: "DOWN", Reason: "Not responding"}, {Name: "cpu-1", State: "FAIL"}}}
	got := cluster.out([]string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"})
	want := []capacity.NodesOut{{Nodes: "gpu-[1,3]", Count: 2, State: "drained", Reason: "bad cable"}, {Nodes: "gpu-4", Count: 1, State: "down", Reason: "Not responding"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
