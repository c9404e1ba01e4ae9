package lifecycle

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestNextBoundary(t *testing.T) {
	snap := oneSlot("ec2", []string{"cr-0", "cr-1"},
		block("cr-0", "1h", "24h", capacity.StateScheduled), block("cr-1", "30h", "48h", capacity.StateScheduled))
	snap.KillWait.Duration = 30 * time.Second
	for _, c := range []struct{ now, next, what string }{
		{"0s", "1h", "opens"}, {"1h", "22h20m", "fence"}, {"22h20m", "23h5m", "fence"}, {"23h5m", "23h15m", "fence"},
		{"23h15m", "23h18m30s", "fence"}, {"23h18m30s", "23h20m", "fence"}, {"23h20m", "23h30m", "EC2 takes instances back"},
		{"23h30m", "24h", "ends"}, {"24h", "30h", "opens"}, {"47h45m", "48h", "ends"},
	} {
		got, ok := NextBoundary(snap, at(c.now))
		if what := Slots(snap, at(c.now))[0].Next.What; !ok || !got.Equal(at(c.next)) || what != c.what {
			t.Errorf("at %s: %s %s, want %s %s", c.now, got, what, at(c.next), c.what)
		}
	}
	if last := Slots(snap, at("49h"))[0]; last.Reservation.ID != "" || !last.Window.End.Equal(at("48h")) || last.Next != (Event{}) {
		t.Errorf("after the end, people still see when it was: %+v", last)
	}
	if got, ok := NextBoundary(snap, at("48h")); ok {
		t.Errorf("after the end: %s", got)
	}
}
