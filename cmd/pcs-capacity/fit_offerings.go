package main

import (
	"context"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// filling is what is for sale that would fill a need.
type filling struct {
	rows    []offeringRow
	failed  []regionFailure
	market  market
	answers []regionMarket
	err     error
}

// overhead is what of a block of instances no job can use: boot at its start, and the
// time from the fence to its end.
func overhead(t capacity.Timing) time.Duration {
	return t.BootAllowance.Duration + t.DrainMargin.Duration + t.ReclaimLead.Duration
}

// search looks for offerings that fit the need once they are bought.
func (f fitting) search(ctx context.Context, progress *terminal.Slow, aws *ec2.Client, cfg *maybeConfig, regions []string, noCache bool) filling {
	s := filling{rows: []offeringRow{}}
	length, err := ec2.Length(f.need.Duration + overhead(f.timing))
	if err != nil {
		s.err = err
		return s
	}
	s.market = market{search: newSearcher(ctx, progress, aws, noCache),
		query: ec2.OfferingQuery{InstanceType: f.need.InstanceType, Count: f.need.Count, Duration: length}}
	if s.answers, s.failed, s.err = askRegions(ctx, progress, aws, regions, s.market.ask); s.err != nil {
		return s
	}
	var fitting []capacity.Offering
	for _, o := range s.market.affordable(s.answers) {
		if held := f.held([]capacity.Reservation{bought(o)}); len(held) == 1 && held[0].Code == capacity.OK {
			fitting = append(fitting, o)
			s.rows = append(s.rows, newOfferingRow(o, length, s.market.gpus(s.answers, o), f.subnets.in(o.AZID)))
		}
	}
	slices.SortStableFunc(s.rows, compareOfferings("start"))
	s.market.remember(aws, cfg, fitting)
	return s
}

// bought is the reservation that an offering becomes.
func bought(o capacity.Offering) capacity.Reservation {
	return capacity.Reservation{ID: o.ID, Kind: capacity.CapacityBlock, State: capacity.StateScheduled, InstanceType: o.InstanceType,
		Region: o.Region, AZID: o.AZID, AZ: o.AZ, Total: o.Count, UltraServer: o.UltraServerType != "", Start: o.Start, End: o.End}
}

// say tells what the search came to.
func (s filling) say(t *terminal.Terminal) {
	if s.err != nil {
		t.Say("What is for sale is not known: %s", s.err)
		return
	}
	s.market.search.done(t)
	switch {
	case len(s.rows) > 0:
		first := s.rows[0]
		t.Say("%s would fill it, for %s from %s on:\n  pcs-capacity purchase %s", first.ID, first.FeeShown, t.Time(first.Start), first.ID)
	case len(s.market.affordable(s.answers)) > 0:
		t.Say("None of the blocks for sale would fill it: pcs-capacity offerings -t %s -n %d -d %s",
			s.market.query.InstanceType, s.market.query.Count, capacity.FormatDuration(s.market.query.Duration))
	default:
		s.market.explain(t, s.answers)
	}
}
