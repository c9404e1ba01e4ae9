package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/report"
	"github.com/pcs-capacity/pcs-capacity/internal/timeline"
)

// newUsageChart is what the picture shows: the reservations by partition, and the hours below.
func newUsageChart(made report.Report, fees map[string]recordedFee, snap *capacity.Snapshot, zone *time.Location,
	now time.Time) timeline.Usage {
	u := timeline.Usage{Each: "day", Heading: "Where the paid node-hours went"}
	u.Chart = timeline.Chart{Now: now, From: made.From, To: latestOf(made.Until, made.From.Add(time.Hour)), Zone: zone}
	if snap != nil {
		u.Chart.Region = snap.Region
	}
	if made.Hourly {
		u.Each = "hour"
	}
	at := func(t time.Time) string { return t.In(zone).Format("2006-01-02 15:04 MST") }
	u.Under = fmt.Sprintf("%s to %s: %s node-hours were paid, %s of them useful", at(made.From), at(made.Until),
		hoursText(made.Total.Total()), partText(made.Total[report.Useful], made.Total.Total()))
	for _, r := range made.Reservations {
		block := capacity.Block{
			Window:     capacity.Window{Start: r.Start, Fence: r.Paid.Fence, Reclaim: r.End, End: r.End},
			Slot:       r.Paid.Slot,
			Extensions: fees[r.ID].extensions,
			Reservation: capacity.Reservation{
				ID:           r.ID,
				Kind:         r.Paid.Kind,
				State:        capacity.StateActive,
				InstanceType: r.Paid.InstanceType,
				Total:        r.Paid.Size,
				Start:        r.Start,
				End:          r.End,
			},
		}
		if snap != nil {
			if known, ok := snap.Reservation(r.ID); ok {
				block.Reservation = known
				block.Reservation.Total = r.Paid.Size
				if w := snap.Timing.Window(known); w.End.Equal(r.End) {
					block.Window = w
				}
			}
		}
		if !r.End.IsZero() && !r.End.After(now) {
			block.Reservation.State = capacity.StateExpired
		}
		lane := len(u.Chart.Lanes)
		for i, l := range u.Chart.Lanes {
			if l.Partition == r.Paid.Partition {
				lane = i
			}
		}
		if lane == len(u.Chart.Lanes) {
			u.Chart.Lanes = append(u.Chart.Lanes, capacity.Lane{Partition: r.Paid.Partition})
		}
		u.Chart.Lanes[lane].Blocks = append(u.Chart.Lanes[lane].Blocks, block)
	}
	for _, c := range report.Classes {
		u.Classes = append(u.Classes, timeline.UsageClass{Name: string(c), Meaning: report.Meanings[c]})
	}
	for _, d := range made.Days {
		bar := timeline.Bar{From: d.From, To: d.To}
		for _, c := range report.Classes {
			bar.Hours = append(bar.Hours, float64(d.Sums[c])/3600)
		}
		u.Bars = append(u.Bars, bar)
	}
	return u
}

//go:embed report.html.tmpl
var reportPage string

var reportTemplate = template.Must(template.New("report").Parse(reportPage))

// page is the whole report as one HTML document, which loads nothing.
func (d reportDocument) page(chart timeline.Usage, jobs int) ([]byte, error) {
	chart.Heading = "Blocks, and their hours by class" // the page has a title of its own
	svg, err := chart.SVG()
	if err != nil {
		return nil, err
	}
	at := func(t time.Time) string { return t.In(chart.Zone).Format("2006-01-02 15:04 MST") }
	var unknown []string
	for _, g := range d.Unknown {
		unknown = append(unknown,
			fmt.Sprintf("%s from %s to %s, %s node-hours: %s", g.Reservation, at(g.From), at(g.To),
				hoursText(g.NodeSeconds), g.Reason))
	}
	source := "Jobs are those of Slurm's accounting."
	if !d.Accounting {
		source = "Jobs are those that sync saw."
	}
	var out bytes.Buffer
	err = reportTemplate.Execute(&out, map[string]any{
		"Headline": d.headline(
			at,
		), "Picture": template.HTML(svg), "Classes": d.classLines(), "Reservations": d.reservationLines(), "Users": d.shareLines(),
		"Jobs": d.jobLines(
			jobs,
		), "Unknown": unknown, "Advice": d.Advice, "Warnings": d.Warnings, "Source": source, "TakenAt": at(d.TakenAt),
	})
	return out.Bytes(), err
}
