package config

import "github.com/pcs-capacity/pcs-capacity/capacity"

// Domain is the settings that decisions depend on.
func (c *Config) Domain() capacity.Settings {
	return capacity.Settings{Cluster: c.Cluster, Timing: c.Timing.Domain(), Reserve: c.Reserve.Domain(),
		Submit: capacity.Submit{Strict: c.Submit.Strict, StaleAfter: capacity.Duration{Duration: capacity.StaleAfter}}, Partitions: c.Partitions}
}

// Domain is the timing that decisions depend on.
func (t Timing) Domain() capacity.Timing {
	return capacity.Timing{DrainMargin: t.DrainMargin, BootAllowance: t.BootAllowance, ReclaimLead: t.ReclaimLead}
}

// Domain is what may be held.
func (r Reserve) Domain() capacity.Reserve {
	return capacity.Reserve{MaxInstances: r.MaxInstances}
}
