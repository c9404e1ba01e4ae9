package setup

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// selfManaged has settings of two partitions, of which gpu is asked about.
func selfManaged() *world {
	w := newWorld()
	w.withSettings(
		capacity.PartitionSettings{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", Nodes: []string{"n-1", "n-2"}}, {Name: "big", Slots: 2}}},
		capacity.PartitionSettings{Name: "other", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "other", Slots: 2, Nodes: []string{"o-1"}}}})
	return w
}

// TestNodeGroupsThatGo has which node groups and slots of self-managed Slurm go, and which stay.
func TestNodeGroupsThatGo(t *testing.T) {
	w := selfManaged()
	former := []capacity.Partition{{Name: "gpu", Groups: []capacity.NodeGroup{{Name: "former"}}}, {Name: "other", Groups: []capacity.NodeGroup{{Name: "none"}}}}
	remaining := func(group string) *remains {
		return &remains{request: TeardownRequest{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu", NodeGroup: group, Config: w.config, Former: former}}
	}
	templates := []capacity.LaunchTemplate{{Name: pcs.TemplateName(ourMark, "old")}, {Name: "theirs"}}
	for group, want := range map[string]string{"": "gpu big old former", "gpu": "gpu", "big": "big", "old": "old", "unheard": "unheard", "other-a": ""} {
		if got := strings.Join(remaining(group).basesOnEC2(templates), " "); got != want {
			t.Errorf("--node-group %q: %q go, want %q", group, got, want)
		}
	}
	for base, want := range map[string]string{"gpu": "gpu", "big": "big-a big-b", "old": "old-a old-b old", "other": "other", "other-a": "other-a-a other-a-b other-a"} {
		if got := strings.Join(remaining("").slotsOnEC2(base), " "); got != want {
			t.Errorf("slots of %s: %s, want %s", base, got, want)
		}
	}
	if got := remaining("").going().Stay; !slices.Equal(got, []string{"gpu", "big-a", "big-b", "other-a", "other-b"}) {
		t.Errorf("slots of the settings: %v", got)
	}
	without := &remains{request: TeardownRequest{Queue: "gpu"}}
	if got := without.slotsOnEC2("gpu"); !slices.Equal(got, []string{"gpu-a", "gpu-b", "gpu"}) || without.going().Stay != nil {
		t.Errorf("without settings: slots %v", got)
	}

	what := going{Slots: []SlotNodes{{"gpu", []string{"n-1"}}, {"old", nil}, {"login", nil}}, All: true, Stay: []string{"other-a"}}
	one := what
	one.All = false
	for node, want := range map[string]struct {
		slot      string
		all, goes bool
	}{
		"n-1": {"gpu", true, true}, "old-3": {"old", true, true}, "login": {"login", true, true}, "other-a-1": {"other-a", false, false}, "x-1": {"x", true, false},
	} {
		slot, goes := what.slotOf(node)
		if _, too := one.slotOf(node); slot != want.slot || goes != want.all || too != want.goes {
			t.Errorf("%s is of slot %s and goes: %t, with one node group %t", node, slot, goes, too)
		}
	}
}

// TestTeardownOfGuests: nodes that something else launches stay, and their fences go.
func TestTeardownOfGuests(t *testing.T) {
	w := newWorld()
	w.withSettings(capacity.PartitionSettings{Name: "gpu", Provider: capacity.ProviderNone, Groups: []capacity.GroupSettings{{Name: "gpu", Nodes: []string{"n-1", "n-2"}}}})
	w.config.StateDir = "/var/lib/pcs-capacity"
	w.fences["gpu"] = now1
	s := Setup{Slurm: w}
	seen := remains{request: TeardownRequest{Provider: capacity.ProviderNone, Queue: "gpu", Config: w.config}, file: w.file}
	if err := s.findOfGuest(t.Context(), &seen); err != nil {
		t.Fatal(err)
	}
	if len(seen.slots) != 1 || seen.slots[0].name != "gpu" || !slices.Equal(seen.slots[0].slurm.Nodes, []string{"n-1", "n-2"}) {
		t.Errorf("there are %+v", seen.slots)
	}
	p := decideTeardown(seen)
	want := "delete file /etc/pcs-capacity/conf.d/gpu.toml\ndelete Slurm reservation " + fenceOf("gpu", now1)
	if diff := cmp.Diff(want, said(p.Actions)); diff != "" || len(p.Mismatches) > 0 {
		t.Errorf("(-want +got):\n%s%v", diff, p.Mismatches)
	}
	seen.request.Config = nil
	if got := said(decideTeardown(seen).Actions); got != "delete Slurm reservation "+fenceOf("gpu", now1) {
		t.Errorf("without settings: %s", got)
	}

	for provider, find := range map[capacity.Provider]func(context.Context, *remains) error{capacity.ProviderNone: s.findOfGuest, capacity.ProviderEC2: s.findOnEC2} {
		w := selfManaged()
		if provider == capacity.ProviderEC2 {
			w.config.Partitions[0].Provider = capacity.ProviderPCS
		}
		seen := remains{request: TeardownRequest{Provider: provider, Queue: "gpu", Config: w.config}, file: w.file}
		if err := find(t.Context(), &seen); err != nil || codesOf(seen.problems) != "provider" || len(seen.slots) > 0 {
			t.Errorf("--provider %s for a partition of another one: %v, %+v", provider, err, seen)
		}
	}
}

// TestTeardownOfNothing has lists that are empty, not missing, for programs.
func TestTeardownOfNothing(t *testing.T) {
	p, err := Setup{}.PlanTeardown(t.Context(), TeardownRequest{Provider: capacity.ProviderNone, Queue: "gpu"})
	if err != nil || !p.Done() {
		t.Fatalf("%+v, %v", p, err)
	}
	text, err := json.Marshal(p)
	if err != nil || !strings.Contains(string(text), `"steps":[],"mismatches":[],"warnings":[],"by_hand":[]`) || p.Cluster.SubnetIDs == nil {
		t.Errorf("%s, %v", text, err)
	}
	if (&TeardownPlan{Actions: Steps{{}}, Mismatches: []capacity.Problem{{}}}).Done() {
		t.Error("it is done with a step and a problem")
	}
}

// TestWorkOnOwnSettings has what the administrator is to change in a file of his own.
func TestWorkOnOwnSettings(t *testing.T) {
	groups := []capacity.GroupSettings{{Name: "gpu", ReservationIDs: []string{"cr-1"}}, {Name: "big", ReservationIDs: []string{"cr-2", "cr-3"}}, {Name: "stays", ReservationIDs: []string{"cr-4"}}}
	c := settingsChange{before: capacity.PartitionSettings{Name: "gpu", File: "own.toml", Groups: groups},
		after: capacity.PartitionSettings{Groups: []capacity.GroupSettings{{Name: "big", ReservationIDs: []string{"cr-3"}}, groups[2]}}}
	want := []string{
		`remove node_group "gpu" of partition "gpu" from own.toml, which is not ours to change`,
		`set capacity_reservation_ids = ["cr-3"] for node_group "big" of partition "gpu" in own.toml, which is not ours to change`,
	}
	if diff := cmp.Diff(want, c.byHand()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
