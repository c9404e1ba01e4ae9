package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// slotView is a slot with the reservation that counts in it now: see capacity.Standing.
type slotView struct {
	// owner is whose settings they are, ownerIs describes it.
	owner, ownerIs string
	partition      capacity.Partition
	group          capacity.NodeGroup
	slot           capacity.Slot
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

// out returns the nodes to which Slurm gives no job, by state and reason.
func (c *Cluster) out(names []string) []capacity.NodesOut {
	type kind struct{ state, reason string }
	var kinds []kind
	nodes := map[kind][]string{}
	byName := c.byName()
	for _, name := range names {
		n := byName[name]
		if n.Out() == "" {
			continue
		}
		k := kind{n.Out(), n.Reason}
		if nodes[k] == nil {
			kinds = append(kinds, k)
		}
		nodes[k] = append(nodes[k], name)
	}
	var all []capacity.NodesOut
	for _, k := range kinds {
		all = append(all, capacity.NodesOut{Nodes: hostlist.Compress(nodes[k]), Count: len(nodes[k]), State: k.state, Reason: k.reason})
	}
	return all
}

// ourReason begins the reasons of nodes that sync drains and reports itself.
const ourReason = "pcs-capacity: "

// outOfService reports the nodes of open reservations that are paid for and get no job.
func outOfService(s Seen) (problems []capacity.Problem) {
	for _, v := range s.slots() {
		open := v.current.State == capacity.StateActive && !v.window.Start.After(s.Now) &&
			(v.window.Unbounded() || v.window.Fence.After(s.Now))
		if !open || v.former {
			continue
		}
		for _, o := range slices.DeleteFunc(slices.Clone(v.slot.Out), func(o capacity.NodesOut) bool { return strings.HasPrefix(o.Reason, ourReason) }) {
			problems = append(
				problems,
				capacity.Problemf(capacity.OutOfService,
					capacity.Subject{Partition: v.partition.Name, Slot: v.slot.Name, Node: o.Nodes, Reservation: v.current.ID},
					fmt.Sprintf("when that is mended: `%s`", capacity.GiveBack(o.Nodes, o.State, v.partition.Provider)),
					"%s is open and paid, and no job gets nodes %s", v.current.ID, o),
			)
		}
	}
	return problems
}

// unlocked names the partitions whose allow_accounts Slurm does not enforce.
func unlocked(snap *capacity.Snapshot, c *Cluster) []capacity.Problem {
	var problems, last []capacity.Problem
	for _, p := range snap.Partitions {
		i := slices.IndexFunc(c.Partitions, func(sp capacity.SlurmPartition) bool { return sp.Name == p.Name })
		if i < 0 {
			continue
		}
		for _, m := range capacity.Unlocked(p, c.Partitions[i].AllowAccounts, c.Accounting()) {
			if m.Code == capacity.AccountsUnchecked { // true of the whole cluster, so reported once
				last = []capacity.Problem{m}
			} else {
				problems = append(problems, m)
			}
		}
	}
	return append(problems, last...)
}

// Event is the next thing that happens to a slot.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// SlotStatus is the state of a slot now, for people.
type SlotStatus struct {
	Partition   capacity.Partition
	Group       capacity.NodeGroup
	Slot        capacity.Slot
	Reservation capacity.Reservation // zero if none is live
	// Window is the reservation's window; if none is live, that of the one that ended last.
	Window capacity.Window
	// Unknown: EC2 did not describe the slot's reservation.
	Unknown bool
	Next    Event
}

// Slots returns the state of each slot of a snapshot.
func Slots(snap *capacity.Snapshot, now time.Time) []SlotStatus {
	var all []SlotStatus
	for _, v := range views(snap, now) {
		if v.current.ID == "" {
			v.window = v.last
		}
		all = append(all, SlotStatus{Partition: v.partition, Group: v.group, Slot: v.slot, Reservation: v.current,
			Window: v.window, Unknown: v.unknown, Next: v.event(now)})
	}
	return all
}

func (v slotView) event(now time.Time) Event {
	if v.current.ID == "" {
		return Event{}
	}
	candidates := []Event{
		{v.window.Start, "opens"}, {v.window.Fence, "fence"},
		{v.window.Reclaim, "EC2 takes instances back"}, {v.window.End, "ends"},
	}
	for _, e := range candidates {
		if e.At.After(now) {
			return e
		}
	}
	return Event{}
}

// NextBoundary is the next moment at which a reservation of the snapshot opens, warns or requeues its jobs, meets its
// fence or ends; false if there is none.
func NextBoundary(snap *capacity.Snapshot, now time.Time) (at time.Time, ok bool) {
	for _, v := range views(snap, now) {
		all := []time.Time{v.event(now).At}
		if fence := v.window.Fence; !fence.IsZero() {
			all = append(all, capacity.RequeueAt(fence, snap.KillWait.Duration))
			for _, minutes := range warnings {
				all = append(all, fence.Add(-time.Duration(minutes)*time.Minute))
			}
		}
		for _, t := range all {
			if t.After(now) && (!ok || t.Before(at)) {
				at, ok = t, true
			}
		}
	}
	return at, ok
}
