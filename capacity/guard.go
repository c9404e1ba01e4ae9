package capacity

import (
	"regexp"
	"slices"
	"strings"
	"sync"
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
