package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A hostlist that no tag can hold is in several, in order.
func TestHostlistInSeveralTags(t *testing.T) {
	for want, tags := range map[string]map[string]string{
		"":                               {"Name": "x"},
		"gpu-[1-2]":                      {TagNodes: "gpu-[1-2]"},
		"gpu-[1-2],gpu-9,other-[1-9,12]": {TagNodes: "gpu-[1-2]", TagNodes + "-2": "gpu-9", TagNodes + "-3": "other-[1-9,12]"},
	} {
		if got := LaunchedNodes(tags); got != want {
			t.Errorf("%v: %q, want %q", tags, got, want)
		}
	}
	want := map[string]string{TagNodes: "a", TagNodes + "-2": "b", TagNodes + "-3": "c"}
	if diff := cmp.Diff(want, NodesTags([]string{"a", "b", "c"})); diff != "" {
		t.Error(diff)
	}
}
