package main

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// quirks are flags that make simulated AWS less kind than its scenario.
type quirks struct {
	Lag         time.Duration `placeholder:"DURATION" help:"What is created, or tagged, shows to later calls after so long only."`
	PurchaseLag time.Duration `placeholder:"DURATION" help:"The same for blocks and extensions that are bought."`
	ClockOffset time.Duration `placeholder:"DURATION" help:"How far its clock is before that of this machine."`
}

// on lays them over a scenario.
func (q quirks) on(sc *awssim.Scenario) {
	if lag := awssim.Duration(q.Lag); lag > 0 {
		sc.Lag.Instances, sc.Lag.Templates, sc.Lag.Tags, sc.Lag.Reservations = &lag, &lag, &lag, &lag
	}
	if lag := awssim.Duration(q.PurchaseLag); lag > 0 {
		sc.Lag.Purchases = &lag
	}
	sc.ClockOffset += awssim.Duration(q.ClockOffset)
}

// flags are the set flags, for another call of this program.
func (q quirks) flags() []string {
	var all []string
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"--lag", q.Lag}, {"--purchase-lag", q.PurchaseLag}, {"--clock-offset", q.ClockOffset}} {
		if f.value != 0 {
			all = append(all, f.name, f.value.String())
		}
	}
	return all
}
