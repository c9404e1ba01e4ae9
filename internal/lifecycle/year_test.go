//go:build !race

package lifecycle

import (
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// TestSixWeeks lives through six weeks of random blocks, extensions, payments that fail, dead hosts, blocks that overlap,
// hours without AWS, clocks that jump and passes that are killed. PCS_CAPACITY_SEED gives others.
func TestSixWeeks(t *testing.T) { live(t, yearBegins.AddDate(0, 0, 6*7)) }

// TestRareYear lives through a year of them.
func TestRareYear(t *testing.T) { live(t, yearBegins.AddDate(1, 0, 0)) }

func live(t *testing.T, ends time.Time) {
	seed := uint64(2)
	if given := os.Getenv("PCS_CAPACITY_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("PCS_CAPACITY_SEED=%d", seed)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // memory is not what is short here
	w := newWorld(t, seed)
	w.slurm.collapses = w.chance(2)
	snap, err := w.pass(false)
	if err != nil {
		t.Fatal(err)
	}
	jumped := false
	for w.now().Before(ends) && !t.Failed() {
		if !jumped {
			next := w.now().Add(time.Duration(1+w.rng.IntN(900)) * time.Minute)
			near := false
			if at, ok := NextBoundary(snap, w.now()); ok && !at.After(next) {
				next = at.Add(time.Second) // as Watch does
			}
			for _, s := range Slots(snap, w.now()) {
				left := s.Window.Fence.Sub(w.now())
				near = near || s.Reservation.ID != "" && left > -2*time.Minute && left < 12*time.Minute
			}
			if poll := w.now().Add(3 * time.Minute); near && poll.Before(next) {
				next = poll
			}
			w.goTo(next)
		}
		now, err := w.pass(w.chance(10))
		snap = now
		if err == nil {
			w.holds(snap)
			w.paid()
		}
		jumped = w.something(snap)
		w.forget(2 * 24 * time.Hour)
	}
	w.forget(0)
	t.Logf("%d simulated days: %v", int(w.now().Sub(yearBegins).Hours()/24), w.counts)
}
