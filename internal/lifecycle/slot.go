package lifecycle

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// slotView is a slot with the reservation that counts in it now: see capacity.Standing.
type slotView struct {
	// owner is whose settings they are.
	owner     string
	partition capacity.Partition
	group     capacity.NodeGroup
	slot      capacity.Slot
	// current is the reservation that has the slot, or else the one that has it first; zero if none is live. Of several
	// without an end it is the first. window is its turn.
	current capacity.Reservation
	window  capacity.Window
	// next has the slot after it; zero if none has.
	next capacity.Turn
	// places is the number of nodes that have instances; 0 if EC2 does not say.
	places int
	// usable is how many of them are on hosts that have not failed; lost are the nodes of the failed ones.
	usable int
	lost   []string
	// last is the window of the reservation that ended last, if none is live.
	last   capacity.Window
	lastID string // "" where it is not known
	// unknown: the slot has a reservation that EC2 did not describe, and none that is live.
	unknown bool
	// former: the settings no longer have the slot.
	former bool
}

// views returns all slots of the snapshot. A slot whose live reservation has left the settings keeps that reservation
// too.
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

// view is the state of a slot. A PCS compute node group holds the block that it was set up for, which comes first;
// further ids wait for a free group.
func view(snap *capacity.Snapshot, p capacity.Partition, g capacity.NodeGroup, s capacity.Slot, before []string,
	now time.Time) slotView {
	v := slotView{partition: p, group: g, slot: s}
	if p.Provider == capacity.ProviderPCS && len(s.ReservationIDs) > 1 {
		s.ReservationIDs = s.ReservationIDs[:1]
	}
	s.ReservationIDs = slices.Concat(s.ReservationIDs, before)
	at := snap.Standing(s, now)
	v.next, v.last, v.lastID, v.unknown = at.Next, at.Last, at.LastID, at.Unknown
	if len(at.Current) > 0 {
		v.current, v.window = at.Current[0].Reservation, at.Current[0].Window
	}
	for _, t := range at.Current {
		size := t.Reservation.Size()
		if size == 0 { // EC2 may report size 0 for a block that has not opened
			v.places, v.usable = 0, 0
			break
		}
		v.places += size
		v.usable += t.Reservation.UsableSize()
	}
	if g.MaxNodes > 0 && v.places > 0 {
		v.places, v.usable = min(v.places, g.MaxNodes), min(v.usable, g.MaxNodes)
	}
	return v
}

// assign finds the nodes of each slot.
// It reads partitions as well as nodes: Slurm 22.05 hides powered-down cloud nodes unless PrivateData has cloud, but
// still lists them in their partition.
func (c *Cluster) assign(settings capacity.Settings) {
	c.slots = map[string][]string{}
	there := map[string]bool{}
	add := func(name string) {
		if there[name] {
			return
		}
		there[name] = true
		_, _, slot, ok := settings.PlaceOf(name)
		if !ok { // of a slot that the settings had before
			slot, ok = capacity.SlotOf(name)
		}
		if ok {
			c.slots[slot] = append(c.slots[slot], name)
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
	for _, names := range c.slots {
		slices.SortFunc(names, capacity.ByNumber)
	}
}

// SlotNodes are the names of a slot's nodes, by their numbers.
func (c *Cluster) SlotNodes(slot string) []string { return c.slots[slot] }

// feature is the slot's name if every shown node of the slot has it as a feature, else "": Slurm would refuse a job
// with a constraint that no node has.
func (c *Cluster) feature(slot string, nodes []string) string {
	shown := c.shown(nodes)
	if len(shown) == 0 ||
		slices.ContainsFunc(shown, func(n capacity.Node) bool { return !slices.Contains(n.Features, slot) }) {
		return ""
	}
	return slot
}

// parts are the numbers of GPUs and CPUs in a node; if the nodes differ, the largest.
func (c *Cluster) parts(nodes []string) (gpus, cpus int) {
	for _, n := range c.shown(nodes) {
		gpus, cpus = max(gpus, n.GPUs), max(cpus, n.CPUs)
	}
	return gpus, cpus
}

// shown are those of the nodes that Slurm shows.
func (c *Cluster) shown(names []string) []capacity.Node {
	of := map[string]bool{}
	for _, name := range names {
		of[name] = true
	}
	var shown []capacity.Node
	for _, n := range c.Nodes {
		if of[n.Name] {
			shown = append(shown, n)
		}
	}
	return shown
}
