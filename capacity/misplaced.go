package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// OnMismatch is what is done about a node whose instance is not what its slot's
// reservation is.
type OnMismatch string

// What can be done.
const (
	// ReportMismatch tells of it, and jobs run there as before.
	ReportMismatch OnMismatch = "report"
	// DrainMismatch tells of it, and sync drains such nodes, at most one in a pass.
	DrainMismatch OnMismatch = "drain"
)

// Metadata is what an instance says of itself in EC2's instance metadata, which does not
// have its capacity reservation. What it did not say is "".
type Metadata struct {
	InstanceID   string `json:"instance_id"`
	InstanceType string `json:"instance_type"`
	AZID         string `json:"az_id,omitempty"`
	// ReservationID is the tag TagReservation, where tags are in the metadata.
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

// Misplaced says what differs between the instance behind a node of a slot and the
// reservation that the slot has; of several reservations, the one that differs least. It is
// "" if nothing differs, and if the slot has no reservation, or one that EC2 did not
// describe. What the metadata leaves out is not compared.
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
