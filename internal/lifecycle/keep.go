package lifecycle

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file keeps facts across a bad answer of EC2 or a change of settings: jobs run behind a fence, and a pass that
// knows less than the one before must not open it.

// missingFor is how long a live reservation keeps its facts while EC2 leaves it out of its answers. EC2 shows a
// missing reservation again within minutes ("Eventual consistency" in the EC2 Developer Guide names five); the
// shortest block lasts a day.
const missingFor = time.Hour

// describe asks about reservations by id. Those that EC2 does not tell of are as they were.
func (o *observation) describe(ids []string) []question {
	if len(ids) == 0 {
		return nil
	}
	var found []capacity.Reservation
	var missing []capacity.Missing
	return []question{{func(ctx context.Context) (err error) {
		found, missing, err = o.EC2.Reservations(ctx, ids)
		return err
	}, func(a answer) {
		answered := o.need("describing reservations "+strings.Join(ids, ", "), a)
		for _, r := range found {
			if !o.known(r.ID) {
				o.seen.Reservations = append(o.seen.Reservations, r)
			}
		}
		for _, id := range ids {
			if r, ok := o.before(id); !answered && ok && !o.known(id) {
				o.seen.Reservations = append(o.seen.Reservations, r)
			}
		}
		for _, m := range missing {
			if !o.known(m.ID) {
				o.missing(m)
			}
		}
	}}}
}

// reservations describes the reservations that no node group names: those that AWS's other answers name, and those that
// were live before.
func (o *observation) reservations(ctx context.Context) {
	slices.Sort(o.ids)
	others := slices.DeleteFunc(slices.Compact(o.ids), func(id string) bool { return o.known(id) || slices.Contains(o.named, id) })
	o.together(ctx, o.describe(others)...)
	if len(o.named)+len(others) == 0 {
		return
	}
	for _, words := range o.EC2.Untold() {
		o.problem(capacity.AWSUnanswered, capacity.Subject{}, "", "%s; what was known before is kept", words)
	}
	o.keepInspected()
}

func (o *observation) before(id string) (r capacity.Reservation, ok bool) {
	if o.old != nil {
		r, ok = o.old.Reservation(id)
	}
	return r, ok
}

func (o *observation) known(id string) bool {
	return slices.ContainsFunc(o.seen.Reservations, func(r capacity.Reservation) bool { return r.ID == id })
}

// keepInspected keeps what EC2 said about a block before it stopped answering questions about blocks. A block never
// turns into an UltraServer or back.
func (o *observation) keepInspected() {
	for i := range o.seen.Reservations {
		r := &o.seen.Reservations[i]
		before, ok := o.before(r.ID)
		r.UltraServer = r.UltraServer || before.UltraServer
		if ok && r.HealthUnknown {
			r.Unhealthy = before.Unhealthy
		}
	}
}

// missing keeps the facts of a reservation that EC2 does not describe, if it was live recently.
func (o *observation) missing(m capacity.Missing) {
	words, _ := o.EC2.Explain(m.Err)
	now := o.now()
	r, ok := o.before(m.ID)
	if ok && (m.Unread || !r.LiveAt(now)) { // EC2 forgets what ended long ago
		o.seen.Reservations = append(o.seen.Reservations, r)
	}
	switch {
	case m.Unread:
		o.problem(capacity.AWSUnanswered, capacity.Subject{Reservation: m.ID}, "",
			"EC2's answer about reservation %s cannot be read: %s; what was known of it is kept", m.ID, words)
		return
	case ok && !r.LiveAt(now):
		return
	}
	since := now.UTC().Truncate(time.Second)
	if o.old != nil {
		if was, told := o.old.Missing[m.ID]; told {
			since = was
		}
	}
	if r.MissingSince.IsZero() {
		r.MissingSince = since
	}
	since = r.MissingSince
	if ok && now.Before(since.Add(missingFor)) {
		o.seen.Reservations = append(o.seen.Reservations, r)
		o.problem(capacity.ReservationMissing, capacity.Subject{Reservation: r.ID}, "",
			"EC2 has not described reservation %s since %s: %s; what was known of it is kept until %s", r.ID,
			capacity.FormatUTC(since), words, capacity.FormatUTC(since.Add(missingFor)))
		return
	}
	if o.absent == nil {
		o.absent = map[string]time.Time{}
	}
	o.absent[m.ID] = since
	o.problem(capacity.ReservationNotKnown, capacity.Subject{Reservation: m.ID}, "check its id and the region",
		"EC2 does not describe reservation %s: %s", m.ID, words)
}

