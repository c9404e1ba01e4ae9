package lifecycle

import (
	"slices"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Of nodes that were off with a job completing, those that another job has meanwhile are not given back; nor those that
// PCS powers.
func TestJobsThatCompleteOnNodesThatAreOff(t *testing.T) {
	nodes := func(first, second string) []capacity.Node {
		return []capacity.Node{{Name: "gpu-1", State: first}, {Name: "gpu-2", State: second}}
	}
	for provider, want := range map[capacity.Provider]int{capacity.ProviderEC2: 1, capacity.ProviderPCS: 0} {
		s := Seen{Snap: oneSlot(provider, nil), Cluster: &Cluster{slots: map[string][]string{"gpu": {"gpu-1", "gpu-2"}}, Nodes: nodes(nodeOff, nodeOff)},
			Jobs: []capacity.Job{{Shown: "7", State: "COMPLETING", Nodes: []string{"gpu-1", "gpu-2"}}}}
		found := completing(s)
		if len(found) != want {
			t.Fatalf("%s: %+v", provider, found)
		}
		for _, e := range found {
			if left := e.(ReturnNodes).off(nodes(nodeOff, nodeBoots)).Nodes; !slices.Equal(left, []string{"gpu-1"}) || !e.(ReturnNodes).StillOff {
				t.Errorf("given back: %q", left)
			}
		}
	}
}
