package capacity

import "testing"

func TestPlaceOf(t *testing.T) {
	settings := Settings{Partitions: []PartitionSettings{
		{Name: "one", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "gpu"}, {Name: "gpu-big"}}},
		{Name: "three", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "listed", Nodes: []string{"gpu001", "gpu002"}}, {Name: "plain"}}},
		{Name: "two", Provider: ProviderPCS, Groups: []GroupSettings{{Name: "h100"}}},
	}}
	for node, want := range map[string]string{
		"gpu-1": "one gpu gpu", "gpu-big-12": "one gpu-big gpu-big", "h100-a-3": "two h100 h100-a", "h100-b-1": "two h100 h100-b",
		"gpu001": "three listed listed", "gpu003": "", "listed-1": "", "plain-1": "three plain plain",
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
