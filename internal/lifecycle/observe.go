package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// observation is AWS's half of a snapshot while it is read. What cannot be read is
// taken from the snapshot before it, if there is one.
type observation struct {
	Sources
	old  *capacity.Snapshot // nil if there is none
	seen capacity.Seen
	// ids are the reservations that have to be described.
	ids      []string
	problems []string
	failed   []error
}

// observe reads AWS. The error joins what could not be read; the snapshot then holds
// older facts, and keeps the older time, so that it goes stale.
func (s Sources) observe(ctx context.Context, old *capacity.Snapshot) (*capacity.Snapshot, error) {
	o := observation{Sources: s, old: old}
	o.subnets(ctx)
	o.selected(ctx)
	pcsKnown := o.held(ctx)
	o.reservations(ctx)
	snap := capacity.Build(s.Settings, o.seen)
	if pcsKnown {
		o.waiting(snap)
	}
	snap.Region = s.EC2.Region()
	snap.Problems = o.problems
	snap.TakenAt = s.MachineTime().Add(s.EC2.Offset()).UTC().Truncate(time.Second)
	snap.ClockOffset.Duration = s.EC2.Offset()
	if len(o.failed) > 0 {
		snap.TakenAt = time.Time{}
		if old != nil {
			snap.TakenAt = old.TakenAt
			if s.EC2.Offset() == 0 {
				snap.ClockOffset = old.ClockOffset
			}
		}
	}
	return snap, errors.Join(o.failed...)
}

func (o *observation) problem(format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
}

// fail notes a query that failed as a whole.
func (o *observation) fail(err error) {
	o.failed = append(o.failed, err)
	o.problem("%s; what was known before is kept", err)
}

// selected finds the reservations that node groups choose by their tags.
func (o *observation) selected(ctx context.Context) {
	for _, p := range o.Settings.Partitions {
		for _, g := range p.Groups {
			o.ids = append(o.ids, g.ReservationIDs...)
			if g.Select == nil {
				continue
			}
			found, err := o.EC2.ReservationsByTag(ctx, g.Select.Tags)
			if err != nil {
				o.fail(fmt.Errorf("finding the reservations of node group %s by tag: %w", g.Name, err))
				o.ids = append(o.ids, o.selectedBefore(g)...)
			}
			o.seen.Reservations = append(o.seen.Reservations, found...)
		}
	}
}

func (o *observation) selectedBefore(g capacity.GroupSettings) []string {
	var ids []string
	if o.old != nil {
		for _, r := range o.old.Reservations {
			if g.Select.Matches(r) {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

// held learns which PCS compute node groups there are and what each was set up for. It
// reports whether PCS was asked and answered.
func (o *observation) held(ctx context.Context) bool {
	var names []string
	for _, p := range o.Settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider == capacity.ProviderPCS {
				names = append(names, capacity.SlotNames(p.Provider, g.Name)...)
			}
		}
	}
	if len(names) == 0 {
		return false
	}
	held, err := o.PCS.Held(ctx, names)
	if err != nil {
		o.fail(fmt.Errorf("reading the compute node groups %s: %w", strings.Join(names, ", "), err))
		held = o.heldBefore(names)
	}
	o.seen.Held = held
	for _, name := range names {
		if held[name] != "" {
			o.ids = append(o.ids, held[name])
		}
	}
	return err == nil
}

// heldBefore is what slots had in the older snapshot.
func (o *observation) heldBefore(names []string) map[string]string {
	held := map[string]string{}
	if o.old != nil {
		for _, s := range slotsOf(o.old) {
			if slices.Contains(names, s.Name) && len(s.ReservationIDs) > 0 {
				held[s.Name] = s.ReservationIDs[0]
			}
		}
	}
	return held
}

// waiting names, for each PCS node group, the reservation that comes next and has no
// compute node group yet, though one is free.
func (o *observation) waiting(snap *capacity.Snapshot) {
	for _, p := range snap.Partitions {
		for _, g := range p.Groups {
			if p.Provider != capacity.ProviderPCS || !slices.ContainsFunc(g.Slots, func(s capacity.Slot) bool { _, exists := o.seen.Held[s.Name]; return !exists }) {
				continue
			}
			var next string
			var opens time.Time
			for _, s := range g.Slots {
				for _, id := range s.ReservationIDs {
					r, known := snap.Reservation(id)
					if id != o.seen.Held[s.Name] && (!known || r.State.Live()) && (next == "" || r.Start.Before(opens)) {
						next, opens = id, r.Start
					}
				}
			}
			if next != "" {
				o.problem("reservation %s has no compute node group yet; run `pcs-capacity setup --reservation %s --queue %s --node-group %s`", next, next, p.Name, g.Name)
			}
		}
	}
}

// subnets looks up the zones of all subnets. One bad id must not hide the others, so
// a query that fails is repeated for each.
func (o *observation) subnets(ctx context.Context) {
	var ids []string
	for _, p := range o.Settings.Partitions {
		for _, g := range p.Groups {
			ids = append(ids, g.SubnetIDs...)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return
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
	o.seen.Subnets = found
	if o.old != nil { // what is known of the others
		for _, p := range o.old.Partitions {
			for _, g := range p.Groups {
				o.seen.Subnets = append(o.seen.Subnets, g.Subnets...)
			}
		}
	}
}

// reservations describes every reservation that a node group has, unless its tags have
// found it already.
func (o *observation) reservations(ctx context.Context) {
	known := func(id string) bool {
		return slices.ContainsFunc(o.seen.Reservations, func(r capacity.Reservation) bool { return r.ID == id })
	}
	slices.Sort(o.ids)
	ids := slices.DeleteFunc(slices.Compact(o.ids), known)
	if len(ids) == 0 {
		return
	}
	found, missing, err := o.EC2.Reservations(ctx, ids)
	if err != nil {
		o.fail(fmt.Errorf("describing reservations %s: %w", strings.Join(ids, ", "), err))
	}
	o.seen.Reservations = append(o.seen.Reservations, found...)
	for _, m := range missing {
		o.problem("EC2 does not describe reservation %s: %s; check its id and the region", m.ID, m.Err)
	}
	if err == nil || o.old == nil {
		return
	}
	for _, id := range ids {
		if r, ok := o.old.Reservation(id); ok && !known(id) {
			o.seen.Reservations = append(o.seen.Reservations, r)
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

// slotsOf are all slots of a snapshot.
func slotsOf(snap *capacity.Snapshot) []capacity.Slot {
	var all []capacity.Slot
	for _, p := range snap.Partitions {
		for _, g := range p.Groups {
			all = append(all, g.Slots...)
		}
	}
	return all
}
