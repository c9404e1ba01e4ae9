package setup

import (
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// settingsChange is a change of a partition's settings.
type settingsChange struct {
	before, after capacity.PartitionSettings
	// ours: setup wrote the file. Any other file is left alone.
	ours bool
}

// settingsChange returns the change of the partition's settings; nil for none.
func (t *remains) settingsChange() *settingsChange {
	before, found := t.partition()
	if !found {
		return nil
	}
	c := &settingsChange{before: before, after: before}
	c.after.Groups = nil
	for _, g := range before.Groups {
		if left, stays := t.entryLeft(g); stays {
			c.after.Groups = append(c.after.Groups, left)
		}
	}
	same := slices.EqualFunc(before.Groups, c.after.Groups, func(a, b capacity.GroupSettings) bool {
		return a.Name == b.Name && slices.Equal(a.ReservationIDs, b.ReservationIDs)
	})
	if same {
		return nil
	}
	c.ours = t.file.ours && before.File == t.file.path
	return c
}

// entryLeft returns an entry of the settings without the reservations of removed slots; false if
// the entry goes.
func (t *remains) entryLeft(g capacity.GroupSettings) (left capacity.GroupSettings, stays bool) {
	if t.request.NodeGroup == "" || t.request.NodeGroup == g.Name {
		return g, false
	}
	left = g
	for _, slot := range t.slots {
		if slot.group != nil && slices.Contains(capacity.SlotNames(capacity.ProviderPCS, g.Name), slot.name) {
			left.ReservationIDs = slices.DeleteFunc(slices.Clone(left.ReservationIDs),
				func(id string) bool { return id == slot.group.Tags[capacity.TagReservation] })
		}
	}
	return left, true
}

// byHand lists the administrator's changes of a file that is not ours.
func (c *settingsChange) byHand() []string {
	const notOurs = ", which is not ours to change"
	if len(c.after.Groups) == 0 {
		return []string{fmt.Sprintf("remove partition %q from %s%s", c.before.Name, c.before.File, notOurs)}
	}
	var work []string
	for _, g := range c.before.Groups {
		switch left := groupOf(c.after, g.Name); {
		case left.Name == "":
			work = append(work,
				fmt.Sprintf("remove node_group %q of partition %q from %s%s", g.Name, c.before.Name, c.before.File, notOurs))
		case len(left.ReservationIDs) < len(g.ReservationIDs):
			work = append(work,
				fmt.Sprintf("set capacity_reservation_ids = %q for node_group %q of partition %q in %s%s",
					left.ReservationIDs, g.Name, c.before.Name, c.before.File, notOurs))
		}
	}
	return work
}
