package lifecycle

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// did are sentences of what was done, each with its code.
func did(effects []capacity.Effect) (all []string) {
	for _, e := range effects {
		all = append(all, e.Code()+": "+e.Sentence(capacity.Did))
	}
	return all
}

// Nodes that ResumeFailProgram should have given back are given back, once, those of each slot
// together, and none that PCS launches.
func TestGivenUp(t *testing.T) {
	slots := func(provider capacity.Provider, names ...string) (all []capacity.Slot) {
		for _, n := range names {
			all = append(all, capacity.Slot{Name: n})
		}
		return all
	}
	part := func(name string, provider capacity.Provider, names ...string) capacity.Partition {
		return capacity.Partition{Name: name, Provider: provider, Groups: []capacity.NodeGroup{{Slots: slots(provider, names...)}}}
	}
	const gaveUp, why = "DOWN+CLOUD+POWERED_DOWN", "ResumeTimeout reached"
	s := Seen{Snap: &capacity.Snapshot{Partitions: []capacity.Partition{part("a", capacity.ProviderEC2, "gpu-a", "gpu-b"), part("b", capacity.ProviderEC2, "gpu-a"), part("p", capacity.ProviderPCS, "pcs")}},
		Cluster: &Cluster{slots: map[string][]string{"gpu-a": {"gpu-a-1", "gpu-a-2"}, "gpu-b": {"gpu-b-1"}, "pcs": {"pcs-1"}},
			Nodes: []capacity.Node{{Name: "gpu-a-1", State: gaveUp, Reason: why}, {Name: "gpu-a-2", State: gaveUp, Reason: why}, {Name: "gpu-b-1", State: gaveUp, Reason: why}, {Name: "pcs-1", State: gaveUp, Reason: why}}}}
	if diff := cmp.Diff([]string{"return-nodes: slot gpu-a: gave gpu-a-[1-2] back to Slurm, DOWN since ResumeTimeout; ResumeFailProgram did not",
		"return-nodes: slot gpu-b: gave gpu-b-1 back to Slurm, DOWN since ResumeTimeout; ResumeFailProgram did not"}, did(givenUp(s))); diff != "" {
		t.Error(diff)
	}
}

// An orphan ends when it was seen for half a minute, by this pass too.
func TestEndOrphans(t *testing.T) {
	orphan := func(id, since string) capacity.Orphan {
		return capacity.Orphan{Instance: id, Node: "gpu-1", Reservation: "cr-0", Why: "Slurm has no such node", Since: at(since)}
	}
	s := Seen{Snap: &capacity.Snapshot{}, Now: noon, OrphansSeen: true}
	s.Snap.Orphans = []capacity.Orphan{orphan("i-1", "-30s"), orphan("i-2", "-29s"), orphan("i-3", "-1h")}
	effects := endOrphans(s)
	want := []string{"end-instance: ended instance i-1 of node gpu-1 in cr-0: Slurm has no such node", "end-instance: ended instance i-3 of node gpu-1 in cr-0: Slurm has no such node"}
	if diff := cmp.Diff(want, did(effects)); diff != "" {
		t.Error(diff)
	}
	left := withoutEnded(s.Snap.Orphans, []Result{{Effect: effects[0]}, {Effect: effects[1], Answer: Answer{Err: errors.New("Throttling")}}})
	if diff := cmp.Diff([]capacity.Orphan{orphan("i-2", "-29s"), orphan("i-3", "-1h")}, left); diff != "" {
		t.Errorf("left: %s", diff)
	}
	if s.OrphansSeen = false; endOrphans(s) != nil {
		t.Error("they are those of an older pass")
	}
}

