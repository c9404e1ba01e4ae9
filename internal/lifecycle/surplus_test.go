package lifecycle

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

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
