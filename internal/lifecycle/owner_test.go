package lifecycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

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
		"a live block's fence":                  {have: []string{"fence-gpu.cr-1." + me}},
		"an ended block's":                      {have: []string{"fence-gpu.cr-9." + me}, todo: []string{"delete fence-gpu.cr-9." + me}},
		"a wait":                                {have: []string{"wait-gpu.cr-1." + me}, todo: []string{"delete wait-gpu.cr-1." + me}},
		"a live block's beside the one wanted":  {want: []string{"x"}, have: []string{"fence-gpu.cr-0." + me, "fence-gpu.cr-1." + me}},
		"both names, of a pass that was killed": {want: []string{"x"}, have: []string{"fence-gpu.cr-0." + me, "fence-gpu.cr-0." + me + ".2"}, todo: []string{"delete fence-gpu.cr-0." + me + ".2"}},
		"both names, of an ended block":         {have: []string{"fence-gpu.cr-9." + me, "fence-gpu.cr-9." + me + ".2"}, todo: []string{"delete fence-gpu.cr-9." + me, "delete fence-gpu.cr-9." + me + ".2"}},
		"another owner's":                       {have: []string{"fence-gpu.cr-9." + other, "wait-gpu.cr-1." + other}},
	} {
		t.Run(name, func(t *testing.T) {
			var want, have []capacity.SlurmReservation
			if c.want != nil {
				want = append(want, fence)
			}
			for _, n := range c.have {
				have = append(have, there("pcs-capacity-"+n))
			}
			todo, _ := steering{owner: me, mayGo: over, now: noon}.steps(want, have)
			var got []string
			for _, s := range todo {
				line := s.Do + " " + s.R.Name
				if s.Old != "" {
					line += " for " + s.Old
				}
				got = append(got, strings.ReplaceAll(line, "pcs-capacity-", ""))
			}
			if diff := cmp.Diff(c.todo, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// openBlock has a block open in slot solo, and its fence placed. It returns the fence.
func (w *world) openBlock() capacity.SlurmReservation {
	w.Helper()
	w.buy("solo", 2, 24*time.Hour)
	w.seeBlocks()
	for _, b := range w.blocks {
		w.goTo(b.start.Add(time.Second))
	}
	if _, err := w.pass(false); err != nil {
		w.Fatal(err)
	}
	fence, there := w.slurm.guards("solo", "fence", "")
	if !there || fence.Guard().Block == "" {
		w.Fatalf("no fence: %s", w.state())
	}
	return fence
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.slurm.reservations)) }

// A pass with other settings leaves the fence of an open block alone, and names it.
func TestOtherSettingsLeaveFencesAlone(t *testing.T) {
	w := newWorld(t, 1)
	fence := w.openBlock()
	theirs := w.sources
	theirs.Owner, theirs.OwnerIs, theirs.State, theirs.Settings.Partitions = other, "settings other.toml", state.Dir(quickDir(t)), nil
	_, report, err := Pass(t.Context(), theirs)
	if err != nil || !slices.Contains(w.names(), fence.Name) {
		t.Errorf("the pass did %v, %v; reservations %q", report.Done, err, w.names())
	}
	if said := strings.Join(report.Problems, "\n"); !strings.Contains(said, "`scontrol delete ReservationName="+fence.Name+"`") {
		t.Errorf("said: %q", said)
	}
}

// A fence stays while its block is live, with settings that do not name it and without any file
// in state_dir; it goes when the block has ended.
func TestAFenceGoesWithItsBlockOnly(t *testing.T) {
	w := newWorld(t, 1)
	fence := w.openBlock()
	w.sources.Settings.Partitions = nil
	w.sources.State = state.Dir(quickDir(t))
	snap, err := w.pass(false)
	if _, there := w.slurm.reservations[fence.Name]; err != nil || !there || !strings.Contains(strings.Join(snap.Problems, "\n"), "no longer name reservation "+fence.Guard().Block) {
		t.Fatalf("%v, there: %t, problems %q", err, there, snap.Problems)
	}
	w.goTo(fence.Start.Add(41 * time.Minute)) // the margin, what EC2 takes, and a minute
	if snap, err := w.pass(false); err != nil || len(w.names()) > 0 {
		t.Errorf("after its end: %v, %q, problems %q", err, w.names(), snap.Problems)
	}
}

// answering is EC2 with another answer about reservations by id.
type answering struct {
	clocked
	missing []capacity.Missing
	err     error
}

func (a answering) Reservations(context.Context, []string) ([]capacity.Reservation, []capacity.Missing, error) {
	return nil, a.missing, a.err
}

// An error of EC2 is no end of a block; an id that EC2 has not described for an hour is.
func TestAFenceOfAnUnknownReservation(t *testing.T) {
	w := newWorld(t, 1)
	fence := w.openBlock()
	w.sources.Settings.Partitions = nil
	w.sources.State = state.Dir(quickDir(t))
	good := w.sources.EC2.(clocked)
	after := func(what string, ec2 EC2, wait time.Duration, stays bool) {
		t.Helper()
		w.sources.EC2 = ec2
		w.goTo(w.now().Add(wait))
		_, _ = w.pass(false)
		if _, there := w.slurm.reservations[fence.Name]; there != stays {
			t.Errorf("%s: there: %t", what, there)
		}
	}
	missing := answering{good, []capacity.Missing{{ID: fence.Guard().Block, Err: errors.New("InvalidCapacityReservationId.NotFound")}}, nil}
	after("an error", answering{good, nil, errDown}, 0, true)
	after("an error for two hours", answering{good, nil, errDown}, 2*time.Hour, true)
	unread := answering{good, []capacity.Missing{{ID: fence.Guard().Block, Err: errDown, Unread: true}}, nil}
	after("an answer that cannot be read", unread, 0, true)
	after("that for two hours", unread, 2*time.Hour, true)
	after("left out of one answer", missing, 0, true)
	after("described again", good, 50*time.Minute, true)
	after("left out again", missing, 30*time.Minute, true)
	after("for most of an hour", missing, 59*time.Minute, true)
	after("for an hour", missing, 2*time.Minute, false)
}

// The fence of a block to come stays, moved to no other time, while an open block has the slot,
// nobody says that the settings do not name it, and jobs get the open block's nodes.
func TestAnOpenBlockIsAddedBeforeAFutureOne(t *testing.T) {
	nodes := []string{"gpu-1", "gpu-2"}
	later, now := block("cr-1", "48h", "72h", capacity.StateScheduled), block("cr-0", "-1h", "24h", capacity.StateActive)
	snap := oneSlot("ec2", []string{"cr-1"}, later)
	want := func() (all []capacity.SlurmReservation) {
		for _, v := range views(snap, noon) {
			v.owner = me
			all = append(all, v.wanted(nodes, noon)...)
		}
		return all
	}
	have := want()
	snap.Partitions[0].Groups[0].Slots[0].ReservationIDs = []string{"cr-1", "cr-0"}
	snap.Reservations = append(snap.Reservations, now)
	seen := Seen{Owner: me, Snap: snap, Now: noon, Cluster: &Cluster{Reservations: have}}
	todo, left := steering{owner: me, mayGo: seen.mayGo, now: noon}.steps(want(), have)
	var got []string
	for _, s := range todo {
		got = append(got, s.Do+" "+capacity.PlainName(s.R.Name)+" "+s.R.Guard().Block)
	}
	if diff := cmp.Diff([]string{"create pcs-capacity-fence-gpu cr-0", "delete pcs-capacity-wait-gpu cr-1"}, got); diff != "" || left != nil {
		t.Errorf("%s%v", diff, left)
	}
	if told := seen.keptFences(todo); len(told) > 0 {
		t.Errorf("told: %v", told)
	}
}
