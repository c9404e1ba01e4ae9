package capacity_test

import (
	"slices"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestActionsDiffer(t *testing.T) {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{
		{Name: "gpu", Provider: capacity.ProviderPCS, Groups: []capacity.GroupSettings{{Name: "gpu"}, {Name: "big"}}},
		{Name: "own", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "own"}}},
	}}
	group := func(name, actions string) capacity.Made {
		return capacity.Made{What: capacity.MadeNodeGroup, Name: name, Slot: name, Actions: actions}
	}
	for _, test := range []struct {
		name string
		made []capacity.Made
		want []string
	}{
		{"nothing is there", nil, nil},
		{"one slot", []capacity.Made{group("gpu-a", "home")}, nil},
		{"the same", []capacity.Made{group("gpu-a", "home"), group("gpu-b", "home")}, nil},
		{"others", []capacity.Made{group("gpu-a", "home"), group("gpu-b", "data"), group("big-a", ""), group("big-b", "home")}, []string{"gpu", "big"}},
		{"of another provider", []capacity.Made{group("own-a", "home"), group("own-b", "")}, nil},
		{"in no settings", []capacity.Made{group("old-a", "home"), group("old-b", "")}, nil},
		{"a queue of that name", []capacity.Made{group("gpu-a", "home"), {What: capacity.MadeQueue, Name: "gpu-b"}}, nil},
	} {
		if got := capacity.ActionsDiffer(test.made, settings); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	told := capacity.OfActions([]string{"big", "old"}, settings)
	if len(told) != 1 || told[0].Code != capacity.ActionsNotAlike || told[0].About.Partition != "gpu" ||
		told[0].Sentence != "nodes of big-a and of big-b run different lifecycle actions at their boot" ||
		told[0].Fix != "run `pcs-capacity setup --queue gpu --node-group big --reservation CR` for the block that is not open yet: it takes those of the slot that was changed last" {
		t.Errorf("%+v", told)
	}
}
