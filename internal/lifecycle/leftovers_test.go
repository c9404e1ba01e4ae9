package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// A pass says what carries our tag and no settings name, until it is gone or the settings name
// it. Where it does not ask, or is not answered, that is what the last pass saw.
func TestLeftoversOfPasses(t *testing.T) {
	w := newStage(t)
	left := []capacity.Made{{What: capacity.MadeTemplate, Name: "nodes", ID: "lt-1", Slot: "gpu", Queue: "gpu"},
		{What: capacity.MadeTemplate, Name: "pcs-capacity-lab-old", ID: "lt-2", Slot: "old", Queue: "old"}}
	const said = "launch template pcs-capacity-lab-old carries the tag of pcs-capacity, and the settings do not name it, so sync does not manage it; add it to the settings again, or remove it with `pcs-capacity teardown --queue old`"
	asked, refuse := 0, error(nil)
	w.sources.Made = func(context.Context, string) ([]capacity.Made, string, error) {
		if asked++; refuse != nil {
			return nil, "", refuse
		}
		return left, "", nil
	}
	told := func(what string, want bool, notes ...string) {
		t.Helper()
		w.GoTo(w.Now().Add(time.Minute))
		snap, report, err := Pass(t.Context(), w.sources)
		if err != nil || slices.Contains(report.Problems, said) != want {
			t.Errorf("%s: %v, %v", what, report.Problems, err)
		}
		if seen, _, _, _ := Look(t.Context(), w.sources); slices.Contains(seen.Problems, said) != want {
			t.Errorf("%s: who looks sees %v", what, seen.Problems)
		}
		for _, note := range notes {
			if !slices.ContainsFunc(snap.Notes, func(n string) bool { return strings.Contains(n, note) }) {
				t.Errorf("%s: %v", what, snap.Notes)
			}
		}
	}
	told("the first pass", true)
	refuse = errors.New("it is not allowed")
	told("not answered", true, "looking for what the settings do not name: it is not allowed")
	refuse, w.sources.OldLeftovers = nil, true
	told("not asked", true)
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	settings := w.sources.Settings
	w.sources.Settings.Partitions = slices.Clone(settings.Partitions)
	w.sources.Settings.Partitions[0].Groups = []capacity.GroupSettings{settings.Partitions[0].Groups[0]}
	w.sources.Settings.Partitions[0].Groups[0].LaunchTemplate = "lt-2:$Latest"
	told("named again", false)
	w.sources.Settings = settings
	told("forgotten since", false)
	w.sources.OldLeftovers = false
	told("asked again", true)
	left = left[:1]
	told("gone", false)
}

func TestWatchListsWhatWasMadeNowAndThen(t *testing.T) {
	w := newStage(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	passes, asked := 0, []int{}
	sources := w.sources
	sources.Poll = time.Millisecond
	sources.Made = func(context.Context, string) ([]capacity.Made, string, error) {
		asked = append(asked, passes)
		return nil, "", nil
	}
	err := Watch{Say: func(string) {}, Sources: func(context.Context, bool) (Sources, error) {
		if passes++; passes > 2*listMade {
			stop()
		}
		return sources, nil
	}}.Run(ctx)
	if err != nil || !slices.Equal(asked[:2], []int{1, 1 + listMade}) {
		t.Errorf("asked in passes %v, %v", asked, err)
	}
}

// A service that has waited for another one begins with the settings of now, not of when it was started.
func TestWatchReadsSettingsAgainAfterItsWait(t *testing.T) {
	w := newStage(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	unlock, err := w.sources.State.Lock(ctx, state.WatchLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	sources := w.sources
	sources.Poll = time.Millisecond
	var read, passes []bool
	err = Watch{Say: func(line string) {
		if strings.HasPrefix(line, "waits: another `sync --watch` runs: process ") {
			unlock()
		}
	}, Alive: func(passed string) {
		if passed == "" {
			passes = append(passes, len(read) == 2)
		}
	}, Sources: func(_ context.Context, renew bool) (Sources, error) {
		if read = append(read, renew); len(read) == 3 {
			stop()
		}
		return sources, nil
	}}.Run(ctx)
	if err != nil || !slices.Equal(read, []bool{false, true, false}) || len(passes) == 0 || !passes[0] {
		t.Errorf("read %v, passes %v, %v", read, passes, err)
	}
}
