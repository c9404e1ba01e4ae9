package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Nodes that run are where EC2 says; the others fill what is left.
func TestDivideNodes(t *testing.T) {
	nodes := []string{"n1", "n2", "n3", "n4", "n5"}
	for name, c := range map[string]struct {
		in   map[string]string
		want map[string][]string
	}{
		"none runs": {nil, map[string][]string{"a": {"n1", "n2", "n3"}, "b": {"n4", "n5"}}},
		"all run": {
			map[string]string{"n1": "b", "n2": "a", "n3": "b", "n4": "a", "n5": "b"},
			map[string][]string{"a": {"n2", "n4"}, "b": {"n1", "n3", "n5"}},
		},
		"two run": {
			map[string]string{"n1": "b", "n5": "a"},
			map[string][]string{"a": {"n5", "n2", "n3"}, "b": {"n1", "n4"}},
		},
		"more than its share": {
			map[string]string{"n1": "b", "n2": "b", "n3": "b", "n4": "b"},
			map[string][]string{"a": {"n5"}, "b": {"n1", "n2", "n3", "n4"}},
		},
		"of another block": {map[string]string{"n1": "former"}, map[string][]string{"a": {"n1", "n2", "n3"}, "b": {"n4", "n5"}}},
	} {
		if diff := cmp.Diff(c.want, DivideNodes(nodes, []string{"a", "b"}, c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
