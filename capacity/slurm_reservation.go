package capacity

import (
	"slices"
	"strings"
	"time"
)

// SlurmReservation is a reservation of Slurm (scontrol). A [Reservation] is one of EC2.
type SlurmReservation struct {
	Name    string
	Nodes   []string
	Start   time.Time
	End     time.Time // zero when asked for: infinite, which Slurm turns into Start + 365 days
	Flags   []string  // such as MAINT, IGNORE_JOBS; Slurm adds SPEC_NODES and others
	Users   []string
	Comment string // Slurm 22.05 has none
	Active  bool   // it has started and not ended
}

// SlurmInfinite is what Slurm makes of Duration=infinite.
const SlurmInfinite = 365 * 24 * time.Hour

// Infinite is true for a reservation without an end of its own. Slurm may move the start after
// it has set the end, so that less than a year lies between them.
func (r SlurmReservation) Infinite() bool {
	return r.End.IsZero() || r.End.Sub(r.Start) >= 300*24*time.Hour
}

// Ours reports whether a Slurm reservation carries our mark (R9). PCS's own
// (<node-group>-scheduled) and ParallelCluster's (pcluster-*) are never ours.
func (r SlurmReservation) Ours() bool {
	_, named := ParseGuard(r.Name)
	return named && !strings.HasSuffix(r.Name, "-scheduled") && slices.Contains(r.Flags, "MAINT") && slices.Contains(r.Flags, "IGNORE_JOBS") &&
		slices.Equal(r.Users, []string{"root"})
}

// Guard is what the Slurm reservation is for, by its name.
func (r SlurmReservation) Guard() Guard {
	g, _ := ParseGuard(r.Name)
	return g
}

// Fences reports whether it is a fence of ours over a slot, for a reservation of EC2. Names of
// older versions do not say for which.
func (r SlurmReservation) Fences(slot, block string) bool {
	g := r.Guard()
	return r.Ours() && g.Kind == GuardFence && g.Slot == slot && (g.Block == block || g.Owner == "")
}

// ByClock is the reservation with its times in another clock, which is offset ahead.
func (r SlurmReservation) ByClock(offset time.Duration) SlurmReservation {
	r.Start = r.Start.Add(offset)
	if !r.End.IsZero() {
		r.End = r.End.Add(offset)
	}
	return r
}
