package setup

import (
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Settings that the request leaves out stay as an earlier run left them.

// launchesInto reports whether the node group's launch template has the reservation. The tag alone
// proves nothing: a killed run may have written it first.
func (s slotState) launchesInto(reservationID string) bool {
	return s.ours && reservationID != "" && s.uses.ReservationID == reservationID
}

// listed reports whether the settings have the reservation for the node group.
func (in *inspection) listed() bool {
	g := in.entry()
	return slices.Contains(g.ReservationIDs, in.reservation.ID) || g.Select.Matches(in.reservation)
}

// keptTemplate returns the launch template of the slot for the reservation, else of another slot;
// zero if no slot has a node group.
func (in *inspection) keptTemplate() (t capacity.LaunchTemplate) {
	for _, slot := range in.slots {
		if slot.uses.ID != "" && (t.ID == "" || slot.launchesInto(in.reservation.ID)) {
			t = slot.uses
		}
	}
	return t
}

// keptNodes returns the slot's present number of nodes in the reservation; 0 for none.
func (in *inspection) keptNodes(slot slotState) int {
	switch {
	case slot.launchesInto(in.reservation.ID):
		return slot.group.Max
	case in.listed():
		return in.entry().MaxNodes
	}
	return 0
}

// keptSubnets returns the present subnets of the nodes in the reservation.
func (in *inspection) keptSubnets() []string {
	if in.onEC2() {
		if in.listed() {
			return in.entry().SubnetIDs
		}
		return nil
	}
	for _, slot := range in.slots {
		if slot.launchesInto(in.reservation.ID) {
			return slot.group.SubnetIDs
		}
	}
	return nil
}

// checkSelect refuses a reservation that the node group's settings do not select: its id would
// replace the `select`, and with it all selected reservations.
func (in *inspection) checkSelect() {
	if g := in.entry(); g.Select != nil && !g.Select.Matches(in.reservation) {
		in.problem(capacity.NotSelected,
			"tag it as `select` there says, or choose another --node-group",
			"node_group %q of the settings selects its reservations, and %s is none of them", g.Name, in.reservation.ID)
	}
}

// keptEntryTemplate returns the launch template for the settings: the site's choice of a version
// stays until a newer one is written.
func (in *inspection) keptEntryTemplate(slot slotState) string {
	name, has := pcs.TemplateName(in.request.Mark, slot.name), in.entry().LaunchTemplate
	if was, _, _ := strings.Cut(has, ":"); was == name && slot.template.Digest == in.planned.Digest {
		return has
	}
	return name + ":$Latest"
}
