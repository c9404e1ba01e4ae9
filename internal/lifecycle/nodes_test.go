package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// blockSeen is what a pass sees of a slot with one block from 1h to 24h and three nodes, of which
// gpu-1 is up; before is when the last pass was.
func blockSeen(before, now string, was, is capacity.State) View {
	snap := func(taken string, state capacity.State) *capacity.Snapshot {
		s := oneSlot(capacity.ProviderEC2, []string{"cr-0"}, block("cr-0", "1h", "24h", state))
		s.TakenAt = at(taken)
		return s
	}
	c := &Cluster{
		slots: map[string][]string{"gpu": {"gpu-1", "gpu-2", "gpu-3"}},
		Nodes: []capacity.Node{
			{Name: "gpu-1", State: "IDLE"},
			{Name: "gpu-2", State: "IDLE+CLOUD+POWERED_DOWN"},
			{Name: "gpu-3", State: "IDLE+CLOUD+POWERED_DOWN"},
			{Name: "login", State: "IDLE+CLOUD+POWERED_DOWN"},
			{Name: "admin", State: "IDLE"},
		},
	}

	return View{Old: snap(before, was), Snap: snap(now, is), Cluster: c, Now: at(now)}
}

// sentences are what a pass is to do, each with its code.
func sentences(actions []Action) (all []string) {
	for _, a := range actions {
		all = append(all, a.Code+": "+a.Text)
	}
	return all
}

