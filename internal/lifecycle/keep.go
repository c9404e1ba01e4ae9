package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file keeps facts across a bad answer of EC2 or a change of settings: jobs run behind a fence, and a pass that
// knows less than the one before must not open it.

// missingFor bounds how long a live reservation keeps its facts while EC2 leaves it out of its answers. EC2 shows a
// missing reservation again within minutes ("Eventual consistency" in the EC2 Developer Guide names five); the
// shortest block lasts a day.
const missingFor = time.Hour

// describe asks about reservations by id. Those that EC2 does not tell of are as they were.
func (p *pass) describe(ids []string) []question {
	if len(ids) == 0 {
		return nil
	}

	var (
		found   []capacity.Reservation
		missing []capacity.Missing
	)

	return []question{{
		doing: "describing reservations " + strings.Join(ids, ", "),
		ask: func(ctx context.Context) (err error) {
			found, missing, err = p.EC2.Reservations(ctx, ids)
			return err
		},
		take: func(answered bool) {
			for _, r := range found {
				if !p.known(r.ID) {
					p.told(r)
				}
			}

			for _, id := range ids {
				if r, ok := p.seen.old().Reservation(id); !answered && ok && !p.known(id) {
					p.aws.Reservations = append(p.aws.Reservations, r)
				}
			}

			for _, m := range missing {
				if !p.known(m.ID) {
					p.missing(m)
				}
			}
		},
	}}
}

// reservations describes the reservations that no node group names: those that AWS's other answers name, and those that
// were live before.
func (p *pass) reservations(ctx context.Context) {
	slices.Sort(p.ids)
	others := slices.DeleteFunc(slices.Compact(p.ids),
		func(id string) bool { return p.known(id) || slices.Contains(p.named, id) })
	p.together(ctx, p.describe(others)...)

	if len(p.named)+len(others) == 0 {
		return
	}

	for _, words := range p.EC2.Untold() {
		p.kept(words)
	}

	p.keepInspected()
}

// told adds reservations that EC2 has described in this pass.
func (p *pass) told(found ...capacity.Reservation) {
	p.aws.Reservations = append(p.aws.Reservations, found...)
	for _, r := range found {
		p.seen.Told[r.ID] = true
	}
}

func (p *pass) known(id string) bool {
	return slices.ContainsFunc(p.aws.Reservations, func(r capacity.Reservation) bool { return r.ID == id })
}

// keepInspected keeps what EC2 said about a block before it stopped answering questions about blocks. A block never
// turns into an UltraServer or back.
func (p *pass) keepInspected() {
	for i := range p.aws.Reservations {
		r := &p.aws.Reservations[i]
		before, ok := p.seen.old().Reservation(r.ID)
		r.UltraServer = r.UltraServer || before.UltraServer
		if ok && r.HealthUnknown {
			r.Unhealthy = before.Unhealthy
		}
	}
}

// missing keeps the facts of a reservation that EC2 does not describe, if it was live recently.
func (p *pass) missing(m capacity.Missing) {
	words, _ := p.EC2.Explain(m.Err)
	now := p.now()
	r, ok := p.seen.old().Reservation(m.ID)
	if ok && (m.Unread || !r.LiveAt(now)) { // EC2 forgets what ended long ago
		p.aws.Reservations = append(p.aws.Reservations, r)
	}

	switch {
	case m.Unread:
		p.say(capacity.AWSUnanswered, capacity.Subject{Reservation: m.ID}, "",
			"EC2's answer about reservation %s cannot be read: %s; what was known of it is kept", m.ID, words)
		return
	case ok && !r.LiveAt(now):
		return
	}

	since := cmp.Or(p.seen.old().Missing[m.ID], now.UTC().Truncate(time.Second))
	p.absent[m.ID] = since
	if ok && now.Before(since.Add(missingFor)) {
		p.aws.Reservations = append(p.aws.Reservations, r)
		p.say(capacity.ReservationMissing, capacity.Subject{Reservation: r.ID}, "",
			"EC2 has not described reservation %s since %s: %s; what was known of it is kept until %s", r.ID,
			capacity.FormatUTC(since), words, capacity.FormatUTC(since.Add(missingFor)))

		return
	}

	p.say(capacity.ReservationNotKnown, capacity.Subject{Reservation: m.ID}, "check its id and the region",
		"EC2 does not describe reservation %s: %s", m.ID, words)
}

// formerSlots are the slots of the last snapshot whose reservation is live and that the settings do not give them any
// more, each alone in a partition and with only that reservation. One whose fence somebody has removed is forgotten.
func formerSlots(s Seen) (all []capacity.Partition) {
	for _, v := range s.old().Standings(s.Now) {
		r, known := s.Snap.Reservation(v.Reservation.ID)
		now, _ := s.Snap.Place(v.Slot.Name)
		if !known || !r.LiveAt(s.Now) || v.Slot.Nodes == "" ||
			now.Slot != nil && slices.Contains(now.Slot.ReservationIDs, r.ID) {
			continue
		}

		if s.Cluster != nil {
			if _, there := s.Cluster.fence(v.Slot.Name, r.ID); !there {
				continue
			}
		}

		p := *v.Partition
		g := *v.Group
		slot := *v.Slot
		slot.ReservationIDs = []string{r.ID}
		g.Slots = []capacity.Slot{slot}
		p.Groups = []capacity.NodeGroup{g}
		all = append(all, p)
	}

	return all
}

func (c *Cluster) fence(slot, block string) (fence capacity.SlurmReservation, there bool) {
	for _, r := range c.Reservations {
		if r.Fences(slot, block) {
			return r, true
		}
	}

	return fence, false
}
