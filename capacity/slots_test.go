package capacity

import "testing"

func TestPlaceOf(t *testing.T) {
	settings := Settings{Partitions: []PartitionSettings{
		{Name: "one", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "gpu"}, {Name: "gpu-big"}}},
		{Name: "two", Provider: ProviderPCS, Groups: []GroupSettings{{Name: "h100"}}},
	}}
	for node, want := range map[string]string{
		"gpu-1": "one gpu gpu", "gpu-big-12": "one gpu-big gpu-big", "h100-a-3": "two h100 h100-a", "h100-b-1": "two h100 h100-b",
		"gpu": "", "gpu-": "", "gpu-x": "", "gpu-1x": "", "gpux-1": "", "h100-1": "", "h100-c-1": "", "": "", "-1": "",
	} {
		got := ""
		if p, g, slot, ok := settings.PlaceOf(node); ok {
			got = p.Name + " " + g.Name + " " + slot
		}
		if got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}
