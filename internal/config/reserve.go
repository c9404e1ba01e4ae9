package config

import (
	"maps"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func (r Reserve) validate(fail func(where, message string, args ...any)) {
	if r.MaxInstances < 1 {
		fail("reserve.max_instances", "%d is too few; use at least 1, or enabled = false to hold nothing", r.MaxInstances)
	}
	for _, instanceType := range slices.Sorted(maps.Keys(r.Prices)) {
		if !capacity.IsInstanceType(instanceType) {
			fail("reserve.prices", "%q is not an instance type", instanceType)
		}
		if m, err := capacity.ParseMoney(r.Prices[instanceType], capacity.USD); err != nil {
			fail("reserve.prices", "%s", err)
		} else if m.Times(2) == m {
			fail("reserve.prices", "0 is no price; leave it out")
		}
	}
}

// validateReserve finds what a node group may not have unless it buys on demand, through us.
func validateReserve(g capacity.GroupSettings, provider capacity.Provider, all Reserve, fail func(message string, args ...any)) {
	onDemand := provider == capacity.ProviderEC2 && !g.PurchaseOption.Reserved()
	switch {
	case g.Reserve != "" && g.Reserve != capacity.ReserveNever && g.Reserve != capacity.ReservePerJob:
		fail("reserve = %q is not known; use \"never\" or \"per-job\"", g.Reserve)
	case g.Reserve == capacity.ReservePerJob && !all.Enabled:
		fail("reserve = \"per-job\" holds nothing while [reserve] enabled is false; set it to true")
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
