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
	Price        map[string]string `help:"Price of an instance-hour of a type on demand, to compare with and for ODCRs; or the whole fee of a block that was bought elsewhere, cr-…=USD. Can be given several times." placeholder:"TYPE=USD"`
}

func (ReportCmd) Help() string {
	return `Each paid hour of each instance of a reservation is in exactly one class: a job used it, it was
lent, it was lost to a requeue, a time limit or a failure, or nothing ran. The command reads what sync has
seen, and Slurm's accounting if there is one; it does not call AWS. Times at which sync did not
run are shown as unknown. Fees are those that purchase and extend recorded, and those of --price.
Capacity that was held for launches is added up beside that, from its creation until its nodes ran.

  pcs-capacity report --from 2026-12-01 --price p5.48xlarge=55.04`
}

// lookBack bounds how far a report goes back unless it is told otherwise.
const lookBack = 30 * 24 * time.Hour

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
		return fmt.Errorf("%w; only users who may read sync's samples can make a report", err)
	}

	if err != nil {
		return err
	}

	doc := reportDocument{TakenAt: now, Warnings: []string{}}

	records, err := dir.Records()
	if err != nil {
		doc.Warnings = append(doc.Warnings, fmt.Sprintf("what was held for launches is not known: %s", err))
	}

	in := report.Input{
		Samples: samples,
		Records: records,
		From:    from,
		Until:   until,
		IDs:     c.Reservations,
	}
	if len(samples) == 0 && !in.Begins().Before(until) {
		return fmt.Errorf(
			"%s has no samples: `pcs-capacity sync --watch` records them from when a reservation opens",
			dir,
		)
	}

	progress := t.Slow("asking Slurm's accounting")
	in.Accounted, err = report.Accounted(ctx, slurm.New(cfg.Cluster), in.Begins(), until, offset)

	progress.Done()

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
				"sync has not seen %s open in this time; `pcs-capacity list` shows reservations, and --from how far "+
					"back to look",
				id,
			)
		}
	}

	for i := range made.Reservations {
		r := &made.Reservations[i]
		r.Cost = r.Costs(cmp.Or(prices[r.ID].Money, fees[r.ID]), prices[r.Paid.InstanceType].Money)
	}

	for _, holds := range [][]report.HoldSum{made.Held, made.HeldJobs} {
		for i := range holds {
			holds[i].SetPrice(prices[holds[i].InstanceType].Money)
		}
	}

	doc.Report = made

	return c.show(t, doc)
}

// check finds mistakes in the arguments, and reads the prices.
func (c *ReportCmd) check() (map[string]usd, error) {
	if !c.From.IsZero() && !c.Until.IsZero() && !c.From.Before(c.Until.Time) {
		return nil, usage(
			"--until=%s is not after --from=%s",
			c.Until.Format(time.RFC3339),
			c.From.Format(time.RFC3339),
		)
	}

	prices := map[string]usd{}
	for name, amount := range c.Price {
		var price usd
		if err := price.UnmarshalText([]byte(amount)); err != nil {
			return nil, usage("--price %s: %w", name, err)
		}

		prices[name] = price
	}

	return prices, nil
}

// period returns the time of the report; from is zero where reservations are named.
func (c *ReportCmd) period(now time.Time) (from, until time.Time) {
	from = c.From.Time
	until = now
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

	fees := map[string]capacity.Money{}

	ends := map[string]time.Time{}
	for _, r := range made.Reservations {
		ends[r.ID] = r.End
	}

	for _, i := range all {
		id := i.Reservation
		switch {
		case i.Phase == market.Failed || i.Phase == market.Sending:
		case i.Kind != market.ExtendBlock:
			fees[id] = i.Fee
		// one whose payment failed has not moved the end
		case fees[id] != capacity.Money{} && !i.NewEnd.After(ends[id]):
			fees[id] = fees[id].Add(i.Fee)
		}
	}

	return fees, nil
}

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

// reportDocument is the JSON form of a report.
type reportDocument struct {
	TakenAt    time.Time `json:"taken_at"`   // AWS's time
	Accounting bool      `json:"accounting"` // the jobs are those of Slurm's accounting, not only those that sync saw
	report.Report
	Warnings []string `json:"warnings"`
}

