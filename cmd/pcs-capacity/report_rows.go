package main

import (
	"cmp"
	"fmt"
	"math"
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
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	// Accounting: the jobs are those of Slurm's accounting, not only those that sync saw.
	Accounting   bool                `json:"accounting"`
	NodeSeconds  int64               `json:"paid_node_seconds"`
	Classes      []reportClass       `json:"classes"`
	Reservations []reportReservation `json:"reservations"`
	Accounts     []reportShare       `json:"accounts"`
	Users        []reportShare       `json:"users"`
	Jobs         []reportShare       `json:"jobs"`
	Days         []reportDay         `json:"days"`
	Unknown      []reportGap         `json:"unknown"`
	Advice       []reportAdvice      `json:"advice"`
	Warnings     []string            `json:"warnings"`
}

// reportClass is one class of paid time.
type reportClass struct {
	Class       report.Class `json:"class"`
	NodeSeconds int64        `json:"node_seconds"`
	NodeHours   float64      `json:"node_hours"`
	Percent     float64      `json:"percent"`
}

type reportReservation struct {
	ID           string        `json:"id"`
	Partition    string        `json:"partition"`
	Kind         capacity.Kind `json:"kind"`
	InstanceType string        `json:"instance_type"`
	Count        int           `json:"count"`
	// GPUs is nil where nobody knows how many a node has.
	GPUs        *int          `json:"gpus_per_node"`
	Start       time.Time     `json:"start"`
	End         time.Time     `json:"end,omitzero"`
	NodeSeconds int64         `json:"paid_node_seconds"`
	Classes     []reportClass `json:"classes"`
	// Fee is for all of it, FeeInReport for this time; "" where they are not known.
	Fee         string `json:"fee"`
	FeeInReport string `json:"fee_in_report"`
	Currency    string `json:"currency"`
	// Per is gpu-hour or, where the GPUs are not known, node-hour: what the prices are of.
	Per         string `json:"price_of"`
	PricePaid   string `json:"price_paid"`
	PriceUsed   string `json:"price_used"`
	PriceDemand string `json:"price_on_demand"`

	cost report.Cost
}

// reportShare is what an account, a user or a job had; Lost is a part of the node-seconds.
type reportShare struct {
	Account     string `json:"account"`
	User        string `json:"user,omitempty"`
	Job         string `json:"job,omitempty"`
	NodeSeconds int64  `json:"node_seconds"`
	Useful      int64  `json:"useful_node_seconds"`
	Lost        int64  `json:"lost_node_seconds"`
	Why         string `json:"lost_to"`
}

type reportDay struct {
	From    time.Time     `json:"from"`
	To      time.Time     `json:"to"`
	Classes []reportClass `json:"classes"`
}

