package setup

import (
	"cmp"
	"fmt"
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

// efa selects the network interfaces of the launch template; "" for a type without EFA, whose interfaces are copied.
func (in *inspection) efa() capacity.EFAMode {
	switch {
	case in.names.instanceType.EFAInterfaces == 0:
		return ""
	case in.request.EFA != "":
		return in.request.EFA
	case in.keptTemplate().ID != "":
		return efaOf(in.keptTemplate())
	case in.unattended:
		return efaOf(in.source)
	}
	return capacity.EFA // as AWS PCS documents it
}

// efaOf returns the mode of an existing launch template.
func efaOf(t capacity.LaunchTemplate) capacity.EFAMode {
	mode := capacity.NoEFA
	for _, one := range t.NetworkInterfaces {
		switch capacity.EFAMode(one.Type) {
		case capacity.EFA: // on each interface, so none is EFA only
			return capacity.EFA
		case capacity.EFAOnly:
			mode = capacity.EFAOnly
		}
	}
	return mode
}

// writesInterfaces reports whether setup writes the network interfaces itself. They contain a
// subnet, so all nodes are in that one.
func (in *inspection) writesInterfaces() bool { return in.efa() != "" && in.efa() != capacity.NoEFA }

// interfaceSubnet returns the subnet inside the network interfaces: the first candidate in the
// reservation's zone; "" without such interfaces.
func (in *inspection) interfaceSubnet() string {
	if in.writesInterfaces() && !in.onEC2() { // on EC2 each launch names its subnet
		for _, s := range in.network.chosen {
			if s.AZID == in.reservation.AZID {
				return s.ID
			}
		}
	}
	return ""
}

// efaWord describes the interfaces of a mode in the plan.
func (in *inspection) efaWord(mode capacity.EFAMode) string {
	t := in.names.instanceType
	switch {
	case t.EFAInterfaces == 0:
	case mode == capacity.EFA && len(t.Cards) == 1: // the subnet says whether it gets a public address
		return "1 × efa"
	case mode == capacity.EFA || mode == capacity.EFAOnly:
		return fmt.Sprintf("%d × %s, no public address", t.EFAInterfaces, mode)
	case mode == capacity.NoEFA:
		return "without EFA"
	}
	return ""
}

// addressesPerNode returns how many addresses of its subnet a node takes: one for each interface that is not EFA only.
func (in *inspection) addressesPerNode() int {
	if in.efa() == capacity.EFA {
		return len(in.names.instanceType.Cards)
	}
	return 1
}

// checkEFA warns where nodes come up without EFA, although people may expect it.
func (in *inspection) checkEFA() {
	t := in.names.instanceType
	n := len(in.source.NetworkInterfaces)
	dropped := n > 0 && in.source.InstanceType != in.reservation.InstanceType
	switch {
	case in.request.EFA == capacity.EFAOnly && t.EFAInterfaces == 0 && t.Name != "":
		in.problem(capacity.TypeWithoutEFA, "leave out --efa",
			"%s has no EFA, so there is none to set up with --efa %s", t.Name, in.request.EFA)
	case in.writesInterfaces():
	case dropped:
		in.warn("the launch template of %s describes %d network interfaces for %s; they are not copied for %s, so the nodes come up with one and without EFA",
			in.copied(), n, cmp.Or(in.source.InstanceType, "none"), in.reservation.InstanceType)
	case t.GPUs > 0 && t.EFAInterfaces == 0:
		in.warn("%s has no EFA, so jobs on several nodes talk over plain TCP", t.Name)
	case t.GPUs > 0:
		in.warn("the nodes come up without EFA (--efa none), so jobs on several nodes talk over plain TCP")
	}
}
