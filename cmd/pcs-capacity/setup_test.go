package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Behind its fence a reservation takes no job, and setup sends nobody there.
func TestWhatUsersCan(t *testing.T) {
	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }
	timing := capacity.Timing{DrainMargin: d(10 * time.Minute), ReclaimLead: d(30 * time.Minute)}
	end := simStart.Add(24 * time.Hour)
	block := capacity.Reservation{ID: "cr-1", Kind: capacity.CapacityBlock, State: capacity.StateActive, Start: simStart, End: end}
	endless := capacity.Reservation{ID: "cr-2", Kind: capacity.ODCR, State: capacity.StateActive, Start: simStart}
	for name, c := range map[string]struct {
		r    capacity.Reservation
		now  time.Time
		says string
	}{
		"before it opens":  {block, simStart.Add(-time.Hour), "Users can submit:\n  sbatch --partition=gpu --nodes=4 train.sh"},
		"open":             {block, end.Add(-41 * time.Minute), "Users can submit:"},
		"behind the fence": {block, end.Add(-40 * time.Minute), "No job starts in cr-1 any more: jobs had to be gone by 2026-11-21 11:20 UTC. Users of gpu wait for its next reservation."},
		"not in Slurm":     {block, simStart, "Then users can submit:\n  sbatch"},
		"over":             {block, end.Add(time.Hour), "No job starts in cr-1"},
		"without an end":   {endless, end, "Users can submit:"},
	} {
		if got := whatUsersCan(c.r, timing, "gpu", 4, name != "not in Slurm", c.now); !strings.HasPrefix(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
