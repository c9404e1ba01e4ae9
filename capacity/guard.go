package capacity

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Guard is what a Slurm reservation of ours is there for, and whose it is. Its name says so,
// because Slurm 22.05 keeps nothing else of ours:
//
//	pcs-capacity-KIND-SLOT[.NODE].BLOCK.OWNER[.2]
//
// Slurm has no limit for the length of a name (5,000 characters were taken).
type Guard struct {
	Kind  GuardKind
	Slot  string
	Node  string // of kind health
	Block string // the reservation of EC2; "" where there is none
	Owner string // of the settings, see state.Owner; "" in a name of an older version
	// Second is the other one of two names, so that one is made before the other goes.
	Second bool
}

// GuardKind is what a Slurm reservation of ours does.
type GuardKind string

// The kinds.
const (
	GuardFence   GuardKind = "fence"   // from the end of a block on
	GuardWait    GuardKind = "wait"    // until a block opens
	GuardSurplus GuardKind = "surplus" // over nodes that there is no instance for
	GuardHealth  GuardKind = "health"  // over a node until the site's health command has passed
)

const (
	guardPrefix = "pcs-capacity-"
	noBlock     = "none"
	secondName  = ".2"
)

var (
	guardKinds = []GuardKind{GuardFence, GuardWait, GuardSurplus, GuardHealth}
	guardName  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(.+)\.(none|cr-[0-9a-z]+)\.([0-9a-f]{8})(\.2)?$`)
	})
)

// String is the name of the Slurm reservation.
func (g Guard) String() string {
	name := guardPrefix + string(g.Kind) + "-" + g.Slot
	if g.Node != "" {
		name += "." + g.Node
	}
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

// ParseGuard reads the name of a Slurm reservation; false for one that is none of ours.
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
	if g.Kind == GuardHealth {
		if g.Slot, g.Node, ok = strings.Cut(rest, "."); !ok {
			return Guard{}, false
		}
	}
	return g, true
}

// Place is what one reservation at a time is for.
func (g Guard) Place() Guard {
	g.Owner, g.Second = "", false
	return g
}

// Of is the same of another owner.
func (g Guard) Of(owner string) Guard {
	g.Owner, g.Second = owner, false
	return g
}

// PlainName is the name of a Slurm reservation without block and owner: pcs-capacity-fence-gpu.
// One that is not ours keeps its own.
func PlainName(name string) string {
	if g, ok := ParseGuard(name); ok {
		g.Owner = ""
		return g.String()
	}
	return name
}
