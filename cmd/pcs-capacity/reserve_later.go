package main

import (
	"context"
	"strconv"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// laterFlags are those of an ODCR for a later date.
type laterFlags struct {
	Start             moment `help:"Not now but from this time on, 5 to 120 days ahead." placeholder:"TIME"`
	Commitment        span   `help:"With --start: for how long it is paid, used or not; 14d or more." placeholder:"14d"`
	ConfirmCommitment int    `help:"With --start: the instance-hours that you commit to." placeholder:"HOURS"`
	Again             bool   `help:"With --start: commit once more to what was committed to before."`
}

// committedRow is an ODCR that opens later.
type committedRow struct {
	ID            string         `json:"id" col:"RESERVATION"`
	State         capacity.State `json:"state" col:"STATE"`
	InstanceType  string         `json:"instance_type" col:"TYPE"`
	Count         int            `json:"count" col:"COUNT" drop:"2"`
	Region        string         `json:"region"`
	AZID          string         `json:"az_id" col:"AZ ID" drop:"1"`
	Start         time.Time      `json:"start" col:"START"`
	Until         time.Time      `json:"committed_until" col:"COMMITTED UNTIL"`
	InstanceHours int            `json:"instance_hours" col:"INSTANCE-HOURS" align:"right" drop:"3"`
	// Cost is not known without a price.
	Cost      *capacity.Money `json:"cost,omitempty"`
	OrderedAt time.Time       `json:"ordered_at"`
	// OrderedNow is false for what an earlier run or another machine ordered.
	OrderedNow bool `json:"ordered_now"`
}

// later orders an ODCR that opens at a later date.
func (c *ReserveCmd) later(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client,
	h market.Holder) error {
	switch {
	case c.Commitment == 0:
		return usage("--start needs --commitment, such as 14d: for how long it is paid, used or not")
	case len(c.SubnetIDs) != 1:
		return usage("--start takes one subnet, whose zone it is: EC2 tells only later whether it has room there")
	case c.ConfirmCommitment < 0:
		return usage("--confirm-commitment=%d: give the instance-hours", c.ConfirmCommitment)
	}
	buyer := newBuyer(t, &maybeConfig{cfg, true}, aws, false)
	buyer.Cluster = h.Cluster
	return buyer.Commit(ctx,
		market.CommitOrder{InstanceType: c.InstanceType, Platform: c.Platform, Count: c.Count, SubnetID: c.SubnetIDs[0],
			Start: c.Start.Truncate(time.Second), For: time.Duration(c.Commitment), Again: c.Again, Limits: h.Limits,
			Accept: func(p market.CommitPreview) error { return c.accept(t, p) },
			Tell:   func(r market.CommitResult) error { return tellCommitment(t, r) }})
}

// accept says what would be committed to, and has it confirmed; --yes is not enough.
func (c *ReserveCmd) accept(t *terminal.Terminal, p market.CommitPreview) error {
	o := p.Order
	hours := strconv.Itoa(o.InstanceHours())
	t.Say("%d × %s in %s%s", o.Count, o.InstanceType, p.AZID, inAccount(p.Account))
	t.Say("  start       %s, in %s", t.Time(o.Start), capacity.FormatDuration(o.Start.Sub(p.Now)))
	t.Say("  end         %s, after %s; EC2 ends it within an hour", t.Time(o.Start.Add(o.For)),
		capacity.FormatExact(o.For))
	t.Say("  commitment  %s instance-hours, paid as they go by, used or not: %s", hours, committedCost(o))
	if c.ConfirmCommitment != 0 {
		if c.ConfirmCommitment != o.InstanceHours() {
			return usage("it is %s instance-hours, not the %d of --confirm-commitment; nothing was bought", hours,
				c.ConfirmCommitment)
		}
		return nil
	}
	if !t.CanAsk {
		return usage("commitment not confirmed; pass --confirm-commitment %s", hours)
	}
	return t.Type(
		"Once EC2 has scheduled it, it cannot be cancelled without charges. Type the instance-hours ("+hours+") to commit",
		hours)
}

func committedCost(o market.CommitOrder) string {
	cost, known := o.Limits.Cost(o.InstanceType, o.Count, o.For)
	if !known {
		return "at the price on demand, which is not in the settings"
	}
	return cost.String() + " at the price of the settings"
}

// tellCommitment shows what was ordered, and what comes next.
func tellCommitment(t *terminal.Terminal, c market.CommitResult) error {
	o, r := c.Intent.Offering, c.Reservation
	row := committedRow{
		ID:            r.ID,
		State:         r.State,
		InstanceType:  c.Order.InstanceType,
		Count:         c.Order.Count,
		Region:        o.Region,
		AZID:          c.AZID,
		Start:         c.Order.Start,
		Until:         c.Order.Start.Add(c.Order.For),
		InstanceHours: c.Order.InstanceHours(),
		OrderedAt:     c.Intent.At,
		OrderedNow:    c.BoughtNow,
	}
	if cost, known := c.Order.Limits.Cost(row.InstanceType, row.Count, c.Order.For); known {
		row.Cost = &cost
	}
	if err := t.Rows([]committedRow{row}); err != nil {
		return err
	}
	if r.State == "" || r.State.Expected() {
		t.Say(
			"EC2 assesses it before it schedules it; `pcs-capacity list` shows what came of that: scheduled, or unsupported, and then nothing is paid.",
		)
	}
	return nil
}
