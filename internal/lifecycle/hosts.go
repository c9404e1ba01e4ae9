package lifecycle

import (
	"slices"
)

// lost returns the nodes of a slot that stand for its failed hosts: as many as EC2 counts, chosen from nodes that
// take no jobs. A job of the whole block then waits in the queue instead of being launched in vain. nodes are those
// with instances. A lost node stays lost while it stays down.
func (c *Cluster) lost(v slotView, nodes []string) []string {
	missing := min(v.places-v.usable, len(nodes))
	if v.places == 0 || missing <= 0 {
		return nil
	}
	byName := c.byName()
	var before []string
	for _, r := range c.Reservations {
		if g := r.Guard(); g.Kind == "surplus" && g.Slot == v.slot.Name && r.Ours() {
			before = append(before, r.Nodes...)
		}
	}
	// A down node is stronger evidence than one that is off, so it is lost first.
	rank := func(name string) int {
		switch n := byName[name]; {
		case slices.Contains(before, name):
			return 0
		case !n.PoweredDown():
			return 1
		}
		return 2
	}
	var out []string
	for _, name := range slices.Backward(nodes) {
		n, shown := byName[name]
		if idle := !shown || n.PoweredDown() || !n.Up() && !n.Boots(); idle {
			out = append(out, name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	return out[:min(missing, len(out))]
}