type reportGap struct {
	Reservation string    `json:"reservation"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	NodeSeconds int64     `json:"node_seconds"`
	Reason      string    `json:"reason"`
}

type reportAdvice struct {
	Partition string `json:"partition"`
	Says      string `json:"says"`
	Command   string `json:"command"`
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
	NodeHours   float64      `json:"node_hours"`
}

// fill writes a report into the document.
func (d *reportDocument) fill(made report.Report, fees map[string]recordedFee, onDemand map[string]capacity.Money,
	advice []report.Advice) {
	d.From, d.Until = made.From.UTC(), made.Until.UTC()
	d.NodeSeconds, d.Classes = made.Total.Total(), reportClasses(made.Total)
	d.Reservations, d.Days, d.Unknown, d.Advice = []reportReservation{}, []reportDay{}, []reportGap{}, []reportAdvice{}
	for _, r := range made.Reservations {
		row := reportReservation{
			ID:           r.ID,
			Partition:    r.Paid.Partition,
			Kind:         r.Paid.Kind,
			InstanceType: r.Paid.InstanceType,
			Count:        r.Paid.Size,
			Start:        r.Start,
			End:          r.End,
			NodeSeconds:  r.Sums.Total(),
			Classes:      reportClasses(r.Sums),
			Per:          "gpu-hour",
			cost:         r.Cost(fees[r.ID].paid, onDemand[r.Paid.InstanceType]),
		}
		if row.GPUs = &r.Paid.GPUs; r.Paid.GPUs == 0 {
			row.GPUs, row.Per = nil, "node-hour"
		}
		for into, money := range map[*string]capacity.Money{&row.Fee: row.cost.Fee, &row.FeeInReport: row.cost.InReport,
			&row.PricePaid: row.cost.PerPaid, &row.PriceUsed: row.cost.PerUsed, &row.PriceDemand: row.cost.OnDemand} {
			if money != (capacity.Money{}) {
				*into, row.Currency = money.Amount(), money.Currency()
			}
		}
		d.Reservations = append(d.Reservations, row)
	}
	d.Accounts, d.Users, d.Jobs = reportShares(made.Accounts), reportShares(made.Users), reportShares(made.Jobs)
	for _, day := range made.Days {
		d.Days = append(d.Days, reportDay{day.From.UTC(), day.To.UTC(), reportClasses(day.Sums)})
	}
	for _, g := range made.Gaps {
		d.Unknown = append(d.Unknown, reportGap{g.Reservation, g.From.UTC(), g.To.UTC(), g.NodeSeconds, g.Reason})
	}
	for _, a := range advice {
		d.Advice = append(d.Advice, reportAdvice(a))
	}
}

// reportClasses are all classes with their hours, which add up to those of the sum to the
// hundredth: what rounding leaves over goes to those that it hurt the most.
func reportClasses(sums report.Sums) []reportClass {
	total := sums.Total()
	all := make([]reportClass, 0, len(report.Classes))
	left := hundredths(total)
	for _, c := range report.Classes {
		n := sums[c]
		row := reportClass{Class: c, NodeSeconds: n, NodeHours: float64(n / 36)}
		if total > 0 {
			row.Percent = percentOf(n, total)
		}
		left -= n / 36
		all = append(all, row)
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[b].NodeSeconds%36, all[a].NodeSeconds%36) })
	for _, i := range order {
		if left > 0 {
			all[i].NodeHours, left = all[i].NodeHours+1, left-1
		}
		all[i].NodeHours /= 100
	}
	return all
}

// hundredths are those of an hour in some seconds, to the nearest.
func hundredths(seconds int64) int64 { return (seconds + 18) / 36 }

func reportShares(shares []report.Share) []reportShare {
	all := []reportShare{}
	for _, s := range shares {
		row := reportShare{
			Account:     s.Account,
			User:        s.User,
			Job:         s.Job,
			NodeSeconds: s.Sums.Total(),
			Useful:      s.Sums[report.Useful],
		}
		row.Lost = row.NodeSeconds - row.Useful
		var why []string
		for _, c := range []report.Class{report.LostRequeue, report.LostTimeout, report.LostFailure} {
			if s.Sums[c] > 0 {
				why = append(why, strings.TrimPrefix(string(c), "lost-"))
			}
		}
		row.Why = strings.Join(why, " ")
		all = append(all, row)
	}
	return all
}

func (d reportDocument) rows() []reportRow {
	rows := []reportRow{}
	add := func(row reportRow, classes []reportClass) {
		for _, c := range classes {
			if c.NodeSeconds > 0 {
				row.Class, row.NodeSeconds, row.NodeHours = c.Class, c.NodeSeconds, c.NodeHours
				rows = append(rows, row)
			}
		}
	}
	for _, r := range d.Reservations {
		add(reportRow{What: "reservation", Reservation: r.ID, From: latestOf(d.From, r.Start), To: d.Until}, r.Classes)
	}
	for _, day := range d.Days {
		add(reportRow{What: "day", From: day.From, To: day.To}, day.Classes)
	}
	for what, shares := range map[string][]reportShare{"account": d.Accounts, "user": d.Users, "job": d.Jobs} {
		for _, s := range shares {
			row := reportRow{What: what, From: d.From, To: d.Until, Account: s.Account, User: s.User, Job: s.Job}
			for class, n := range map[report.Class]int64{report.Useful: s.Useful, "lost": s.Lost} {
				if n > 0 {
					row.Class, row.NodeSeconds, row.NodeHours = class, n, float64(hundredths(n))/100
					rows = append(rows, row)
				}
			}
		}
	}
	order := []string{"reservation", "day", "account", "user", "job"}
	slices.SortStableFunc(rows, func(a, b reportRow) int {
		return cmp.Or(slices.Index(order, a.What)-slices.Index(order, b.What), cmp.Compare(a.Account, b.Account),
			cmp.Compare(a.User, b.User), cmp.Compare(a.Job, b.Job), cmp.Compare(b.Class, a.Class)*rankOf(a.What))
	})
	return rows
}

// rankOf is 1 where rows of maps have to be put in order, 0 where they are.
func rankOf(what string) int {
	if what == "reservation" || what == "day" {
		return 0
	}
	return 1
}

// The lines of the tables.
type (
	classLine struct {
		Class   string `col:"CLASS"`
		Hours   string `col:"NODE-HOURS" align:"right"`
		Percent string `col:"PART" align:"right"`
		Meaning string `col:"WHAT IT IS" wrap:"yes"`
	}
	reservationLine struct {
		ID        string    `col:"RESERVATION"`
		Partition string    `col:"PARTITION" drop:"2"`
		What      string    `col:"NODES"`
		Start     time.Time `col:"FROM" drop:"1"`
		Hours     string    `col:"NODE-HOURS" align:"right"`
		Useful    string    `col:"USEFUL" align:"right"`
		Fee       string    `col:"COST" align:"right" drop:"3"`
		Used      string    `col:"PER USED HOUR" align:"right"`
		OnDemand  string    `col:"ON DEMAND" align:"right" drop:"4"`
	}
	shareLine struct {
		Account string `col:"ACCOUNT"`
		User    string `col:"USER"`
		Hours   string `col:"NODE-HOURS" align:"right"`
		Lost    string `col:"OF THEM LOST" align:"right"`
		Why     string `col:"LOST TO"`
	}
	jobLine struct {
		Job     string `col:"JOB"`
		Account string `col:"ACCOUNT"`
		User    string `col:"USER"`
		Hours   string `col:"NODE-HOURS" align:"right"`
		Lost    string `col:"OF THEM LOST" align:"right"`
		Why     string `col:"LOST TO"`
	}
)

// tables shows all of it to a person.
func (d reportDocument) tables(t *terminal.Terminal) error {
	t.Tell("%s\n", d.headline(t.Time))
	for i, rows := range []any{d.classLines(), d.reservationLines(), d.shareLines(), d.jobLines()} {
		if emptyLines(rows) {
			continue
		}
		if i > 0 {
			fmt.Fprintln(t.Out)
		}
		if err := t.Rows(rows); err != nil {
			return err
		}
	}
	return nil
}

func emptyLines(rows any) bool {
	switch r := rows.(type) {
	case []reservationLine:
		return len(r) == 0
	case []shareLine:
		return len(r) == 0
	case []jobLine:
		return len(r) == 0
	}
	return false
}

// headline is the report in a sentence.
func (d reportDocument) headline(at func(time.Time) string) string {
	return fmt.Sprintf("%s to %s: %s node-hours were paid, %s of them useful.", at(d.From), at(d.Until),
		hoursText(d.NodeSeconds), partText(d.of(report.Useful), d.NodeSeconds))
}

func (d reportDocument) of(class report.Class) int64 {
	for _, c := range d.Classes {
		if c.Class == class {
			return c.NodeSeconds
		}
	}
	return 0
}

func (d reportDocument) classLines() []classLine {
	lines := []classLine{}
	for _, c := range d.Classes {
		if c.NodeSeconds > 0 || c.Class == report.Useful {
			lines = append(lines, classLine{
				string(c.Class),
				fmt.Sprintf("%.2f", c.NodeHours),
				fmt.Sprintf("%.1f%%", c.Percent),
				report.Meanings[c.Class],
			})
		}
	}
	return append(lines, classLine{"paid", hoursText(d.NodeSeconds), "", ""})
}

func (d reportDocument) reservationLines() []reservationLine {
	var lines []reservationLine
	for _, r := range d.Reservations {
		line := reservationLine{
			ID:        r.ID,
			Partition: r.Partition,
			What:      fmt.Sprintf("%d x %s", r.Count, r.InstanceType),
			Start:     latestOf(d.From, r.Start),
			Hours:     hoursText(r.NodeSeconds),
			Useful:    partText(r.useful(), r.NodeSeconds),
			Fee:       moneyText(r.cost.InReport),
			Used:      priceText(r.cost.PerUsed, r.Per),
			OnDemand:  priceText(r.cost.OnDemand, r.Per),
		}
		lines = append(lines, line)
	}
	return lines
}

func (r reportReservation) useful() int64 {
	for _, c := range r.Classes {
		if c.Class == report.Useful {
			return c.NodeSeconds
		}
	}
	return 0
}

func (d reportDocument) shareLines() []shareLine {
	var lines []shareLine
	for _, s := range d.Users {
		lines = append(lines,
			shareLine{cmp.Or(s.Account, "-"), cmp.Or(s.User, "-"), hoursText(s.NodeSeconds), hoursText(s.Lost), s.Why})
	}
	return lines
}

// largestJobs is how many jobs a person is shown.
const largestJobs = 10

func (d reportDocument) jobLines() []jobLine {
	var lines []jobLine
	for _, s := range d.Jobs[:min(largestJobs, len(d.Jobs))] {
		lines = append(lines,
			jobLine{s.Job, cmp.Or(s.Account, "-"), cmp.Or(s.User, "-"), hoursText(s.NodeSeconds), hoursText(s.Lost), s.Why})
	}
	return lines
}

func hoursText(seconds int64) string { return fmt.Sprintf("%.2f", float64(hundredths(seconds))/100) }

func partText(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", percentOf(part, whole))
}

// percentOf has one decimal.
func percentOf(part, whole int64) float64 { return math.Round(1000*float64(part)/float64(whole)) / 10 }

func moneyText(m capacity.Money) string {
	if m == (capacity.Money{}) {
		return "-"
	}
	return m.Grouped()
}

// priceText is a price with what it is of: "6.12 USD/GPU".
func priceText(m capacity.Money, per string) string {
	if m == (capacity.Money{}) {
		return "-"
	}
	of := "GPU"
	if per == "node-hour" {
		of = "node"
	}
	return m.Grouped() + "/" + of
}
