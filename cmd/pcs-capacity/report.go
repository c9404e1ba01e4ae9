package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/report"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// ReportCmd says where paid hours went.
type ReportCmd struct {
	Reservations []string          `arg:"" optional:"" predictor:"reservation" name:"reservation" help:"Report only these reservations (cr-…), each from its start. Default: all of the last 30 days."`
	From         moment            `help:"Begin here, such as 2026-12-01." placeholder:"TIME"`
	Until        moment            `help:"End here, such as 2026-12-31. Default: now." placeholder:"TIME"`
	Price        map[string]string `help:"What an instance of a type costs for an hour on demand, to compare with, and what an ODCR costs; or the whole fee of a block that was bought elsewhere, cr-…=USD. Can be given several times." placeholder:"TYPE=USD"`
}

// Help is shown below the flags.
func (ReportCmd) Help() string {
	return `Each paid hour of each instance of a reservation is in exactly one class: a job used it, it was
lost to a requeue, a time limit or a failure, or nothing ran. It reads what sync has seen and
Slurm's accounting where there is one; it asks nothing of AWS. Times at which sync did not
run are shown as unknown. Fees are those that purchase and extend have recorded, and those
of --price.

  pcs-capacity report --from 2026-12-01 --price p5.48xlarge=55.04`
}

// lookBack is how far a report goes back that is told nothing else.
const lookBack = 30 * 24 * time.Hour

// Run reads and shows.
func (c *ReportCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config) error {
	prices, err := c.check()
	if err != nil {
		return err
	}
	dir := state.Dir(cfg.StateDir)
	snap, snapErr := dir.ReadSnapshot()
	var offset time.Duration
	if snapErr == nil {
		offset = snap.ClockOffset.Duration
	}
	now := time.Now().Add(offset).Truncate(time.Second)
	from, until := c.period(now)
	samples, err := dir.Samples(from)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w; only who may read the samples of sync can make a report", err)
	}
	if err != nil {
		return err
	}
	if len(samples) == 0 {
		return fmt.Errorf("%s has no samples: `pcs-capacity sync --watch` keeps them from when a reservation opens", dir)
	}
	in := report.Input{
		Samples: samples,
		From:    from,
		Until:   until,
		IDs:     c.Reservations,
		Zone:    time.Local,
		Expand:  slurm.Expand,
	}
	if t.UTC {
		in.Zone = time.UTC
	}
	doc := reportDocument{TakenAt: now, Warnings: []string{}}
	in.Accounted, err = report.Accounted(ctx, slurm.New(cfg.Cluster), in.Begins(), until, offset)
	switch {
	case err == nil:
		doc.Accounting = true
	case !errors.Is(err, slurm.ErrNoAccounting):
		doc.Warnings = append(doc.Warnings, fmt.Sprintf("jobs are those that sync saw: %s", err))
	}
	made, err := report.Make(in)
	if err != nil {
		return err
	}
	fees, err := recordedFees(dir, &made)
	if err != nil {
		doc.Warnings = append(doc.Warnings, fmt.Sprintf("no fees are known: %s", err))
	}
	for _, id := range c.Reservations {
		if !slices.ContainsFunc(made.Reservations, func(r report.Reservation) bool { return r.ID == id }) {
			return fmt.Errorf(
				"sync has not seen %s open in this time; `pcs-capacity list` shows reservations, and --from how far back to look",
				id)
		}
	}
	for i := range made.Reservations {
		r := &made.Reservations[i]
		r.Cost = r.Costs(cmp.Or(prices[r.ID], fees[r.ID]), prices[r.Paid.InstanceType])
	}
	doc.Report = made
	return c.show(t, doc)
}

// check reads what is written as text.
func (c *ReportCmd) check() (prices map[string]capacity.Money, err error) {
	for _, id := range c.Reservations {
		if !capacity.IsReservationID(id) {
			return nil, usage("%q is not the id of a reservation (cr-…)", id)
		}
	}
	if !c.From.IsZero() && !c.Until.IsZero() && !c.From.Before(c.Until.Time) {
		return nil, usage("--until=%s is not after --from=%s", c.Until.Format(time.RFC3339), c.From.Format(time.RFC3339))
	}
	prices = map[string]capacity.Money{}
	for name, amount := range c.Price {
		if prices[name], err = dollars("--price "+name, amount); err != nil {
			return nil, err
		}
	}
	return prices, nil
}

// period is the time of the report; from is zero where reservations are named.
func (c *ReportCmd) period(now time.Time) (from, until time.Time) {
	from, until = c.From.Time, now
	if !c.Until.IsZero() && c.Until.Before(now) {
		until = c.Until.Time
	}
	if from.IsZero() && len(c.Reservations) == 0 {
		from = until.Add(-lookBack)
	}
	return from, until
}

// recordedFees adds up what was recorded for each reservation: its purchase, and the extensions after it. One of which
// a part is not known has none.
func recordedFees(dir state.Dir, made *report.Report) (map[string]capacity.Money, error) {
	all, err := market.Intents{StateDir: dir}.All()
	if err != nil {
		return nil, err
	}
	fees, ends := map[string]capacity.Money{}, map[string]time.Time{}
	for _, r := range made.Reservations {
		ends[r.ID] = r.End
	}
	for _, i := range all {
		id := i.Reservation
		switch {
		case i.Phase == market.Failed || i.Phase == market.Sending:
		case i.Kind != market.ExtendBlock:
			fees[id] = i.Fee
		case fees[id] != capacity.Money{} && !i.NewEnd.After(ends[id]): // one whose payment failed has not moved the end
			fees[id] = fees[id].Plus(i.Fee)
		}
	}
	return fees, nil
}

// show writes the report.
func (c *ReportCmd) show(t *terminal.Terminal, doc reportDocument) error {
	if t.Format != terminal.Table {
		return t.Show(doc, doc.rows(), "")
	}
	if err := doc.tables(t); err != nil {
		return err
	}
	for _, g := range doc.Gaps {
		t.Say("Unknown: %s from %s to %s: %s.", g.Reservation, t.Time(g.From), t.Time(g.To), g.Reason)
	}
	for _, w := range doc.Warnings {
		t.Say("Warning: %s.", strings.TrimSuffix(w, "."))
	}
	return nil
}
