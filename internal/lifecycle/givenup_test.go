package lifecycle

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// lookAgain answers a second look at the cluster, and keeps what was powered down.
type lookAgain struct {
	*model
	nodes  []capacity.Node
	forced []string
}

func (l *lookAgain) Look(context.Context) (*Cluster, error) { return &Cluster{Nodes: l.nodes}, nil }

func (l *lookAgain) PowerDownForce(_ context.Context, nodes []string, _ string) error {
	l.forced = append(l.forced, nodes...)
	return nil
}

func TestJobsThatCompleteOnNodesThatAreOff(t *testing.T) {
	const off, up, on = nodeOff, nodeBoots, nodeIdle
	nodes := func(first, second string) []capacity.Node {
		return []capacity.Node{{Name: "gpu-a-1", State: first}, {Name: "gpu-a-2", State: second}}
	}
	for name, test := range map[string]struct {
		state       string
		provider    capacity.Provider
		read, again []capacity.Node
		want        string
	}{
		"both off":                      {"COMPLETING", capacity.ProviderEC2, nodes(off, off), nodes(off, off), "gpu-a-1 gpu-a-2"},
		"one still answers":             {"COMPLETING", capacity.ProviderEC2, nodes(on, off), nodes(on, off), "gpu-a-2"},
		"both answer":                   {"COMPLETING", capacity.ProviderEC2, nodes(on, on), nodes(off, off), ""},
		"another job has one meanwhile": {"COMPLETING", capacity.ProviderEC2, nodes(off, off), nodes(off, up), "gpu-a-1"},
		"boots":                         {"RUNNING", capacity.ProviderEC2, nodes(off, off), nodes(off, off), ""},
		"PCS powers them":               {"COMPLETING", capacity.ProviderPCS, nodes(off, off), nodes(off, off), ""},
	} {
		l := &lookAgain{model: newModel(time.Now(), map[string]int{"gpu-a": 2}), nodes: test.again}
		cluster := &Cluster{Nodes: test.read}
		cluster.assign(capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: test.provider, Groups: []capacity.GroupSettings{{Name: "gpu-a", MaxNodes: 2}}}}})
		p := passOf(Sources{}.at(l, nil), Seen{Cluster: cluster, Snap: &capacity.Snapshot{Partitions: []capacity.Partition{
			{Name: "gpu", Provider: test.provider, Groups: []capacity.NodeGroup{{Name: "gpu-a", Slots: []capacity.Slot{{Name: "gpu-a"}}}}}}}, Jobs: []capacity.Job{{Shown: "7", State: test.state, Nodes: []string{"gpu-a-1", "gpu-a-2"}}}})
		p.carryOut(t.Context(), completing(p.seen))
		if got := strings.Join(l.forced, " "); got != test.want {
			t.Errorf("%s: gave back %q, not %q", name, got, test.want)
		}
	}
}
