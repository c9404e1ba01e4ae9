package capacity

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Guard is the purpose and the owner of one of our Slurm reservations. The name of the Slurm reservation carries
// both, because Slurm 22.05 stores nothing else for us:
//
//	pcs-capacity-KIND-SLOT.BLOCK.OWNER[.2]
//
// Slurm has no limit for the length of a name (5,000 characters were accepted).
type Guard struct {
	Kind  GuardKind
	Slot  string
	Block string // the EC2 reservation's id; "" if there is none
	Owner string // owner in the settings, see state.Owner; "" in a name that this program does not write
	// Second marks the second of two names, so the new one can be made before the old one goes.
	Second bool
}

// GuardKind is what one of our Slurm reservations is for.
type GuardKind string

// The kinds.
const (
	GuardFence   GuardKind = "fence"   // from a block's fence on
	GuardWait    GuardKind = "wait"    // until a block opens
	GuardSurplus GuardKind = "surplus" // over nodes beyond the number of instances
)

const (
	guardPrefix = "pcs-capacity-"
	noBlock     = "none"
	secondName  = ".2"
)

var (
	guardKinds = []GuardKind{GuardFence, GuardWait, GuardSurplus}
	guardName  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(.+)\.(none|cr-[0-9a-z]+)\.([0-9a-f]{8})(\.2)?$`)
	})
)

// String is the name of the Slurm reservation.
func (g Guard) String() string {
	name := guardPrefix + string(g.Kind) + "-" + g.Slot
	if g.Owner == "" {
		return name
	}
	if g.Block == "" {
		g.Block = noBlock
	}
	name += "." + g.Block + "." + g.Owner
	if g.Second {
		name += secondName
	}
	return name
}

// ParseGuard reads the name of a Slurm reservation; false if the reservation is not ours.
func ParseGuard(name string) (Guard, bool) {
	rest, ok := strings.CutPrefix(name, guardPrefix)
	if !ok {
		return Guard{}, false
	}
	var g Guard
	kind, rest, _ := strings.Cut(rest, "-")
	g.Kind = GuardKind(kind)
	if !slices.Contains(guardKinds, g.Kind) || rest == "" {
		return Guard{}, false
	}
	if parts := guardName().FindStringSubmatch(rest); parts != nil {
		rest, g.Block, g.Owner, g.Second = parts[1], parts[2], parts[3], parts[4] != ""
		if g.Block == noBlock {
			g.Block = ""
		}
	}
	g.Slot = rest
	return g, true
}

// Place is the guard without what may differ between two guards for the same nodes: only one exists at a time.
func (g Guard) Place() Guard {
	g.Owner, g.Second = "", false
	return g
}

// PlainName is the name of a Slurm reservation without block and owner: pcs-capacity-fence-gpu. Other names stay as
// they are.
func PlainName(name string) string {
	if g, ok := ParseGuard(name); ok {
		g.Owner = ""
		return g.String()
	}
	return name
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
