package pcs_test

import (
	"maps"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// All slots of a cluster are read in one go, whatever their number: one list, and the tags of those that are asked for.
func TestSlots(t *testing.T) {
	a := newAccount(t)
	for _, name := range []string{"gpu-a", "gpu-b", "other-a"} {
		a.addGroup(name)
	}
	lists, tags, all := a.calls("ListComputeNodeGroups"), a.calls("ListTagsForResource"), a.calls("*")
	slots, err := a.provisioner.PCS.Slots(t.Context(), "ml", []string{"gpu-a", "gpu-b", "other-a", "other-b", "compute"})
	want := map[string]string{"compute": "", "gpu-a": openBlock, "gpu-b": openBlock, "other-a": openBlock}
	if err != nil || !maps.Equal(slots, want) {
		t.Errorf("%+v, %v", slots, err)
	}
	if n := a.calls("ListComputeNodeGroups") - lists; n != 1 {
		t.Errorf("%d lists", n)
	}
	if n := a.calls("ListTagsForResource") - tags; n != 4 {
		t.Errorf("the tags of %d groups were read", n)
	}
	if n := a.calls("*") - all; n != 6 { // and GetCluster
		t.Errorf("%d calls", n)
	}
}

// A mark of another cluster is not ours (R9).
func TestR9_SlotsOfAnotherMark(t *testing.T) {
	a := newAccount(t)
	a.addGroup("gpu-a")
	if err := a.provisioner.PCS.Tag(t.Context(), a.group("gpu-a").ARN, map[string]string{capacity.TagCluster: "other"}); err != nil {
		t.Fatal(err)
	}
	slots, err := a.provisioner.PCS.Slots(t.Context(), "ml", []string{"gpu-a"})
	if err != nil || !maps.Equal(slots, map[string]string{"gpu-a": ""}) {
		t.Errorf("%+v, %v", slots, err)
	}
}
