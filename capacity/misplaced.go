package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Metadata is what an instance's EC2 metadata says; its capacity reservation is not part of it. A field that the
// metadata lacks is "".
type Metadata struct {
	InstanceID   string `json:"instance_id"`
	InstanceType string `json:"instance_type"`
	AZID         string `json:"az_id,omitempty"`
	// ReservationID is the tag TagReservation, if tags are in the metadata.
	ReservationID string `json:"reservation_id,omitempty"`
}

// Slot finds a slot by name.
func (s *Snapshot) Slot(name string) (Slot, bool) {
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if i := slices.IndexFunc(g.Slots, func(s Slot) bool { return s.Name == name }); i >= 0 {
				return g.Slots[i], true
			}
		}
	}
	return Slot{}, false
}

// Misplaced says how the instance behind a node of a slot differs from the slot's reservation; of several
// reservations, from the closest. It is "" if nothing differs, or if the slot has no reservation or one that EC2 did
// not describe. Misplaced does not compare what the metadata leaves out.
func (s *Snapshot) Misplaced(slot Slot, m Metadata, now time.Time) string {
	if slices.ContainsFunc(s.Turns(slot), func(t Turn) bool { return t.Unknown }) {
		return ""
	}
	var least []string
	for _, t := range s.Standing(slot, now).Current {
		differs := m.differs(t.Reservation)
		if len(differs) == 0 {
			return ""
		}
		if least == nil || len(differs) < len(least) {
			least = differs
		}
	}
	if least == nil {
		return ""
	}
	return fmt.Sprintf("its instance %s %s", m.InstanceID, strings.Join(least, "; it "))
}

func (m Metadata) differs(r Reservation) []string {
	var all []string
	if m.InstanceType != "" && m.InstanceType != r.InstanceType {
		all = append(all, fmt.Sprintf("is a %s, but reservation %s is for %s", m.InstanceType, r.ID, r.InstanceType))
	}
	if m.AZID != "" && r.AZID != "" && m.AZID != r.AZID {
		all = append(all, fmt.Sprintf("is in %s, but reservation %s is in %s", m.AZID, r.ID, r.AZID))
	}
	if m.ReservationID != "" && m.ReservationID != r.ID {
		all = append(all, fmt.Sprintf("was launched into %s, but reservation %s has the slot", m.ReservationID, r.ID))
	}
	return all
}
