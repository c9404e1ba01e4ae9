package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// observation is AWS's half of a snapshot while it is read. What cannot be read is
// taken from the snapshot before it, if there is one.
type observation struct {
	World
	old  *capacity.Snapshot // nil if there is none
	snap *capacity.Snapshot
	// byTag are reservations that a selector found; they need no second query.
	byTag []capacity.Reservation
	// wanted are the ids of each node group, of the settings or chosen by tag; ids are
	// all that have to be described.
	wanted map[string][]string
	ids    []string
	// groups are the PCS compute node groups that exist, by node group; no entry where
	// they could not be read.
	groups map[string][]PCSSlot
	failed []error
}

// observe reads AWS. The error joins what could not be read; the snapshot then holds
// older facts, and keeps the older time, so that it goes stale.
func (w World) observe(ctx context.Context, old *capacity.Snapshot) (*capacity.Snapshot, error) {
	o := observation{World: w, old: old, snap: &capacity.Snapshot{
		Region:  w.EC2.Region(),
		Cluster: w.Config.Cluster,
		Submit:  capacity.Submit{Strict: w.Config.Submit.Strict, StaleAfter: w.Config.Submit.StaleAfter},
		Timing:  w.Config.Timing.Domain(),
	}, wanted: map[string][]string{}, groups: map[string][]PCSSlot{}}
	subnets := o.subnets(ctx)
	o.readGroups(ctx)
	for _, p := range w.Config.Partitions {
		for _, g := range p.NodeGroups {
			o.findReservations(ctx, p, g)
		}
	}
	o.reservations(ctx)
	for _, p := range w.Config.Partitions {
		o.snap.Partitions = append(o.snap.Partitions, o.partition(p, subnets))
	}
	o.snap.TakenAt = w.MachineTime().Add(w.EC2.Offset()).UTC().Truncate(time.Second)
	o.snap.ClockOffset.Duration = w.EC2.Offset()
	if len(o.failed) > 0 {
		o.snap.TakenAt = time.Time{}
		if old != nil {
			o.snap.TakenAt = old.TakenAt
			if w.EC2.Offset() == 0 {
				o.snap.ClockOffset = old.ClockOffset
			}
		}
	}
	return o.snap, errors.Join(o.failed...)
}

func (o *observation) problem(format string, args ...any) {
	o.snap.Problems = append(o.snap.Problems, fmt.Sprintf(format, args...))
}

// fail notes a query that failed as a whole.
func (o *observation) fail(err error) {
	o.failed = append(o.failed, err)
	o.problem("%s; what was known before is kept", err)
}

