package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

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
	if diff := cmp.Diff([]string{"return-nodes: give gpu-a-[1-2] back to Slurm: DOWN since ResumeTimeout, and ResumeFailProgram did not",
		"return-nodes: give gpu-b-1 back to Slurm: DOWN since ResumeTimeout, and ResumeFailProgram did not"}, sentences(givenUp(s))); diff != "" {
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
	actions := endOrphans(s)
	want := []string{"end-instance: end instance i-1 of node gpu-1 in cr-0: Slurm has no such node", "end-instance: end instance i-3 of node gpu-1 in cr-0: Slurm has no such node"}
	if diff := cmp.Diff(want, sentences(actions)); diff != "" {
		t.Error(diff)
	}
	left := withoutEnded(s.Snap.Orphans, actions[:1])
	if diff := cmp.Diff([]capacity.Orphan{orphan("i-2", "-29s"), orphan("i-3", "-1h")}, left); diff != "" {
		t.Errorf("left: %s", diff)
	}
	if s.OrphansSeen = false; endOrphans(s) != nil {
		t.Error("they are those of an older pass")
	}
}

// rolls is a setup that takes a step, or fails.
type rolls struct {
	err  error
	anew bool
}

func (r *rolls) SetUp(_ context.Context, _ string, _ capacity.NodeGroup, _ capacity.Reservation, anew bool) ([]string, error) {
	if r.anew = anew; r.err != nil {
		return nil, r.err
	}
	return []string{"create it"}, nil
}

func (r *rolls) Remove(context.Context, string, string) ([]string, error) {
	return []string{"delete it"}, nil
}

// What is set up and removed, what waits after a failure, and what a failure leaves to know.
func TestRollOver(t *testing.T) {
	next := Rolling{Partition: "gpu", Block: capacity.Reservation{ID: "cr-1"}}
	ready := Rolling{Partition: "gpu", Slot: "gpu-a", Block: capacity.Reservation{ID: "cr-0"}, Ready: true}
	over := Rolling{Partition: "gpu", Slot: "gpu-b", Block: capacity.Reservation{ID: "cr-9"}, Over: true}
	const sets, removes = "set up cr-1 in partition gpu", "remove compute node group gpu-b of cr-9, which has ended"
	failed := func(r Rolling, tried string) Rolling {
		r.Setback = state.Setback{Since: at("-1h"), Tried: at(tried), Problem: "cannot " + sets + ": no quota"}
		return r
	}
	was := failed(next, "-5m")
	for name, c := range map[string]struct {
		rolling []Rolling
		err     string
		did     []string
		setback state.Setback // of the first
	}{
		"in their order":        {[]Rolling{ready, next, over}, "", []string{sets + ": create it", removes + ": delete it"}, state.Setback{}},
		"failed a moment ago":   {[]Rolling{failed(next, "-4m59s")}, "", nil, failed(next, "-4m59s").Setback},
		"failed a while ago":    {[]Rolling{was}, "", []string{sets + ": create it"}, state.Setback{}},
		"the other one goes on": {[]Rolling{failed(next, "-1m"), over}, "", []string{removes + ": delete it"}, failed(next, "-1m").Setback},
		"fails again":           {[]Rolling{was}, "no quota", nil, state.Setback{Since: at("-1h"), Tried: noon, Problem: was.Setback.Problem}},
		"fails anew":            {[]Rolling{was}, "throttled", nil, state.Setback{Since: noon, Tried: noon, Problem: "cannot " + sets + ": throttled"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, again := &rolls{}, c.rolling[0].Setback == was.Setback
			if c.err != "" {
				r.err = errors.New(c.err)
			}
			p := passOf(Sources{RollOver: r, World: World{EC2: mute{}, State: state.Dir(t.TempDir())}}, Seen{Now: noon, Snap: &capacity.Snapshot{}, Rolling: c.rolling})
			p.rollOver(t.Context())
			var did []string
			for _, d := range p.done {
				did = append(did, d.Message)
			}
			if diff := cmp.Diff(c.did, did); diff != "" {
				t.Error(diff)
			}
			kept, err := p.State.Setbacks().Read()
			if got := p.seen.Rolling[0].Setback; got != c.setback || err != nil || len(kept) == 0 != (got.Problem == "") || len(p.failed) > 0 {
				t.Errorf("setback %+v, kept %v, %v, failed %v", got, kept, err, p.failed)
			}
			if r.anew != again { // setup makes a broken group again, once it has failed
				t.Errorf("anew: %t", r.anew)
			}
		})
	}
}

// releasing is an EC2 that takes ODCRs back, or does not.
type releasing struct {
	EC2
	err error
}

func (r releasing) CancelODCR(context.Context, string) error { return r.err }

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
	dir := state.Dir(t.TempDir())
	for _, e := range append(h.Ledger, capacity.Held{Token: "t-gone", ReservationID: "cr-gone", Since: at("-1h")}) {
		e.Until = noon.AddDate(1, 0, 0)
		if _, err := dir.Enlist(e, noon, func(capacity.Held, []capacity.Held) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		refuses error
		want    []string // what the ledger has then
	}{{errors.New("no such id"), []string{"t-p", "t-new", "t-old"}}, {nil, []string{"t-new", "t-old"}}} {
		actions := h.releases()
		if len(actions) != 2 || actions[0].About.Reservation != "cr-p" {
			t.Fatalf("%+v", sentences(actions))
		}
		for _, a := range actions {
			if err := a.Do(t.Context(), World{EC2: releasing{err: c.refuses}, State: dir}); !errors.Is(err, c.refuses) && a.Code == "release" {
				t.Error(err)
			}
		}
		ledger, err := dir.Held(time.Time{})
		var left []string
		for _, e := range ledger {
			left = append(left, e.Token)
		}
		if diff := cmp.Diff(c.want, left); diff != "" || err != nil {
			t.Errorf("%v: %s, %v", c.refuses, diff, err)
		}
	}
	foreign := h
	foreign.ODCRs = []capacity.Reservation{probe}
	foreign.Mark = "other"
	if got := foreign.needless(); len(got) > 0 {
		t.Errorf("another cluster's: %+v", got)
	}
	if time.Hour < capacity.LaunchTime {
		t.Error("an hour is no longer than a launch")
	}
}
