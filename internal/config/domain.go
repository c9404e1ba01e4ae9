package config

import "github.com/pcs-capacity/pcs-capacity/capacity"

// Domain is the settings that decisions depend on.
func (c *Config) Domain() capacity.Settings {
	return capacity.Settings{Cluster: c.Cluster, Timing: c.Timing.Domain(), Reserve: c.Reserve.Domain(),
		Submit: capacity.Submit{Strict: c.Submit.Strict, StaleAfter: capacity.Duration{Duration: capacity.StaleAfter}}, Partitions: c.Partitions}
}

// Domain is the timing that decisions depend on.
func (t Timing) Domain() capacity.Timing {
	return capacity.Timing{DrainMargin: t.DrainMargin, BootAllowance: t.BootAllowance,
		ReclaimLead: t.ReclaimLead, ReclaimLeadUltraServer: t.ReclaimLeadUltraServer}
}

// Domain is what may be held.
func (r Reserve) Domain() capacity.Reserve {
	return capacity.Reserve{Enabled: r.Enabled, MaxInstances: r.MaxInstances, Prices: allUSD(r.Prices)}
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