// readGroups learns which PCS compute node groups exist, of all node groups in one go.
func (o *observation) readGroups(ctx context.Context) {
	var bases, names []string
	for _, p := range o.Config.Partitions {
		for _, g := range p.NodeGroups {
			if p.Provider == capacity.ProviderPCS {
				bases, names = append(bases, g.Name), append(names, slotNames(g.Name)...)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	there, err := o.PCS.Slots(ctx, names)
	if err != nil {
		o.fail(fmt.Errorf("reading the compute node groups: %w", err))
		return
	}
	for _, base := range bases {
		o.groups[base] = slices.DeleteFunc(slices.Clone(there), func(s PCSSlot) bool { return !slices.Contains(slotNames(base), s.Name) })
	}
}

func slotNames(base string) []string { return []string{base + "-a", base + "-b"} }

// findReservations learns which reservations a node group has.
func (o *observation) findReservations(ctx context.Context, p config.Partition, g config.NodeGroup) {
	ids := g.ReservationIDs
	if g.Select != nil {
		ids = o.selected(ctx, p.Name, g)
	}
	o.wanted[g.Name] = ids
	o.ids = append(o.ids, ids...)
	if p.Provider != capacity.ProviderPCS {
		return
	}
	there, known := o.groups[g.Name]
	if !known {
		for _, s := range o.oldSlots(p.Name, g.Name) {
			o.ids = append(o.ids, s.ReservationIDs...)
		}
	}
	for _, s := range there {
		if s.ReservationID != "" {
			o.ids = append(o.ids, s.ReservationID)
		}
	}
}

func (o *observation) partition(p config.Partition, subnets map[string]capacity.Subnet) capacity.Partition {
	out := capacity.Partition{Name: p.Name, Provider: p.Provider, AllowAccounts: p.AllowAccounts, MinTime: p.MinTime, OnEnd: p.OnEnd}
	for _, g := range p.NodeGroups {
		group := capacity.NodeGroup{Name: g.Name, InstanceType: g.InstanceType, PurchaseOption: g.PurchaseOption,
			MaxNodes: g.MaxNodes, Dynamic: g.Dynamic, Subnets: []capacity.Subnet{}}
		for _, id := range g.SubnetIDs {
			if s, ok := subnets[id]; ok {
				group.Subnets = append(group.Subnets, s)
			}
		}
		group.Slots = []capacity.Slot{{Name: g.Name, ReservationIDs: o.wanted[g.Name]}}
		if p.Provider == capacity.ProviderPCS {
			group.Slots = o.pcsSlots(p.Name, g.Name)
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

// selected are the ids of the reservations that a group's tags choose, by start.
func (o *observation) selected(ctx context.Context, partition string, g config.NodeGroup) []string {
	found, err := o.EC2.ReservationsByTag(ctx, g.Select.Tags)
	if err != nil {
		o.fail(fmt.Errorf("finding the reservations of node group %s by tag: %w", g.Name, err))
		var ids []string
		for _, s := range o.oldSlots(partition, g.Name) {
			ids = append(ids, s.ReservationIDs...)
		}
		return ids
	}
	slices.SortStableFunc(found, func(a, b capacity.Reservation) int { return a.Start.Compare(b.Start) })
	o.byTag = append(o.byTag, found...)
	var ids []string
	for _, r := range found {
		ids = append(ids, r.ID)
	}
	return ids
}

// pcsSlots are the two compute node groups of a PCS node group. A group that exists
// holds what its tag says. Reservations that may still open fill the slots in turn:
// there they are going to be. One that has ended stands for a slot only as long as
// nothing else does.
func (o *observation) pcsSlots(partition, base string) []capacity.Slot {
	var slots []capacity.Slot
	for _, name := range slotNames(base) {
		slots = append(slots, capacity.Slot{Name: name})
	}
	there, ok := o.groups[base]
	if old := o.oldSlots(partition, base); !ok && len(old) > 0 {
		return old
	}
	taken := map[string]bool{}
	for i := range slots {
		for _, s := range there {
			if s.Name == slots[i].Name && s.ReservationID != "" {
				slots[i].ReservationIDs = []string{s.ReservationID}
				taken[s.ReservationID] = true
			}
		}
	}
	var live, ended []string
	for _, id := range o.wanted[base] {
		r, known := o.snap.Reservation(id)
		switch {
		case taken[id]:
		case known && !r.State.Live():
			ended = append(ended, id)
		default:
			live = append(live, id)
		}
	}
	if ok && len(live) > 0 && len(there) < len(slots) {
		o.problem("reservation %s has no compute node group yet; run `pcs-capacity setup --reservation %s --queue %s --node-group %s`", live[0], live[0], partition, base)
	}
	for i, id := range append(live, ended...) {
		free := &slots[0]
		if len(slots[1].ReservationIDs) < len(free.ReservationIDs) {
			free = &slots[1]
		}
		if i < len(live) || len(free.ReservationIDs) == 0 {
			free.ReservationIDs = append(free.ReservationIDs, id)
		}
	}
	return slots
}

// oldSlots are a group's slots in the older snapshot, without what Slurm said.
func (o *observation) oldSlots(partition, group string) []capacity.Slot {
	if o.old == nil {
		return nil
	}
	p, _ := o.old.Partition(partition)
	for _, g := range p.Groups {
		if g.Name == group {
			slots := slices.Clone(g.Slots)
			for i := range slots {
				slots[i].Nodes, slots[i].Feature = "", ""
			}
			return slots
		}
	}
	return nil
}

// subnets looks up the zones of all subnets. One bad id must not hide the others, so
// a query that fails is repeated for each.
func (o *observation) subnets(ctx context.Context) map[string]capacity.Subnet {
	var ids []string
	for _, p := range o.Config.Partitions {
		for _, g := range p.NodeGroups {
			ids = append(ids, g.SubnetIDs...)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	known := map[string]capacity.Subnet{}
	if o.old != nil {
		for _, p := range o.old.Partitions {
			for _, g := range p.Groups {
				for _, s := range g.Subnets {
					known[s.ID] = s
				}
			}
		}
	}
	if len(ids) == 0 {
		return known
	}
	found, err := o.EC2.Subnets(ctx, ids)
	if err != nil && ctx.Err() == nil {
		var bad []string
		for _, id := range ids {
			one, err := o.EC2.Subnets(ctx, []string{id})
			if err != nil {
				bad = append(bad, fmt.Sprintf("describing subnet %s: %s; check its id and the region", id, err))
			}
			found = append(found, one...)
		}
		if len(ids) > 1 && len(found) == 0 { // it is not the ids: say it once
			bad = []string{fmt.Sprintf("%s; the zones of %s are as they were", err, strings.Join(ids, ", "))}
		}
		for _, problem := range bad {
			o.problem("%s", problem)
		}
	}
	for _, s := range found {
		known[s.ID] = s
	}
	return known
}

// reservations describes every reservation that a node group has.
func (o *observation) reservations(ctx context.Context) {
	o.snap.Reservations = []capacity.Reservation{}
	ids := slices.Clone(o.ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for _, r := range o.byTag {
		if i, ok := slices.BinarySearch(ids, r.ID); ok {
			ids = slices.Delete(ids, i, i+1)
			o.snap.Reservations = append(o.snap.Reservations, r)
		}
	}
	if len(ids) == 0 {
		return
	}
	found, missing, err := o.EC2.Reservations(ctx, ids)
	if err != nil {
		o.fail(fmt.Errorf("describing reservations %s: %w", strings.Join(ids, ", "), err))
	}
	o.snap.Reservations = append(o.snap.Reservations, found...)
	for _, id := range ids {
		if _, ok := o.snap.Reservation(id); ok {
			continue
		}
		if reason, ok := missing[id]; ok {
			o.problem("EC2 does not describe reservation %s: %s; check its id and the region", id, reason)
			continue
		}
		if o.old == nil || err == nil {
			continue
		}
		if r, ok := o.old.Reservation(id); ok {
			o.snap.Reservations = append(o.snap.Reservations, r)
		}
	}
}

// mismatches names what keeps a slot's current reservation from being launched into.
func mismatches(snap *capacity.Snapshot, now time.Time) []string {
	var problems []string
	for _, v := range views(snap, now) {
		if v.current.ID == "" {
			continue
		}
		for _, m := range capacity.Match(v.current, v.group, now) {
			switch m.Code {
			case "az", "instance-type", "purchase-option", "tenancy", "platform":
				problems = append(problems, m.String())
			}
		}
	}
	return problems
}
