package config

import (
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Domain is the settings that decisions depend on.
func (c *Config) Domain() capacity.Settings {
	s := capacity.Settings{Cluster: c.Cluster, Timing: c.Timing.Domain(), OnMismatch: c.Prolog.OnMismatch, Reserve: c.Reserve.Domain(),
		Submit: capacity.Submit{Strict: c.Submit.Strict, StaleAfter: c.Submit.StaleAfter}}
	for _, p := range c.Partitions {
		out := capacity.PartitionSettings{Name: p.Name, Provider: p.Provider, AllowAccounts: p.AllowAccounts, AllowGroups: p.AllowGroups, MinTime: p.MinTime, OnEnd: p.OnEnd, RollOver: p.RollOver}
		for _, g := range p.NodeGroups {
			out.Groups = append(out.Groups, capacity.GroupSettings{Name: g.Name, InstanceType: g.InstanceType, OtherTypes: g.OtherTypes, Reserve: g.Reserve, SubnetIDs: g.SubnetIDs,
				PurchaseOption: g.PurchaseOption, ReservationIDs: g.ReservationIDs, Select: g.Select, MaxNodes: g.MaxNodes,
				Dynamic: g.Dynamic, LaunchTemplate: g.LaunchTemplate, Slots: g.Slots, Nodes: nodeNames(g.Nodes)})
		}
		s.Partitions = append(s.Partitions, out)
	}
	return s
}

// Domain is the timing that decisions depend on.
func (t Timing) Domain() capacity.Timing {
	return capacity.Timing{DrainMargin: t.DrainMargin, BootAllowance: t.BootAllowance,
		ReclaimLead: t.ReclaimLead, ReclaimLeadUltraServer: t.ReclaimLeadUltraServer}
}

// Domain is what may be held.
func (r Reserve) Domain() capacity.Reserve {
	return capacity.Reserve{Enabled: r.Enabled, Strict: r.Strict, For: r.For, MaxInstances: r.MaxInstances, MaxPerHour: usd(r.MaxUSDPerHour), Prices: allUSD(r.Prices), Order: r.Order}
}

// usd is an amount that Load has checked; the zero value for "".
func usd(amount string) capacity.Money {
	m, err := capacity.ParseMoney(amount, capacity.USD)
	if err != nil {
		return capacity.Money{}
	}
	return m
}

func allUSD(amounts map[string]string) map[string]capacity.Money {
	all := map[string]capacity.Money{}
	for name, amount := range amounts {
		all[name] = usd(amount)
	}
	return all
}

// nodeNames are the names of a hostlist, which Load has checked, in the order of their bytes.
func nodeNames(list string) []string {
	names, _ := hostlist.Expand(list)
	slices.Sort(names)
	return names
}
