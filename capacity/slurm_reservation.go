package capacity

import (
	"slices"
	"strings"
	"time"
)

// SlurmReservation is a Slurm reservation (scontrol). A [Reservation] is an EC2 one.
type SlurmReservation struct {
	Name    string
	Nodes   []string
	Start   time.Time
	End     time.Time // zero in a request means infinite, which Slurm stores as Start + 365 days
	Flags   []string  // MAINT, IGNORE_JOBS, …; Slurm adds SPEC_NODES and others
	Users   []string
	Comment string // Slurm 22.05 has no comments
	Active  bool   // it has started and not ended
	Unread  string // what Slurm shows and nobody can read
}

// SlurmInfinite is the length that Slurm stores for Duration=infinite.
const SlurmInfinite = 365 * 24 * time.Hour

// Infinite is true for a reservation that was requested without an end. Slurm may move the start after it has set the
// end, so less than a year may lie between them.
func (r SlurmReservation) Infinite() bool {
	return r.End.IsZero() || r.End.Sub(r.Start) >= 300*24*time.Hour
}

// Ours reports whether a Slurm reservation carries our mark (R9). PCS's own
// (<node-group>-scheduled) and ParallelCluster's (pcluster-*) are never ours.
func (r SlurmReservation) Ours() bool {
	_, named := ParseGuard(r.Name)
	return named && !strings.HasSuffix(r.Name, "-scheduled") && slices.Contains(r.Flags, "IGNORE_JOBS") &&
		(r.Maintenance() || slices.Contains(r.Flags, "OVERLAP")) &&
		slices.Equal(r.Users, []string{"root"})
}

// Maintenance reports whether Slurm shows the nodes as in maintenance while the reservation is active: see
// Provider.GuardFlags.
func (r SlurmReservation) Maintenance() bool { return slices.Contains(r.Flags, "MAINT") }

// Guard is the purpose of the Slurm reservation, by its name.
func (r SlurmReservation) Guard() Guard {
	g, _ := ParseGuard(r.Name)
	return g
}

// Fences reports whether it is our fence over a slot for an EC2 reservation. Names written by older versions do not
// name the EC2 reservation.
func (r SlurmReservation) Fences(slot, block string) bool {
	g := r.Guard()
	return r.Ours() && g.Kind == GuardFence && g.Slot == slot && (g.Block == block || g.Owner == "")
}

// ByClock is the reservation with its times in a clock that is offset ahead.
func (r SlurmReservation) ByClock(offset time.Duration) SlurmReservation {
	r.Start = r.Start.Add(offset)
	if !r.End.IsZero() {
		r.End = r.End.Add(offset)
	}
	return r
}
