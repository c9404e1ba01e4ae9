package lifecycle

import (
	"context"
	"errors"
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
