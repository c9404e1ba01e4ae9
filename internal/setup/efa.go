package setup

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// efa is which network interfaces the launch template is to have; "" for a type without
// EFA, whose interfaces are those of the template that is copied.
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

// efaOf is the mode of a launch template that is there.
func efaOf(t capacity.LaunchTemplate) capacity.EFAMode {
	mode := capacity.NoEFA
	for _, one := range t.NetworkInterfaces {
		switch capacity.EFAMode(one.Type) {
		case capacity.EFA: // on each interface, so that none is EFA only
			return capacity.EFA
		case capacity.EFAOnly:
			mode = capacity.EFAOnly
		}
	}
	return mode
}

// writesInterfaces reports whether setup writes the network interfaces itself. They have
// a subnet inside, so that all nodes are in that one.
func (in *inspection) writesInterfaces() bool { return in.efa() != "" && in.efa() != capacity.NoEFA }

// interfaceSubnet is the subnet inside the network interfaces: the first of those to
// choose from that is in the reservation's zone; "" without such interfaces.
func (in *inspection) interfaceSubnet() string {
	if in.writesInterfaces() && !in.onEC2() { // there each launch says it
		for _, s := range in.network.chosen {
			if s.AZID == in.reservation.AZID {
				return s.ID
			}
		}
	}
	return ""
}

// efaWord says in the plan which interfaces a mode stands for.
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

// addressesPerNode is how many addresses of its subnet a node takes: every interface has
// one, except those that are EFA only.
func (in *inspection) addressesPerNode() int {
	if in.efa() == capacity.EFA {
		return len(in.names.instanceType.Cards)
	}
	return 1
}

// checkEFA says what has become of EFA where people expect it.
func (in *inspection) checkEFA() {
	t := in.names.instanceType
	n := len(in.source.NetworkInterfaces)
	dropped := n > 0 && in.source.InstanceType != in.reservation.InstanceType
	switch {
	case in.request.EFA == capacity.EFAOnly && t.EFAInterfaces == 0 && t.Name != "":
		in.problem(
			capacity.TypeWithoutEFA,
			"leave out --efa",
			"%s has no EFA, so there is none to set up with --efa %s",
			t.Name,
			in.request.EFA,
		)
	case in.writesInterfaces():
	case dropped:
		in.warn(
			"the launch template of %s describes %d network interfaces for %s; they are not copied for %s, so the nodes come up with one and without EFA",
			in.copied(),
			n,
			orNone(in.source.InstanceType),
			in.reservation.InstanceType,
		)
	case t.GPUs > 0 && t.EFAInterfaces == 0:
		in.warn("%s has no EFA, so jobs on several nodes talk over plain TCP", t.Name)
	case t.GPUs > 0:
		in.warn("the nodes come up without EFA (--efa none), so jobs on several nodes talk over plain TCP")
	}
}
