package setup

import (
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// What is not asked for stays as an earlier run left it.

// launchesInto reports whether the node group is set up for the reservation. One of which a run
// that was cut off has changed the tag alone is not.
func (s slotState) launchesInto(reservationID string) bool {
	return s.ours && reservationID != "" && s.uses.ReservationID == reservationID
}

// listed reports whether the settings have the reservation for the node group.
func (in *inspection) listed() bool {
	g := in.entry()
	return slices.Contains(g.ReservationIDs, in.reservation.ID) || g.Select.Matches(in.reservation, in.members)
}

// keptTemplate is what the node group launches with: for the reservation, else for another one.
// It is zero for a node group that is not there.
func (in *inspection) keptTemplate() (t capacity.LaunchTemplate) {
	for _, slot := range in.slots {
		if slot.uses.ID != "" && (t.ID == "" || slot.launchesInto(in.reservation.ID)) {
			t = slot.uses
		}
	}
	return t
}

// keptNodes is how many nodes the slot is set up for in the reservation; 0 if for none.
func (in *inspection) keptNodes(slot slotState) int {
	switch {
	case slot.launchesInto(in.reservation.ID):
		return slot.group.Max
	case in.listed():
		return in.entry().MaxNodes
	}
	return 0
}

// keptSubnets are those that the nodes have in the reservation.
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

// checkSelect refuses a reservation that the node group's settings do not select: written in as
// an id it would take the place of all that they do.
func (in *inspection) checkSelect() {
	if g := in.entry(); g.Select != nil && !g.Select.Matches(in.reservation, in.members) {
		in.problem(
			capacity.NotSelected,
			"tag it or put it into the resource group, as `select` there says, or choose another --node-group",
			"node_group %q of the settings selects its reservations, and %s is none of them",
			g.Name,
			in.reservation.ID,
		)
	}
}

// keptEntryTemplate is the launch template of the settings: a version that the site has chosen
// stays while there is no newer one to write.
func (in *inspection) keptEntryTemplate(slot slotState) string {
	name, has := pcs.TemplateName(in.request.Mark, slot.name), in.entry().LaunchTemplate
	if was, _, _ := strings.Cut(has, ":"); was == name && slot.template.Digest == in.planned.Digest {
		return has
	}
	return name + ":$Latest"
}
