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
		takeOver   bool
		todo       []string
		left       bool
	}{
		"a live block's fence":                     {have: []string{"fence-gpu.cr-1." + me}},
		"an ended block's":                         {have: []string{"fence-gpu.cr-9." + me}, todo: []string{"delete fence-gpu.cr-9." + me}},
		"a wait":                                   {have: []string{"wait-gpu.cr-1." + me}, todo: []string{"delete wait-gpu.cr-1." + me}},
		"a live block's beside the one wanted":     {want: []string{"x"}, have: []string{"fence-gpu.cr-0." + me, "fence-gpu.cr-1." + me}},
		"both names, of a pass that was killed":    {want: []string{"x"}, have: []string{"fence-gpu.cr-0." + me, "fence-gpu.cr-0." + me + ".2"}, todo: []string{"delete fence-gpu.cr-0." + me + ".2"}},
		"both names, of an ended block":            {have: []string{"fence-gpu.cr-9." + me, "fence-gpu.cr-9." + me + ".2"}, todo: []string{"delete fence-gpu.cr-9." + me, "delete fence-gpu.cr-9." + me + ".2"}},
		"of no block, of another slot, taken over": {takeOver: true, have: []string{"fence-old.none." + other}, todo: []string{"replace fence-old.none." + me + " for fence-old.none." + other}},
		"another owner's":                          {have: []string{"fence-gpu.cr-9." + other, "wait-gpu.cr-1." + other}},
		"another owner's, taken over":              {takeOver: true, have: []string{"fence-gpu.cr-1." + other}, todo: []string{"replace fence-gpu.cr-1." + me + " for fence-gpu.cr-1." + other}},
		"another owner's of an ended block":        {takeOver: true, have: []string{"fence-gpu.cr-9." + other}, todo: []string{"delete fence-gpu.cr-9." + other}},
		"another owner's wait":                     {takeOver: true, have: []string{"wait-gpu.cr-1." + other}, todo: []string{"delete wait-gpu.cr-1." + other}},
		"another owner's that is wanted":           {takeOver: true, want: []string{"x"}, have: []string{"fence-gpu.cr-0." + other}, todo: []string{"replace fence-gpu.cr-0." + me + " for fence-gpu.cr-0." + other}},
		"another owner's, taken over half":         {takeOver: true, want: []string{"x"}, have: []string{"fence-gpu.cr-0." + me, "fence-gpu.cr-0." + other}, todo: []string{"delete fence-gpu.cr-0." + other}},
		"an older version's":                       {want: []string{"x"}, have: []string{"fence-gpu"}, todo: []string{"replace fence-gpu.cr-0." + me + " for fence-gpu"}},
		"an older version's beside today's":        {want: []string{"x"}, have: []string{"fence-gpu.cr-0." + me, "fence-gpu"}, todo: []string{"delete fence-gpu"}},
		"an older version's, of other settings":    {have: []string{"fence-old"}, left: true},
		"an older version's, of a slot with none":  {have: []string{"fence-gpu"}, todo: []string{"delete fence-gpu"}},
		"an older version's wait, not wanted here": {have: []string{"wait-old"}, todo: []string{"delete wait-old"}},
	} {
		t.Run(name, func(t *testing.T) {
			var want, have []capacity.SlurmReservation
			if c.want != nil {
				want = append(want, fence)
			}
			for _, n := range c.have {
				have = append(have, there("pcs-capacity-"+n))
			}
			todo, left := steering{owner: me, takeOver: c.takeOver, known: map[string]bool{"gpu": true}, mayGo: over, now: noon}.steps(want, have)
			var got []string
			for _, s := range todo {
				line := s.Do + " " + s.R.Name
				if s.Old != "" {
					line += " for " + s.Old
				}
				got = append(got, strings.ReplaceAll(line, "pcs-capacity-", ""))
			}
			if diff := cmp.Diff(c.todo, got); diff != "" || c.left != (len(left) == 1) {
				t.Errorf("%s, left alone %v", diff, left)
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

// A pass with other settings, or with a state_dir of its own, leaves the live fence of an open
// block alone, says whose it is, and writes nothing.
func TestOtherSettingsChangeNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.openBlock()
	before := w.names()
	mine := w.sources
	theirs := mine
	theirs.Owner, theirs.OwnerIs, theirs.State, theirs.Settings.Partitions = other, "settings other.toml", state.Dir(quickDir(t)), nil
	_, report, err := Pass(t.Context(), theirs)
	if err == nil || len(report.Done) > 0 || !slices.Equal(before, w.names()) {
		t.Errorf("the pass did %v, %v; reservations %q, before %q", report.Done, err, w.names(), before)
	}
	if said := strings.Join(report.Problems, "\n"); !strings.Contains(said, "owner "+me) || !strings.Contains(said, "settings other.toml") || !strings.Contains(said, "sync --take-over") {
		t.Errorf("said: %q", said)
	}
	if _, err := theirs.State.ReadSnapshot(); err == nil {
		t.Error("a snapshot was written")
	}

	// Taken over, the fences are theirs, and it is the others that change nothing.
	theirs.TakeOver = true
	if _, report, err := Pass(t.Context(), theirs); err != nil {
		t.Errorf("%+v, %v", report, err)
	}
	fence, there := w.slurm.guards("solo", "fence", "")
	if !there || fence.Guard().Owner != other {
		t.Errorf("taken over: %q", w.names())
	}
	if _, report, err := Pass(t.Context(), mine); err == nil || len(report.Done) > 0 {
		t.Errorf("the first owner's pass did %+v, %v", report.Done, err)
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

// A fence cannot be placed: what it is to replace stays.
func TestNothingIsDeletedBeforeItsReplacementIsThere(t *testing.T) {
	w := newWorld(t, 1)
	fence := w.openBlock()
	old := fence
	old.Name = "pcs-capacity-fence-solo"
	delete(w.slurm.reservations, fence.Name)
	w.slurm.reservations[old.Name] = old
	w.sources = w.sources.at(noCreate{w.slurm}, w.client)
	if _, err := w.pass(false); err == nil || !slices.Contains(w.names(), old.Name) {
		t.Errorf("%v, %q", err, w.names())
	}
	w.sources = w.sources.at(w.slurm, w.client)
	if _, err := w.pass(false); err != nil || slices.Contains(w.names(), old.Name) || !slices.Contains(w.names(), fence.Name) {
		t.Errorf("%v, %q", err, w.names())
	}
}

// noCreate is a Slurm that makes no reservations.
type noCreate struct{ *model }

func (noCreate) CreateReservation(context.Context, capacity.SlurmReservation) error {
	return errors.New("Invalid node name specified")
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