// Nodes that are up under their fence are powered down, of a block that has ended as well.
func TestEndedBlocks(t *testing.T) {
	down := []string{"power-down: power down gpu-1: the fence was at 2026-11-21 11:20 UTC"}
	for name, c := range map[string]struct {
		now  string
		is   capacity.State
		but  func(s *View)
		want []string
	}{
		"before the fence":    {"23h19m59s", capacity.StateActive, nil, nil},
		"at the fence":        {"23h20m", capacity.StateActive, nil, down},
		"the block has ended": {"25h", capacity.StateExpired, nil, down},
		"PCS does so itself": {
			"25h",
			capacity.StateExpired,
			func(s *View) { s.Snap.Partitions[0].Provider = capacity.ProviderPCS },
			nil,
		},
		"no node is up": {"25h", capacity.StateExpired, func(s *View) { s.Cluster.Nodes = s.Cluster.Nodes[1:] }, nil},
		"a slot that never ends": {"25h", capacity.StateActive, func(s *View) {
			s.Snap.Reservations[0].End = at("1000h").AddDate(100, 0, 0)
			s.Snap.Reservations[0].Kind = capacity.ODCR
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := blockSeen("1h", c.now, capacity.StateActive, c.is)
			if c.but != nil {
				c.but(&s)
			}

			if diff := cmp.Diff(c.want, sentences(decidePowerDowns(s))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// ends is an EC2 in which instances can be ended.
type ends struct{ EC2 }

func (ends) Terminate(context.Context, []capacity.Instance) error { return nil }

// Nodes are not powered up again at once, and an instance that has been ended is no orphan.
func TestDoneIsRemembered(t *testing.T) {
	s := blockSeen("1h", "2h", capacity.StateActive, capacity.StateActive)
	s.Snap.Orphans, s.OrphansSeen = []capacity.Orphan{{Instance: "i-1"}, {Instance: "i-2", Since: s.Now}}, true

	p := passOf(Sources{World: World{Slurm: willing{}, EC2: ends{}}}, s)
	todo := append(decidePowerUps(s), decideOrphanEnds(s)...)
	done := p.carryOut(t.Context(), todo)

	again := append(decidePowerUps(p.view), decideOrphanEnds(p.view)...)
	if len(done) != 2 || len(again) != 0 || len(p.view.Snap.Orphans) != 1 {
		t.Errorf("did %q of %q, then %q; orphans %v", sentences(done), sentences(todo), sentences(again),
			p.view.Snap.Orphans)
	}
}

// Nodes without a job are powered up as long as ResumeProgram launches them. A job that states less than min_time may
// get them, so these need not fit.
func TestOpeningsAreLaunched(t *testing.T) {
	for now, powersUp := range map[string]bool{"23h9m": true, "23h9m1s": false} {
		s := blockSeen("1h", now, capacity.StateActive, capacity.StateActive)
		s.Snap.Timing.BootAllowance.Duration = 10 * time.Minute
		p := &s.Snap.Partitions[0]
		p.MinTime.Duration = 30 * time.Minute
		p.Groups[0].PurchaseOption = capacity.CapacityBlock
		s.Snap.Reservations[0].Total, s.Snap.Reservations[0].AZID = 3, "use2-az1"
		p.Groups[0].Subnets = []capacity.Subnet{{ID: "subnet-0", AZID: "use2-az1"}}

		_, v := capacity.AdmitLaunch(capacity.NoJob, *p, "gpu", s.Snap, s.Now)
		if ups := len(decidePowerUps(s)); (ups == 1) != powersUp || v.Refused == powersUp {
			t.Errorf("%s: %d power-ups, of which a launch says %q", now, ups, v.Sentence)
		}
	}
}

// What a pass makes of reservations that the settings do not want, by their names.
func TestStepsForWhatNobodyWants(t *testing.T) {
	there := func(name string) capacity.SlurmReservation {
		return reservation(name, []string{"gpu-1"}, at("1h"), at("1h").Add(365*24*time.Hour))
	}
	fence := reservation("pcs-capacity-fence-gpu.cr-0."+me, []string{"gpu-1"}, at("1h"), time.Time{})
	over := func(g capacity.Guard) bool { return g.Block == "cr-9" }
	for name, c := range map[string]struct {
		want, have []string
		todo       []string
	}{
		"a live block's fence": {have: []string{"fence-gpu.cr-1." + me}},
		"an ended block's": {
			have: []string{"fence-gpu.cr-9." + me},
			todo: []string{"delete fence-gpu.cr-9." + me},
		},
		"a wait": {
			have: []string{"wait-gpu.cr-1." + me},
			todo: []string{"delete wait-gpu.cr-1." + me},
		},
		"a live block's beside the one wanted": {
			want: []string{"x"},
			have: []string{"fence-gpu.cr-0." + me, "fence-gpu.cr-1." + me},
		},
		"both names, of a pass that was killed": {
			want: []string{"x"},
			have: []string{"fence-gpu.cr-0." + me, "fence-gpu.cr-0." + me + ".2"},
			todo: []string{"delete fence-gpu.cr-0." + me + ".2"},
		},
		"both names, of an ended block": {
			have: []string{"fence-gpu.cr-9." + me, "fence-gpu.cr-9." + me + ".2"},
			todo: []string{"delete fence-gpu.cr-9." + me, "delete fence-gpu.cr-9." + me + ".2"},
		},
		"another owner's": {have: []string{"fence-gpu.cr-9." + other, "wait-gpu.cr-1." + other}},
	} {
		t.Run(name, func(t *testing.T) {
			var want, have []capacity.SlurmReservation
			if c.want != nil {
				want = append(want, fence)
			}

			for _, n := range c.have {
				have = append(have, there("pcs-capacity-"+n))
			}

			todo, _ := View{Owner: me, Now: noon, Snap: &capacity.Snapshot{}}.diffGuards(want, have, nil, over)

			var got []string
			for _, s := range todo {
				line := s.do + " " + s.r.Name
				if s.old != "" {
					line += " for " + s.old
				}

				got = append(got, strings.ReplaceAll(line, "pcs-capacity-", ""))
			}

			if diff := cmp.Diff(c.todo, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An error of EC2 is no end of a block; an id that EC2 has not described for an hour is.
func TestAFenceOfAnUnknownReservation(t *testing.T) {
	st := newStage(t)
	st.openBlock()
	st.sources.Settings.Partitions = nil
	st.sources.State = state.Dir(model.Dir(t))
	after := func(what string, hidden bool, err error, wait time.Duration, stays bool) {
		t.Helper()

		st.aws.Hidden, st.fails["describe reservations"] = nil, err
		if hidden {
			st.aws.Hidden = []string{"cr-1"}
		}

		st.AdvanceTo(st.Now().Add(wait))

		_, _, _ = Pass(t.Context(), st.sources)
		if there := len(st.slurm.Fences) > 0; there != stays {
			t.Errorf("%s: there: %t", what, there)
		}
	}
	down := errors.New("503 Service Unavailable")
	after("an error", false, down, 0, true)
	after("an error for two hours", false, down, 2*time.Hour, true)
	after("left out of one answer", true, nil, 0, true)
	after("described again", false, nil, 50*time.Minute, true)
	after("left out again", true, nil, 30*time.Minute, true)
	after("for most of an hour", true, nil, 59*time.Minute, true)
	after("for an hour", true, nil, 2*time.Minute, false)
}

// releasing is an EC2 that cancels ODCRs, or refuses.
// The next block of PCS's node group is sync's to set up where it rolls over, and an administrator's elsewhere.
func TestBlocksWithoutANodeGroup(t *testing.T) {
	for _, rolls := range []bool{true, false} {
		s := View{
			Now:      noon,
			Cluster:  &Cluster{},
			Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", RollOver: rolls}}},
			Snap:     oneSlot(capacity.ProviderPCS, []string{"cr-1"}, block("cr-1", "1h", "24h", capacity.StateScheduled)),
		}
		s.Snap.Partitions[0].Groups[0].PurchaseOption = capacity.CapacityBlock

		all, lack := findRollings(s)
		if (len(all) == 1) != rolls || (len(lack) == 1) == rolls ||
			!rolls && lack[0].Fix != "run `pcs-capacity setup --reservation cr-1 --queue gpu --node-group gpu`" {
			t.Errorf("rolls over %t: %+v, %+v", rolls, all, lack)
		}
	}
}

// A slot that is not lent yet is not ready: the roll over goes on until its nodes are in the spare partition, too.
func TestRollOverGoesOnUntilNodesAreLent(t *testing.T) {
	gpu := capacity.SlurmPartition{Name: "gpu", Nodes: []string{"gpu-1"}}
	scavenge := capacity.SlurmPartition{Name: "scavenge", Nodes: []string{"gpu-1"}}

	for name, c := range map[string]struct {
		spare string
		there []capacity.SlurmPartition
		ready bool
	}{
		"nothing is lent":       {"", []capacity.SlurmPartition{gpu}, true},
		"in neither partition":  {"scavenge", nil, false},
		"not in the spare one":  {"scavenge", []capacity.SlurmPartition{gpu, {Name: "scavenge"}}, false},
		"in both":               {"scavenge", []capacity.SlurmPartition{gpu, scavenge}, true},
		"only in the spare one": {"scavenge", []capacity.SlurmPartition{{Name: "gpu"}, scavenge}, false},
	} {
		snap := oneSlot("pcs", []string{"cr-0"}, block("cr-0", "-1h", "3h", capacity.StateActive))
		snap.Partitions[0].Spare.Name = c.spare
		g := snap.Partitions[0].Groups[0]
		g.Slots[0].Occupant = "cr-0"

		s := View{Snap: snap, Now: noon, Cluster: &Cluster{
			slots:      map[string][]string{g.Slots[0].Name: {"gpu-1"}},
			Partitions: c.there,
		}}
		if got := len(s.readySlots(snap.Partitions[0], g)) > 0; got != c.ready {
			t.Errorf("%s: ready %t", name, got)
		}
	}
}

type releasing struct {
	EC2
	err error
}

func (r releasing) Explain(err error) (string, bool)         { return err.Error(), false }
func (r releasing) CancelODCR(context.Context, string) error { return r.err }

// An ODCR that no job needs is cancelled, and leaves the ledger when it is gone.
func TestHeldForNothing(t *testing.T) {
	tags := func(token string) map[string]string {
		return map[string]string{
			capacity.TagCluster: "ml",
			capacity.TagHold:    capacity.HoldProbe,
			capacity.TagToken:   token,
		}
	}
	probe := capacity.Reservation{
		ID:           "cr-p",
		InstanceType: "p5.48xlarge",
		AZID:         "use2-az1",
		Total:        2,
		Available:    2,
		Kind:         capacity.ODCR,
		State:        capacity.StateActive,
		Start:        at("-2h"),
		End:          at("-1h"),
		Tags:         tags("t-p"),
	}

	h := Holds{Mark: "ml", ODCRs: []capacity.Reservation{probe}, Now: noon, Ledger: []capacity.Hold{
		{Token: "t-p", ReservationID: "cr-p", Since: at("-2h")},       // EC2 shows it
		{Token: "t-lost", Since: at("-1h")},                           // nothing came of it
		{Token: "t-new", Since: noon.Add(-capacity.LaunchTime)},       // EC2 may not show it yet
		{Token: "t-gone", ReservationID: "cr-gone", Since: at("-1h")}, // it was cancelled elsewhere
	}}
	dir := state.Dir(t.TempDir())
	for _, e := range h.Ledger {
		e.Until = noon.AddDate(1, 0, 0)
		if _, err := dir.AddHold(e, noon, func(capacity.Hold, []capacity.Hold) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []struct {
		refuses error
		want    []string // what the ledger has then
	}{{errors.New("no such id"), []string{"t-p", "t-new"}}, {nil, []string{"t-new"}}} {
		actions := h.releaseActions(h.findUnneeded())
		if len(actions) != 2 || actions[0].About.Reservation != "cr-p" {
			t.Fatalf("%+v", sentences(actions))
		}

		for _, a := range actions {
			if err := a.Do(t.Context(), World{EC2: releasing{err: c.refuses}, State: dir}); !errors.Is(
				err,
				c.refuses,
			) &&
				a.Code == "release" {
				t.Error(err)
			}
		}

		ledger, err := dir.Holds(time.Time{})

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
	if got := foreign.findUnneeded(); len(got) > 0 {
		t.Errorf("another cluster's: %+v", got)
	}

	if time.Hour < capacity.LaunchTime {
		t.Error("an hour is no longer than a launch")
	}
}
