package capacity

import (
	"strings"
	"testing"
)

// What the settings say of all their partitions.
func TestSettingsOfAllPartitions(t *testing.T) {
	s := Settings{Partitions: []PartitionSettings{
		{Name: "pcs", Provider: ProviderPCS, Groups: []GroupSettings{{Name: "p", LaunchTemplate: "lt-pcs"}}},
		{Name: "gpu", Provider: ProviderEC2, RollOver: true, Groups: []GroupSettings{{Name: "a", LaunchTemplate: "lt-1"}, {Name: "b"},
			{Name: "c", LaunchTemplate: "lt-1", Select: &Select{Tags: map[string]string{"team": "x"}}}, {Name: "d", LaunchTemplate: "lt-2"}}},
	}}
	for partition, want := range map[string]bool{"": true, "gpu": true, "pcs": false, "none": false} {
		if got := s.RollsOver(partition); got != want {
			t.Errorf("%q rolls over: %t", partition, got)
		}
	}
	if (Settings{Partitions: s.Partitions[:1]}).RollsOver("") {
		t.Error("rolls over without the setting")
	}
	if got := strings.Join(s.LaunchTemplates(), " "); got != "lt-1 lt-2" {
		t.Errorf("launch templates %s", got)
	}
}

func TestNodeNames(t *testing.T) {
	var n NodeNames
	if err := n.UnmarshalText([]byte("b[10-11],a1")); err != nil || strings.Join(n, " ") != "a1 b10 b11" {
		t.Errorf("%v, %v", n, err)
	}
	if text, err := n.MarshalText(); err != nil || string(text) != "a1,b[10-11]" {
		t.Errorf("%s, %v", text, err)
	}
	if err := n.UnmarshalText([]byte("a[1-")); err == nil || !strings.Contains(err.Error(), "write it like gpu[001-016]") || len(n) != 3 {
		t.Errorf("%v, %v", n, err)
	}
}

// A node of another partition's settings would take jobs past every check.
func TestAstray(t *testing.T) {
	s := Settings{Partitions: []PartitionSettings{
		{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "gpu", MaxNodes: 4}}},
		{Name: "big", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "big", MaxNodes: 4}}}}}
	if got := strings.Join(s.Astray("gpu", []string{"gpu-1", "big-1", "cpu-1", "big-2"}), " "); got != "big-1 big-2" {
		t.Errorf("astray in gpu: %s", got)
	}
	if got := s.Astray("big", []string{"big-1"}); len(got) != 0 {
		t.Errorf("astray in big: %s", got)
	}
}
