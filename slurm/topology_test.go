package slurm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewTree(t *testing.T) {
	for name, c := range map[string]struct {
		leaves []Leaf
		want   string
	}{
		"none": {},
		"one reservation": {
			[]Leaf{{"gpu-1", []string{"nn-1", "nn-2", "nn-3"}}, {"gpu-2", []string{"nn-1", "nn-2", "nn-3"}}},
			"SwitchName=nn-3 Nodes=gpu-[1-2]\nSwitchName=nn-1 Switches=nn-2\nSwitchName=nn-2 Switches=nn-3\n",
		},
		"two that meet in the middle": {
			[]Leaf{{"a-1", []string{"nn-1", "nn-2", "nn-3"}}, {"b-1", []string{"nn-1", "nn-2", "nn-4"}}},
			"SwitchName=nn-3 Nodes=a-1\nSwitchName=nn-4 Nodes=b-1\nSwitchName=nn-1 " +
				"Switches=nn-2\nSwitchName=nn-2 Switches=nn-3,nn-4\n",
		},
		"two that meet nowhere, and one that is not known": {
			[]Leaf{{"a-1", []string{"nn-1", "nn-3"}}, {"b-1", []string{"nn-2", "nn-4"}}, {"c-1", nil}},
			"SwitchName=nn-3 Nodes=a-1\nSwitchName=nn-4 Nodes=b-1\nSwitchName=pcs-capacity-unknown Nodes=c-1\n" +
				"SwitchName=nn-1 Switches=nn-3\nSwitchName=nn-2 Switches=nn-4\nSwitchName=pcs-capacity-root " +
				"Switches=nn-1,nn-2,pcs-capacity-unknown\n",
		},
		"one above another": {
			[]Leaf{{"a-1", []string{"nn-1", "nn-2"}}, {"b-1", []string{"nn-1", "nn-2", "nn-3"}}},
			"SwitchName=nn-2-nodes Nodes=a-1\nSwitchName=nn-3 Nodes=b-1\nSwitchName=nn-1 " +
				"Switches=nn-2\nSwitchName=nn-2 Switches=nn-2-nodes,nn-3\n",
		},
		"two behind one switch": {
			[]Leaf{{"a-1", []string{"nn-1"}}, {"b-1", []string{"nn-1"}}},
			"SwitchName=nn-1 Nodes=a-1,b-1\n",
		},
	} {
		if diff := cmp.Diff(c.want, Topology{Tree: NewTree(c.leaves)}.Conf()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
