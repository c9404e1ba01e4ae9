package capacity

import "testing"

func TestNamesOfGuards(t *testing.T) {
	for name, want := range map[string]Guard{
		"pcs-capacity-fence-gpu-a.cr-0e2000000000000a1.0123abcd":   {Kind: "fence", Slot: "gpu-a", Block: "cr-0e2000000000000a1", Owner: "0123abcd"},
		"pcs-capacity-fence-gpu-a.cr-0e2000000000000a1.0123abcd.2": {Kind: "fence", Slot: "gpu-a", Block: "cr-0e2000000000000a1", Owner: "0123abcd", Second: true},
		"pcs-capacity-wait-gpu.none.0123abcd":                      {Kind: "wait", Slot: "gpu", Owner: "0123abcd"},
		"pcs-capacity-surplus-a.b.cr-0.0123abcd":                   {Kind: "surplus", Slot: "a.b", Block: "cr-0", Owner: "0123abcd"},
		// without an owner
		"pcs-capacity-fence-gpu-a": {Kind: "fence", Slot: "gpu-a"},
	} {
		if got, ok := ParseGuard(name); !ok || got != want || got.String() != name {
			t.Errorf("%s: %+v (%t), which is written %s", name, got, ok, got)
		}
	}
	for _, name := range []string{"", "pcs-capacity-", "pcs-capacity-fence", "pcs-capacity-fence-", "pcs-capacity-other-gpu", "gpu-a-scheduled"} {
		if g, ok := ParseGuard(name); ok {
			t.Errorf("%q is taken for %+v", name, g)
		}
	}
	for name, plain := range map[string]string{"pcs-capacity-fence-gpu.cr-0.0123abcd.2": "pcs-capacity-fence-gpu", "gpu-a-scheduled": "gpu-a-scheduled"} {
		if got := PlainName(name); got != plain {
			t.Errorf("%s: %s", name, got)
		}
	}
}
