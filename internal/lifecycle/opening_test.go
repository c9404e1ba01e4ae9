package lifecycle

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A block opens once: when EC2 first says so, at its start or a little later.
func TestOpened(t *testing.T) {
	seen := func(now string, state capacity.State) *capacity.Snapshot {
		snap := oneSlot("ec2", []string{"cr-0"}, block("cr-0", "1h", "24h", state))
		snap.TakenAt = at(now)
		return snap
	}
	for name, c := range map[string]struct {
		old, now *capacity.Snapshot
		want     bool
	}{
		"at its start":                      {seen("59m", capacity.StateScheduled), seen("1h", capacity.StateActive), true},
		"before it":                         {seen("58m", capacity.StateScheduled), seen("59m", capacity.StateScheduled), false},
		"EC2 is late":                       {seen("59m", capacity.StateScheduled), seen("1h", capacity.StateScheduled), false},
		"EC2 was late":                      {seen("1h", capacity.StateScheduled), seen("1h1m", capacity.StateActive), true},
		"EC2 is early":                      {seen("59m", capacity.StateActive), seen("1h", capacity.StateActive), true},
		"it is open already":                {seen("1h", capacity.StateActive), seen("1h1m", capacity.StateActive), false},
		"nobody has looked for hours":       {seen("10m", capacity.StateScheduled), seen("5h", capacity.StateActive), true},
		"nothing is known of what was":      {nil, seen("1h", capacity.StateActive), false},
		"it is new, and has long been open": {&capacity.Snapshot{TakenAt: at("2h")}, seen("2h1m", capacity.StateActive), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := views(c.now, c.now.TakenAt)[0].opened(c.old, c.now); got != c.want {
				t.Errorf("%t, want %t", got, c.want)
			}
		})
	}
}
