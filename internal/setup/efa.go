package setup

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// efa selects the network interfaces of the launch template; "" for a type without EFA, whose
// interfaces are copied.
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

// addressesPerNode returns how many addresses of its subnet a node takes: one for each interface
// that is not EFA only.
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
		in.warn(
			"the launch template of %s describes %d network interfaces for %s; they are not copied for %s, so the nodes come up with one and without EFA",
			in.copied(), n, orNone(in.source.InstanceType), in.reservation.InstanceType)
	case t.GPUs > 0 && t.EFAInterfaces == 0:
		in.warn("%s has no EFA, so jobs on several nodes talk over plain TCP", t.Name)
	case t.GPUs > 0:
		in.warn("the nodes come up without EFA (--efa none), so jobs on several nodes talk over plain TCP")
	}
}
