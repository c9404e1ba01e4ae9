package lifecycle

import (
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

// An error of EC2 is no end of a block; an id that EC2 has not described for an hour is.
func TestAFenceOfAnUnknownReservation(t *testing.T) {
	st := newStage(t)
	st.openBlock()
	st.sources.Settings.Partitions = nil
	st.sources.State = state.Dir(quickDir(t))
	after := func(what string, hidden bool, err error, wait time.Duration, stays bool) {
		t.Helper()
		st.aws.Hidden, st.fails["describe reservations"] = nil, err
		if hidden {
			st.aws.Hidden = []string{"cr-1"}
		}
		st.GoTo(st.Now().Add(wait))
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
