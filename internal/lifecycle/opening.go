package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// opened reports whether a slot's block has opened since the snapshot before: it is paid for
// from that minute on.
func (v slotView) opened(old, snap *capacity.Snapshot) bool {
	if old == nil || v.current.State != capacity.StateActive || v.window.Start.After(snap.TakenAt) {
		return false
	}
	before, known := old.Reservation(v.current.ID)
	return known && before.State != capacity.StateActive || old.TakenAt.Before(v.window.Start)
}

// powerUp powers the nodes of blocks up that have just opened, unless their node group is
// dynamic, a choice that only blocks have. It does so once: a node that goes down later is needed by no job, and comes back
// for the next one. PCS keeps up what is static itself.
func (p *pass) powerUp(ctx context.Context, slots []slotView) {
	down := map[string]bool{}
	for _, n := range p.cluster.Nodes {
		down[n.Name] = n.PoweredDown
	}
	for _, v := range slots {
		if v.former || v.partition.Provider != capacity.ProviderEC2 || v.group.Dynamic || v.current.Kind != capacity.CapacityBlock || !v.opened(p.old, p.snap) {
			continue
		}
		nodes := p.cluster.SlotNodes(v.slot.Name)
		nodes = nodes[:v.launchable(nodes)]
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return !down[name] })
		if len(nodes) > 0 {
			p.did(Done{Do: "power-up", Slot: v.slot.Name, Message: fmt.Sprintf("slot %s: powering %s up, %s is open since %s",
				v.slot.Name, p.Slurm.Hostlist(nodes), v.current.ID, capacity.FormatUTC(v.window.Start))}, p.Slurm.PowerUp(ctx, nodes))
		}
	}
}
