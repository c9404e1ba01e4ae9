package capacity

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Guard describes one of our Slurm reservations: its purpose and its owner. The name of the Slurm reservation carries
// both, because Slurm 22.05 stores nothing else for us:
//
//	pcs-capacity-KIND-SLOT.BLOCK.OWNER[.2]
//
// Slurm has no limit for the length of a name (5,000 characters were accepted).
type Guard struct {
	Kind   GuardKind
	Slot   string
	Block  string // the EC2 reservation's id; "" if there is none
	Owner  string // owner in the settings, see state.OwnerOf
	Second bool   // Second marks the second of two names, so the new one can be made before the old one goes
}

// GuardKind says what one of our Slurm reservations is for.
type GuardKind string

// The kinds.
const (
	GuardFence   GuardKind = "fence"   // from a block's fence on
	GuardWait    GuardKind = "wait"    // until a block opens
	GuardSurplus GuardKind = "surplus" // over nodes beyond the number of instances
)

const (
	noBlock    = "none"
	secondName = ".2"
)

var guardName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^pcs-capacity-(fence|wait|surplus)-(.+)\.(none|cr-[0-9a-z]+)\.([0-9a-f]{8})(\.2)?$`)
})

// String returns the name of the Slurm reservation.
func (g Guard) String() string {
	name := fmt.Sprintf("pcs-capacity-%s-%s.%s.%s", g.Kind, g.Slot, cmp.Or(g.Block, noBlock), g.Owner)
	if g.Second {
		name += secondName
	}

	return name
}

// ParseGuard reads the name of a Slurm reservation; false if the reservation is not ours.
func ParseGuard(name string) (Guard, bool) {
	parts := guardName().FindStringSubmatch(name)
	if parts == nil {
		return Guard{}, false
	}

	g := Guard{
		Kind:   GuardKind(parts[1]),
		Slot:   parts[2],
		Block:  parts[3],
		Owner:  parts[4],
		Second: parts[5] != "",
	}
	if g.Block == noBlock {
		g.Block = ""
	}

	return g, true
}

// Key returns the guard without what may differ between two guards for the same nodes: only one exists at a time.
func (g Guard) Key() Guard {
	g.Owner = ""
	g.Second = false

	return g
}

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

// IsInfinite reports whether the reservation was requested without an end. Slurm may move the start after it has set
// the end, so less than a year may lie between them.
func (r SlurmReservation) IsInfinite() bool {
	return r.End.IsZero() || r.End.Sub(r.Start) >= 300*24*time.Hour
}

// IsOurs reports whether a Slurm reservation carries our mark (R9). PCS's own (<node-group>-scheduled) and
// ParallelCluster's (pcluster-*) are never ours.
func (r SlurmReservation) IsOurs() bool {
	_, named := ParseGuard(r.Name)
	return named && slices.Contains(r.Flags, "IGNORE_JOBS") &&
		(r.IsMaintenance() || slices.Contains(r.Flags, "OVERLAP")) &&
		slices.Equal(r.Users, []string{"root"})
}

// IsMaintenance reports whether Slurm shows the nodes as in maintenance while the reservation is active: see
// Provider.GuardFlags.
func (r SlurmReservation) IsMaintenance() bool { return slices.Contains(r.Flags, "MAINT") }

// Guard returns the purpose of the Slurm reservation, by its name.
func (r SlurmReservation) Guard() Guard {
	g, _ := ParseGuard(r.Name)
	return g
}

// IsFenceFor reports whether it is our fence over a slot for an EC2 reservation.
func (r SlurmReservation) IsFenceFor(slot, block string) bool {
	g := r.Guard()
	return r.IsOurs() && g.Kind == GuardFence && g.Slot == slot && g.Block == block
}

// ignoresFence reports whether Slurm starts the reservation's jobs through a fence over some of its nodes. A job in a
// MAINT reservation heeds no other, one in an OVERLAP reservation none without MAINT (job_test_resv of reservation.c;
// seen on 22.05). Slurm ends a job with its reservation, except with FLEX.
func (r SlurmReservation) ignoresFence(fence SlurmReservation) bool {
	ignores := r.IsMaintenance() || slices.Contains(r.Flags, "OVERLAP") && !fence.IsMaintenance()
	lasts := r.End.IsZero() || r.End.After(fence.Start) || slices.Contains(r.Flags, "FLEX")
	shares := func(node string) bool { return slices.Contains(fence.Nodes, node) }

	return ignores && lasts && slices.ContainsFunc(r.Nodes, shares)
}

// FindFenceBypasses returns the site's Slurm reservations whose jobs Slurm starts through a fence of ours: by name, the
// first of these fences. One for root alone, such as PCS's own, takes no jobs of users.
func FindFenceBypasses(all []SlurmReservation) map[string]SlurmReservation {
	past := map[string]SlurmReservation{}
	for _, r := range all {
		if r.IsOurs() || slices.Equal(r.Users, []string{"root"}) {
			continue
		}

		for _, fence := range all {
			isFence := fence.IsOurs() && fence.Guard().Kind == GuardFence
			if !isFence || !r.ignoresFence(fence) {
				continue
			}

			first, found := past[r.Name]
			if !found || fence.Start.Before(first.Start) {
				past[r.Name] = fence
			}
		}
	}

	return past
}

// FenceBypassProblem reports a site's reservation whose jobs Slurm starts through a fence.
func FenceBypassProblem(reservation string, fence SlurmReservation) Problem {
	return Problemf(PastFence, Subject{Slot: fence.Guard().Slot},
		"let it end by then, or make it without MAINT, OVERLAP and FLEX: "+
			"jobs that end before the fence start in it as well",
		"Slurm starts jobs with --reservation=%s through the fence over %s at %s; "+
			"sync lowers their limits once they run",
		reservation, hostlist.Compress(fence.Nodes), FormatUTC(fence.Start))
}

// warnFenceBypass returns the warning for a job in such a reservation; "" for others.
func warnFenceBypass(req Request, snap *Snapshot) string {
	for name := range strings.SplitSeq(req.Reservation, ",") {
		if fence, is := snap.FenceBypasses[name]; is {
			return fmt.Sprintf(
				"Slurm starts jobs with --reservation=%s even if they do not end before the fence; "+
					"the job's limit is then lowered to end by %s: state a --time that ends before",
				name, FormatUTC(fence))
		}
	}

	return ""
}

// ShiftTimes returns the reservation with its times in a clock that is offset ahead.
func (r SlurmReservation) ShiftTimes(offset time.Duration) SlurmReservation {
	r.Start = r.Start.Add(offset)
	if !r.End.IsZero() {
		r.End = r.End.Add(offset)
	}

	return r
}
