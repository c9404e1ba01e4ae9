package lifecycle

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// An instance is the node that it was launched for, or, where PCS launched it, the one at its
// address. Nodes of others are left alone.
func TestNodeOfInstance(t *testing.T) {
	w := newWorld(t, 1)
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{
		{Name: "pcs", Provider: capacity.ProviderPCS, Groups: []capacity.GroupSettings{{Name: "gpu"}}},
		{Name: "own", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "own"}}}}}
	p := pass{Sources: Sources{Settings: settings, Slurm: w.slurm}, cluster: &Cluster{Mark: "ml", Nodes: []Node{
		{Name: "gpu-a-1", Address: "10.0.0.1", Up: true}, {Name: "gpu-a-2", Address: "gpu-a-2", PoweredDown: true},
		{Name: "own-1", Address: "own-1", Up: true}, {Name: "other-1", Address: "10.0.0.9", Up: true}}}}
	launched := func(mark, node string) capacity.Instance {
		return capacity.Instance{PrivateIP: "10.0.0.7", Tags: map[string]string{capacity.TagCluster: mark, capacity.TagNode: node}}
	}
	for name, c := range map[string]struct {
		i    capacity.Instance
		want string
	}{
		"by its address":     {capacity.Instance{PrivateIP: "10.0.0.1"}, "gpu-a-1"},
		"by our tags":        {launched("ml", "own-1"), "own-1"},
		"of another cluster": {launched("ml2", "own-1"), ""},
		"of no node":         {capacity.Instance{PrivateIP: "10.0.0.3"}, ""},
		"of a site's node":   {capacity.Instance{PrivateIP: "10.0.0.9"}, ""},
		"node is off":        {launched("ml", "gpu-a-2"), ""},
		"without an address": {capacity.Instance{}, ""},
	} {
		if got := p.nodeOf(c.i); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
