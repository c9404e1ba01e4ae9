package config

import (
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// validateReserve finds what a node group may not have unless it buys on demand, through us.
func validateReserve(g capacity.GroupSettings, provider capacity.Provider, all Reserve, fail func(message string, args ...any)) {
	onDemand := provider == capacity.ProviderEC2 && !g.PurchaseOption.Reserved()
	switch {
	case g.Reserve != "" && g.Reserve != capacity.ReserveNever && g.Reserve != capacity.ReservePerJob:
		fail("reserve = %q is not known; use \"never\" or \"per-job\"", g.Reserve)
	case g.Reserve == capacity.ReservePerJob && all.MaxInstances == 0:
		fail("reserve = \"per-job\" holds nothing while max_instances of [reserve] is 0; say how many instances may be held at once")
	case g.Reserve == capacity.ReservePerJob && !onDemand:
		fail("reserve = \"per-job\" is for provider ec2 and purchase_option = \"on-demand\"; leave it out")
	}
	if len(g.OtherTypes) > 0 && g.Reserve == capacity.ReservePerJob {
		fail("other_instance_types cannot be together with reserve = \"per-job\": a job's nodes are to be alike; give each type a node_group of its own")
	}
	if len(g.OtherTypes) > 0 && !onDemand {
		fail("other_instance_types is for provider ec2 and purchase_option = \"on-demand\"; leave it out")
	}
	for i, t := range g.OtherTypes {
		switch {
		case !capacity.IsInstanceType(t):
			fail("other_instance_types: %q is not an instance type", t)
		case t == g.InstanceType || slices.Contains(g.OtherTypes[:i], t):
			fail("other_instance_types: %s is there twice; keep one of them", t)
		}
	}
}