// liveSlots returns the last snapshot's slots that have nodes and a live reservation, each alone in a partition and
// with only that reservation.
func liveSlots(old *capacity.Snapshot, machineTime time.Time) (live []capacity.Partition) {
	if old == nil {
		return nil
	}
	for _, v := range old.Standings(machineTime.Add(old.ClockOffset.Duration)) {
		if v.Reservation.ID == "" || v.Slot.Nodes == "" {
			continue
		}
		p, g, s := *v.Partition, *v.Group, *v.Slot
		s.ReservationIDs = []string{v.Reservation.ID}
		g.Slots = []capacity.Slot{s}
		p.Groups = []capacity.NodeGroup{g}
		live = append(live, p)
	}
	return live
}

// former returns the slots whose reservation is still live and no longer belongs to them in the snapshot of the new
// settings.
func former(before []capacity.Partition, snap *capacity.Snapshot, now time.Time) []capacity.Partition {
	listed := map[string][]string{}
	for _, at := range capacity.Places(snap.Partitions) {
		listed[at.Slot.Name] = at.Slot.ReservationIDs
	}
	var all []capacity.Partition
	for _, p := range before {
		slot := p.Groups[0].Slots[0]
		id := slot.ReservationIDs[0]
		if r, ok := snap.Reservation(id); ok && r.LiveAt(now) && !slices.Contains(listed[slot.Name], id) {
			all = append(all, p)
		}
	}
	return all
}

// forget drops the former slots whose fence somebody has removed, and names the others.
func (p *pass) forget() {
	p.seen.Snap.Former = slices.DeleteFunc(p.seen.Snap.Former, func(former capacity.Partition) bool {
		slot := former.Groups[0].Slots[0]
		fence, there := p.seen.Cluster.fence(slot.Name, slot.ReservationIDs[0])
		if r, _ := p.seen.Snap.Reservation(slot.ReservationIDs[0]); there {
			p.seen.Snap.Add(unnamed(r, slot.Name, fence.Name))
		}
		return !there
	})
}

// unnamedBlocks names the reservations that PCS compute node groups hold and the settings do not name.
func unnamedBlocks(s Seen) (problems []capacity.Problem) {
	for _, v := range s.slots() {
		fence, there := s.Cluster.fence(v.Slot.Name, v.Slot.Holds)
		if r, known := s.Snap.Reservation(v.Slot.Holds); known && v.Slot.Unnamed && there && r.LiveAt(s.Now) {
			problems = append(problems, unnamed(r, v.Slot.Name, fence.Name))
		}
	}
	return problems
}

func (c *Cluster) fence(slot, block string) (fence capacity.SlurmReservation, there bool) {
	for _, r := range c.Reservations {
		if r.Fences(slot, block) {
			return r, true
		}
	}
	return fence, false
}

// unnamed reports a fence that stays although the settings do not name its reservation.
func unnamed(r capacity.Reservation, slot, fence string) capacity.Problem {
	return capacity.Problemf(capacity.ReservationUnnamed, capacity.Subject{Slot: slot, Reservation: r.ID}, "",
		"the settings no longer name reservation %s for slot %s; its fence stays until it ends at %s, or until `scontrol delete ReservationName=%s`",
		r.ID, slot, capacity.FormatUTC(r.End), fence)
}