// reportRow is one line of the CSV form: what is reservation, account, user, job or hold.
type reportRow struct {
	What        string       `json:"what"`
	Reservation string       `json:"reservation"`
	From        time.Time    `json:"from,omitzero"`
	To          time.Time    `json:"to,omitzero"`
	Account     string       `json:"account"`
	User        string       `json:"user"`
	Job         string       `json:"job"`
	Class       report.Class `json:"class"`
	NodeSeconds int64        `json:"node_seconds"`
}

func (d reportDocument) rows() []reportRow {
	rows := []reportRow{}

	add := func(row reportRow, sums report.Sums) {
		for _, c := range report.Classes {
			if sums[c] > 0 {
				row.Class = c
				row.NodeSeconds = sums[c]
				rows = append(rows, row)
			}
		}
	}
	for _, r := range d.Reservations {
		add(reportRow{What: "reservation", Reservation: r.ID, From: r.From, To: d.Until}, r.Sums)
	}

	for i, shares := range [][]report.Share{d.Accounts, d.Users, d.Jobs} {
		for _, s := range shares {
			add(
				reportRow{
					What:    []string{"account", "user", "job"}[i],
					From:    d.From,
					To:      d.Until,
					Account: s.Account,
					User:    s.User,
					Job:     s.Job,
				},
				s.Sums,
			)
		}
	}

	for _, h := range d.HeldJobs {
		rows = append(rows, reportRow{What: "hold", From: d.From, To: d.Until, Job: h.Job, NodeSeconds: h.Seconds})
	}

	return rows
}

// classLine sums up the hours of one class, or of all.
type classLine struct {
	Class                   report.Class
	Hours, Percent, Meaning string
}

const (
	classColumns       = "CLASS: Class; NODE-HOURS: Hours right; PART: Percent right; WHAT IT IS: Meaning wrap"
	reservationColumns = "RESERVATION: ID; PARTITION: Paid.Partition drop 2; NODES: Nodes drop 4; FROM: From drop 1; " +
		"NODE-HOURS: Sums.Hours right; USEFUL: Sums.UsefulPart right; COST: Cost.InReport right; " +
		"PER USED HOUR: Cost.PerUsed right; ON DEMAND: Cost.OnDemand right drop 3; PER: Cost.Unit"
	shareColumns = "ACCOUNT: Account; USER: User; LARGEST JOBS: Which; NODE-HOURS: Sums.Hours right; " +
		"OF THEM LOST: Sums.Lost right; LOST TO: Sums.LostTo"
	holdColumns = "PARTITION: Partition; FOR JOB: Which; ODCRS: ODCRs right; NODES: Nodes; " +
		"IDLE NODE-SECONDS: Seconds right; COST: Cost right"
)

// largestJobs bounds the jobs that a person is shown.
const largestJobs = 10

// tables shows all of it to a person.
func (d reportDocument) tables(t *terminal.Terminal) error {
	if len(d.Reservations) > 0 || len(d.Held) == 0 {
		err := d.paidTables(t)
		if err != nil || len(d.Held) == 0 {
			return err
		}

		fmt.Fprintln(t.Out)
	}

	t.Print("%s to %s: capacity was held for launches, and idle until the nodes ran.\n", t.Time(d.From),
		t.Time(d.Until))

	return t.Rows(slices.Concat(d.Held, d.HeldJobs[:min(largestJobs, len(d.HeldJobs))]), holdColumns)
}

// paidTables shows where the time of reservations went.
func (d reportDocument) paidTables(t *terminal.Terminal) error {
	lent := ""
	if d.Total[report.Lent] > 0 {
		lent = fmt.Sprintf(", %s lent", d.Total.LentPart())
	}

	t.Print("%s to %s: %s node-hours were paid, %s of them useful%s.\n", t.Time(d.From), t.Time(d.Until),
		d.Total.Hours(), cmp.Or(d.Total.UsefulPart(), "none"), lent)

	var classes []classLine
	for _, c := range report.Classes {
		if n := d.Total[c]; n > 0 || c == report.Useful {
			classes = append(
				classes,
				classLine{c, report.Hours(n), report.Part(n, d.Total.Total()), report.Meanings[c]},
			)
		}
	}

	classes = append(classes, classLine{Class: "paid", Hours: d.Total.Hours()})
	if err := t.Rows(classes, classColumns); err != nil {
		return err
	}

	fmt.Fprintln(t.Out)

	if err := t.Rows(d.Reservations, reservationColumns); err != nil {
		return err
	}

	fmt.Fprintln(t.Out)

	return t.Rows(slices.Concat(d.Users, d.Jobs[:min(largestJobs, len(d.Jobs))]), shareColumns)
}
