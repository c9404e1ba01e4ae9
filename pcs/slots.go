package pcs

import (
	"context"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// SlotNames are the names of the two node groups behind a base name.
func SlotNames(base string) [2]string { return [2]string{base + "-a", base + "-b"} }

// Slots reads the two slots behind a base name. A node group of such a name that
// lacks our tag is shown without a ReservationID.
func (s Setup) Slots(ctx context.Context, inv Inventory, base string) ([]Slot, error) {
	var slots []Slot
	for _, name := range SlotNames(base) {
		slot := Slot{Name: name}
		if g, found := inv.Group(name); found {
			slot.Group, slot.Queues = &g, inv.queuesOf(g.ID)
			if inv.ours(g.Tags) {
				slot.ReservationID = g.Tags[capacity.TagReservation]
			}
			t, found, err := s.EC2.LaunchTemplate(ctx, g.TemplateID, g.TemplateVersion)
			if err != nil {
				return nil, fmt.Errorf("reading the launch template of %s: %w", name, err)
			}
			if found {
				slot.Target = t.ReservationID
			}
		}
		slots = append(slots, slot)
	}
	return slots, nil
}

// holds reports whether the slot was set up for the reservation, or half of it was
// before a run was cut off: the tag is written first, the template follows.
func (s Slot) holds(reservationID string) bool {
	return reservationID != "" && s.ReservationID == reservationID
}
