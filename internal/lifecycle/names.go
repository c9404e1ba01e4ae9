package lifecycle

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// guard is what a Slurm reservation of ours is there for, and whose it is. Its name says so,
// because Slurm 22.05 keeps nothing else of ours:
//
//	pcs-capacity-KIND-SLOT[.NODE].BLOCK.OWNER[.2]
//
// Slurm has no limit for the length of a name (5,000 characters were taken).
type guard struct {
	kind  string // fence, wait, surplus or health
	slot  string
	node  string // of kind health
	block string // the reservation of EC2; "" where there is none
	owner string // of the settings, see state.Owner; "" in a name of an older version
	// second is the other one of two names, so that one is made before the other goes.
	second bool
}

const (
	guardPrefix = "pcs-capacity-"
	noBlock     = "none"
	secondName  = ".2"
)

var (
	guardKinds = []string{"fence", "wait", "surplus", "health"}
	guardName  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(.+)\.(none|cr-[0-9a-z]+)\.([0-9a-f]{8})(\.2)?$`)
	})
)

func (g guard) String() string {
	name := guardPrefix + g.kind + "-" + g.slot
	if g.node != "" {
		name += "." + g.node
	}
	if g.owner == "" {
		return name
	}
	if g.block == "" {
		g.block = noBlock
	}
	name += "." + g.block + "." + g.owner
	if g.second {
		name += secondName
	}
	return name
}

// guardOf reads the name of a Slurm reservation; false for one that is none of ours.
func guardOf(name string) (guard, bool) {
	rest, ok := strings.CutPrefix(name, guardPrefix)
	if !ok {
		return guard{}, false
	}
	var g guard
	g.kind, rest, _ = strings.Cut(rest, "-")
	if !slices.Contains(guardKinds, g.kind) || rest == "" {
		return guard{}, false
	}
	if parts := guardName().FindStringSubmatch(rest); parts != nil {
		rest, g.block, g.owner, g.second = parts[1], parts[2], parts[3], parts[4] != ""
		if g.block == noBlock {
			g.block = ""
		}
	}
	g.slot = rest
	if g.kind == "health" {
		if g.slot, g.node, ok = strings.Cut(rest, "."); !ok {
			return guard{}, false
		}
	}
	return g, true
}

// place is what one reservation at a time is for.
func (g guard) place() guard {
	g.owner, g.second = "", false
	return g
}

// of is the same of another owner.
func (g guard) of(owner string) guard {
	g.owner, g.second = owner, false
	return g
}

// PlainName is the name of a Slurm reservation without block and owner: pcs-capacity-fence-gpu.
// One that is not ours keeps its own.
func PlainName(name string) string {
	if g, ok := guardOf(name); ok {
		g.owner = ""
		return g.String()
	}
	return name
}

// guard is what the Slurm reservation is for, by its name.
func (r Reservation) guard() guard {
	g, _ := guardOf(r.Name)
	return g
}

// fences reports whether it is a fence of ours over a slot, for a reservation of EC2. Names of
// older versions do not say for which.
func (r Reservation) fences(slot, block string) bool {
	g := r.guard()
	return ours(r) && g.kind == "fence" && g.slot == slot && (g.block == block || g.owner == "")
}
