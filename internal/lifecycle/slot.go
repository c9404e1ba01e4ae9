package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// slotView is a slot with the reservation that counts in it now.
type slotView struct {
	partition capacity.Partition
	group     capacity.NodeGroup
	slot      capacity.Slot
	// current is the reservation that is open, or else the one that opens first; zero
	// if none is live. next opens after it.
	current, next capacity.Reservation
	window        capacity.Window
	// last is the window of what ended last, when nothing is live.
	last capacity.Window
	// unknown: the slot has a reservation that EC2 did not describe and none that is live.
	unknown bool
	// former: the settings do not have the slot any more.
	former bool
}

// views are all slots of the snapshot. One that the settings have still, but without a
// reservation that was live, keeps that as well.
func views(snap *capacity.Snapshot, now time.Time) []slotView {
	before := map[string][]string{}
	for _, p := range snap.Former {
		slot := p.Groups[0].Slots[0]
		before[slot.Name] = append(before[slot.Name], slot.ReservationIDs...)
	}
	var all []slotView
	for _, p := range snap.Partitions {
		for _, g := range p.Groups {
			for _, s := range g.Slots {
				all = append(all, view(snap, p, g, s, before[s.Name], now))
				delete(before, s.Name)
			}
		}
	}
	for _, p := range snap.Former {
		g := p.Groups[0]
		if s := g.Slots[0]; before[s.Name] != nil {
			v := view(snap, p, g, s, nil, now)
			v.former = true
			all = append(all, v)
		}
	}
	return all
}

// view finds what counts in a slot. A PCS compute node group holds the one block
// that it was set up for, which comes first; further ids wait for a group to be free.
func view(snap *capacity.Snapshot, p capacity.Partition, g capacity.NodeGroup, s capacity.Slot, before []string, now time.Time) slotView {
	v := slotView{partition: p, group: g, slot: s}
	ids := s.ReservationIDs
	if p.Provider == capacity.ProviderPCS && len(ids) > 1 {
		ids = ids[:1]
	}
	ids = slices.Concat(ids, before)
	var live []capacity.Reservation
	for _, id := range ids {
		r, ok := snap.Reservation(id)
		switch {
		case !ok:
			v.unknown = true
		case isLive(r, now):
			live = append(live, r)
		default:
			if w := snap.Timing.Window(r); w.Fence.After(v.last.Fence) {
				v.last = w
			}
		}
	}
	slices.SortStableFunc(live, func(a, b capacity.Reservation) int { return a.Start.Compare(b.Start) })
	if len(live) > 0 {
		v.unknown = false
		v.current = live[0]
		v.window = snap.Timing.Window(live[0])
	}
	if len(live) > 1 {
		v.next = live[1]
	}
	return v
}

// SlotNodes are the names of a slot's nodes, by their numbers.
// Partitions count as well as nodes: Slurm 22.05 hides powered-down cloud nodes unless
// PrivateData has cloud, but still lists them in their partition.
func (c *Cluster) SlotNodes(slot string) []string {
	var mine []string
	there := map[string]bool{}
	add := func(name string) {
		if of, ok := capacity.SlotOf(name); ok && of == slot && !there[name] {
			there[name] = true
			mine = append(mine, name)
		}
	}
	for _, n := range c.Nodes {
		add(n.Name)
	}
	for _, p := range c.Partitions {
		for _, name := range p.Nodes {
			add(name)
		}
	}
	slices.SortFunc(mine, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return mine
}

// feature is the slot's name if every node of the slot that is shown has it as a
// feature, else "": a constraint that no node has would make Slurm refuse the job.
func (c *Cluster) feature(slot string, nodes []string) string {
	shown := 0
	for _, n := range c.Nodes {
		if !slices.Contains(nodes, n.Name) {
			continue
		}
		shown++
		if !slices.Contains(n.Features, slot) {
			return ""
		}
	}
	if shown == 0 {
		return ""
	}
	return slot
}
