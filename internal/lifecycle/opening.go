package lifecycle

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// opened reports whether a slot's block has opened since the previous snapshot: from that minute on it is paid for.
func (v slotView) opened(old, snap *capacity.Snapshot) bool {
	if old == nil || v.current.State != capacity.StateActive || v.window.Start.After(snap.TakenAt) {
		return false
	}
	before, known := old.Reservation(v.current.ID)
	return known && before.State != capacity.StateActive || old.TakenAt.Before(v.window.Start)
}

// openings powers up the nodes of blocks that have just opened, unless the node group is dynamic (only blocks have
// that choice). It does so once: a node that goes down later has no job, and comes back for the next one. PCS itself
// keeps static nodes up.
func openings(s Seen) (effects []capacity.Effect) {
	for _, v := range s.slots() {
		if v.former || !v.partition.Provider.Launches() || v.group.Dynamic || !v.current.Kind.Bought() ||
			!v.opened(s.Old, s.Snap) {
			continue
		}
		nodes := s.Cluster.SlotNodes(v.slot.Name)
		nodes = s.Cluster.those(nodes[:v.launchable(nodes)], func(n capacity.Node) bool { return n.PoweredDown() })
		if len(nodes) > 0 {
			effects = append(effects,
				PowerUp{v.slot.Name, nodes, fmt.Sprintf("%s is open since %s", v.current.ID, capacity.FormatUTC(v.window.Start))})
		}
	}
	return effects
}

// endedBlocks powers down our nodes that are still up under their fence, once their jobs have ended. PCS does so
// itself.
func endedBlocks(s Seen) (effects []capacity.Effect) {
	for _, v := range s.slots() {
		fence := v.window.Fence
		if v.current.ID == "" {
			fence = v.last.Fence
		}
		if !v.partition.Provider.Launches() || fence.IsZero() || fence.After(s.Now) {
			continue
		}
		if nodes := s.Cluster.those(s.Cluster.SlotNodes(v.slot.Name), func(n capacity.Node) bool { return n.Up() }); len(
			nodes,
		) > 0 {
			effects = append(effects, PowerDown{v.slot.Name, nodes, "the reservation ends: powered down under the fence",
				fmt.Sprintf("its fence was at %s", capacity.FormatUTC(fence))})
		}
	}
	return effects
}

// those returns the names of the shown nodes for which of is true.
func (c *Cluster) those(names []string, of func(capacity.Node) bool) (found []string) {
	nodes := c.byName()
	for _, name := range names {
		if n, shown := nodes[name]; shown && of(n) {
			found = append(found, name)
		}
	}
	return found
}