// What is set up and removed, what waits after a failure, and what a failure leaves to know.
func TestRollOver(t *testing.T) {
	next := Rolling{Partition: "gpu", Block: capacity.Reservation{ID: "cr-1"}}
	ready := Rolling{Partition: "gpu", Slot: "gpu-a", Block: capacity.Reservation{ID: "cr-0"}, Ready: true}
	over := Rolling{Partition: "gpu", Slot: "gpu-b", Block: capacity.Reservation{ID: "cr-9"}, Over: true}
	failed := func(r Rolling, tried string) Rolling {
		r.Setback = state.Setback{Since: at("-1h"), Tried: at(tried), Problem: r.doing() + ": no quota"}
		return r
	}
	for name, c := range map[string]struct {
		rolling []Rolling
		want    []string
	}{
		"in their order":        {[]Rolling{ready, next, over}, []string{"set-up-slot: setting up cr-1 in partition gpu", "remove-slot: removing compute node group gpu-b of cr-9, which has ended"}},
		"failed a moment ago":   {[]Rolling{failed(next, "-4m59s")}, nil},
		"failed a while ago":    {[]Rolling{failed(next, "-5m")}, []string{"set-up-slot: setting up cr-1 in partition gpu"}},
		"the other one goes on": {[]Rolling{failed(next, "-1m"), over}, []string{"remove-slot: removing compute node group gpu-b of cr-9, which has ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, did(rollOver(Seen{Now: noon, Rolling: c.rolling}))); diff != "" {
				t.Error(diff)
			}
		})
	}
	answer := func(r Rolling, setback string) []Result {
		return []Result{{Effect: SetUpSlot{r}, Answer: Answer{Setback: setback}}}
	}
	was := failed(next, "-5m")
	for name, c := range map[string]struct {
		setback string
		want    state.Setback
	}{
		"goes on":       {"", state.Setback{}},
		"fails again":   {"no quota", state.Setback{Since: at("-1h"), Tried: noon, Problem: was.Setback.Problem}},
		"fails anew":    {"throttled", state.Setback{Since: noon, Tried: noon, Problem: was.doing() + ": throttled"}},
		"was not tried": {"-", was.Setback},
	} {
		results := answer(was, c.setback)
		if c.setback == "-" {
			results = answer(over, "no quota")
		}
		rolling := []Rolling{was}
		if got := learnRolling(rolling, results, noon)[0].Setback; got != c.want || rolling[0].Setback != was.Setback {
			t.Errorf("%s: %+v, want %+v; before %+v", name, got, c.want, rolling[0].Setback)
		}
	}
}

// What we hold for nothing is given back, and leaves the ledger when it is gone.
func TestHeldForNothing(t *testing.T) {
	tags := func(token string) map[string]string {
		return map[string]string{capacity.TagCluster: "ml", capacity.TagHold: capacity.HoldProbe, capacity.TagToken: token}
	}
	probe := capacity.Reservation{ID: "cr-p", InstanceType: "p5.48xlarge", AZID: "use2-az1", Total: 2, Available: 2, Kind: capacity.ODCR, State: capacity.StateActive, Start: at("-2h"), End: at("-1h"), Tags: tags("t-p")}
	h := Held{Mark: "ml", ODCRs: []capacity.Reservation{probe}, Gone: []string{"cr-gone"}, Now: noon, Ledger: []capacity.Held{
		{Token: "t-p", ReservationID: "cr-p", Since: at("-2h")},     // EC2 shows it
		{Token: "t-lost", Since: at("-1h")},                         // nothing came of it
		{Token: "t-new", Since: noon.Add(-capacity.LaunchTime)},     // EC2 may not show it yet
		{Token: "t-old", ReservationID: "cr-old", Since: at("-1h")}, // nothing says that it has ended
	}}
	effects := heldForNothing(h, capacity.Settings{})
	if len(effects) != 1 || effects[0].About().Reservation != "cr-p" {
		t.Fatalf("%+v", effects)
	}
	for answer, want := range map[error][]string{
		nil:                      {"cr-p", "t-p", "t-lost", "cr-gone"},
		errors.New("no such id"): {"t-lost", "cr-gone"},
	} {
		if diff := cmp.Diff(want, h.released([]Result{{Effect: effects[0], Answer: Answer{Err: answer}}})); diff != "" {
			t.Errorf("%v: %s", answer, diff)
		}
	}
	foreign := h
	foreign.ODCRs = []capacity.Reservation{probe}
	foreign.Mark = "other"
	if got := heldForNothing(foreign, capacity.Settings{}); len(got) > 0 {
		t.Errorf("another cluster's: %+v", got)
	}
	if time.Hour < capacity.LaunchTime {
		t.Error("an hour is no longer than a launch")
	}
}
