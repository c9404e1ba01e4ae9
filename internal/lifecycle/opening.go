package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// powerUpAgain is how long after a power-up sync tries again the nodes that are off still, or once more.
const powerUpAgain = 15 * time.Minute

// openings powers up the nodes of open blocks, which are paid, unless the node group is dynamic (only blocks have that
// choice). PCS itself keeps static nodes up.
func openings(s Seen) (effects []capacity.Effect) {
	for _, v := range s.slots() {
		open := v.current.State == capacity.StateActive && !v.window.Start.After(s.Now) &&
			v.window.Fence.After(s.Now.Add(s.Snap.Timing.BootAllowance.Duration))
		if v.former || !v.partition.Provider.Launches() || v.group.Dynamic || !v.current.Kind.Bought() || !open ||
			s.Now.Before(s.Old.PoweredUp(v.slot.Name).Add(powerUpAgain)) {
			continue
		}
		nodes := s.Cluster.SlotNodes(v.slot.Name)
		nodes = nodes[:v.launchable(nodes)]
		busy := s.Cluster.lost(v, nodes)
		for _, o := range s.Snap.Orphans { // ended first
			busy = append(busy, o.Node)
		}
		for node := range s.completing() {
			busy = append(busy, node)
		}
		nodes = s.Cluster.those(nodes, func(n capacity.Node) bool {
			return n.PoweredDown() && n.Base() == "IDLE" && n.Out() == "" && !slices.Contains(busy, n.Name)
		})
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
