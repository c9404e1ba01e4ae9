package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/report"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// reportDocument is the JSON form of a report.
type reportDocument struct {
	// TakenAt is AWS's time.
	TakenAt time.Time `json:"taken_at"`
	// Accounting: the jobs are those of Slurm's accounting, not only those that sync saw.
	Accounting bool `json:"accounting"`
	report.Report
	Warnings []string `json:"warnings"`
}

// reportRow is one line of the CSV form: what is reservation, day, account, user or job.
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
				row.Class, row.NodeSeconds = c, sums[c]
				rows = append(rows, row)
			}
		}
	}
	for _, r := range d.Reservations {
		add(reportRow{What: "reservation", Reservation: r.ID, From: latestOf(d.From, r.Start), To: d.Until}, r.Sums)
	}
	for _, day := range d.Days {
		add(reportRow{What: "day", From: day.From, To: day.To}, day.Sums)
	}
	for i, shares := range [][]report.Share{d.Accounts, d.Users, d.Jobs} {
		for _, s := range shares {
			add(reportRow{What: []string{"account", "user", "job"}[i], From: d.From, To: d.Until, Account: s.Account, User: s.User, Job: s.Job}, s.Sums)
		}
	}
	return rows
}

// The lines of the tables.
type (
	classLine struct {
		Class                   report.Class
		Hours, Percent, Meaning string
	}
	reservationLine struct {
		ID, Partition, Nodes               string
		From                               time.Time
		Hours, Useful, Fee, Used, OnDemand string
	}
	shareLine struct{ Account, User, Job, Hours, Lost, Why string }
)

// largestJobs is how many jobs a person is shown.
const largestJobs = 10

// tables shows all of it to a person.
func (d reportDocument) tables(t *terminal.Terminal) error {
	t.Tell("%s to %s: %s node-hours were paid, %s of them useful.\n", t.Time(d.From), t.Time(d.Until), hoursText(d.Total.Total()), usefulText(d.Total))
	var classes []classLine
	for _, c := range report.Classes {
		if n := d.Total[c]; n > 0 || c == report.Useful {
			classes = append(classes, classLine{c, hoursText(n), partText(n, d.Total.Total()), report.Meanings[c]})
		}
	}
	classes = append(classes, classLine{"paid", hoursText(d.Total.Total()), "", ""})
	var reservations []reservationLine
	for _, r := range d.Reservations {
		reservations = append(reservations, reservationLine{
			r.ID, r.Paid.Partition, fmt.Sprintf("%d x %s", r.Paid.Size, r.Paid.InstanceType), latestOf(d.From, r.Start), hoursText(r.Sums.Total()),
			usefulText(r.Sums), moneyText(r.Cost.InReport, ""), priceText(r.Cost, r.Cost.PerUsed), priceText(r.Cost, r.Cost.OnDemand),
		})
	}
	var shares []shareLine
	for _, s := range slices.Concat(d.Users, d.Jobs[:min(largestJobs, len(d.Jobs))]) {
		all, why := s.Sums.Total(), []string{}
		for _, c := range []report.Class{report.LostRequeue, report.LostTimeout, report.LostFailure} {
			if s.Sums[c] > 0 {
				why = append(why, strings.TrimPrefix(string(c), "lost-"))
			}
		}
		shares = append(shares, shareLine{cmp.Or(s.Account, "-"), cmp.Or(s.User, "-"), cmp.Or(s.Job, "all"), hoursText(all),
			hoursText(all - s.Sums[report.Useful]), strings.Join(why, " ")})
	}
	if err := t.Rows(classes, "CLASS: Class; NODE-HOURS: Hours right; PART: Percent right; WHAT IT IS: Meaning wrap"); err != nil {
		return err
	}
	if len(reservations) > 0 {
		fmt.Fprintln(t.Out)
		if err := t.Rows(reservations, "RESERVATION: ID; PARTITION: Partition drop 2; NODES: Nodes; FROM: From drop 1; NODE-HOURS: Hours right; "+
			"USEFUL: Useful right; COST: Fee right drop 3; PER USED HOUR: Used right; ON DEMAND: OnDemand right drop 4"); err != nil {
			return err
		}
	}
	if len(shares) > 0 {
		fmt.Fprintln(t.Out)
		return t.Rows(shares, "ACCOUNT: Account; USER: User; LARGEST JOBS: Job; NODE-HOURS: Hours right; OF THEM LOST: Lost right; LOST TO: Why")
	}
	return nil
}

// hoursText are hours, to the nearest hundredth.
func hoursText(seconds int64) string {
	n := (seconds + 18) / 36
	return fmt.Sprintf("%d.%02d", n/100, n%100)
}

func usefulText(sums report.Sums) string { return partText(sums[report.Useful], sums.Total()) }

func partText(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}

func moneyText(m capacity.Money, per string) string {
	if m == (capacity.Money{}) {
		return "-"
	}
	return m.Grouped() + per
}

// priceText is a price with what it is of: "6.12 USD/GPU".
func priceText(c report.Cost, price capacity.Money) string {
	if c.PerNode {
		return moneyText(price, "/node")
	}
	return moneyText(price, "/GPU")
}
