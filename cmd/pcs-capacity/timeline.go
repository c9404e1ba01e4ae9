package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/internal/timeline"
)

// TimelineCmd draws when capacity can be used.
type TimelineCmd struct {
	Weeks count  `help:"Draw this many weeks from now, or from --from. Default: until the last end, at least 2." placeholder:"N"`
	From  moment `help:"Begin here, such as 2026-12-01 or tomorrow. Default: the first start, at most a week ago." placeholder:"TIME"`
	SVG   string `help:"Also write the picture to this file." placeholder:"FILE" name:"svg" type:"path"`
}

func (TimelineCmd) Help() string {
	return `Draws each partition's reservations of the settings, the gaps between them, and the Capacity
Blocks of the region that no partition uses yet. Jobs end at the fence; EC2 takes the
instances back from the reclaim on. COLUMNS sets the width.`
}

func (c *TimelineCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	all, now, err := c.reservations(ctx, t, cfg, aws)
	if err != nil {
		return err
	}

	own := ownedOf(cfg, aws, all, idleNodes{})

	snap := own.snap
	problems := []string{}
	snap.Reservations = slices.DeleteFunc(snap.Reservations, func(r capacity.Reservation) bool {
		used := slices.ContainsFunc(snap.Partitions, func(p capacity.Partition) bool { return p.HasReservation(r.ID) })
		return !used && (!r.Kind.IsBlock() || !r.State.IsLive()) ||
			!slices.ContainsFunc(all, func(seen capacity.Reservation) bool { return seen.ID == r.ID })
	})
	for _, w := range snap.WaitingTurns(now) {
		problems = append(problems, w.WaitProblem().Text())
	}

	for _, m := range unknownIn(cfg.Config, aws.Region(), all) {
		problems = append(problems, m.String())
	}

	chart := timeline.Chart{Region: aws.Region(), Now: now, From: c.From.Time, Zone: t.Zone()}
	if c.Weeks > 0 {
		chart.To = slices.MaxFunc([]time.Time{c.From.Time, now}, time.Time.Compare).AddDate(0, 0, 7*int(c.Weeks))
	}

	begin := c.From.Time
	if begin.IsZero() {
		begin = now.Add(-timeline.MostBehind)
	}

	chart.Lanes = capacity.Timeline(snap, begin, now)
	for _, lane := range chart.Lanes {
		for i, b := range lane.Blocks {
			lane.Blocks[i].Slot = own.of(b.Reservation.ID).Slot
		}
	}

	chart.Fit()

	if err := c.show(t, chart, problems); err != nil {
		return err
	}

	for _, p := range problems {
		t.Say("problem: %s", p)
	}

	return nil
}

// reservations asks EC2. A user who may not, or whom AWS does not answer, gets what a sync that runs has just seen.
func (c *TimelineCmd) reservations(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig,
	aws *ec2.Client,
) (all []capacity.Reservation, now time.Time, err error) {
	progress := t.Slow("asking EC2")
	all, err = aws.FindReservations(ctx, ec2.ReservationQuery{})

	progress.Done()

	if err == nil || ctx.Err() != nil {
		return all, aws.Now().UTC().Truncate(time.Second), err
	}

	snap, seen, noSnap := readSnapshot(cfg.Config)
	if aws.Offset() != 0 { // its refusal had the time
		seen = aws.Now()
	}

	if noSnap != nil || snap.IsStale(seen) || snap.Region != aws.Region() {
		return nil, now, err
	}

	words, _ := aws.Explain(err)
	t.Say("AWS did not answer here (%s): this is what sync saw %s ago, the reservations of the settings.", words,
		capacity.FormatDuration(max(0, seen.Sub(snap.TakenAt))))

	return snap.Reservations, seen.UTC().Truncate(time.Second), nil
}

// show writes the picture in every form that was asked for.
func (c *TimelineCmd) show(t *terminal.Terminal, chart timeline.Chart, problems []string) error {
	if c.SVG != "" {
		if err := os.WriteFile(c.SVG, chart.SVG(), 0o644); err != nil {
			return fmt.Errorf("writing the picture: %w", err)
		}

		t.Say("Wrote %s.", c.SVG)
	}

	if t.Format != terminal.Table {
		return t.Show(timelineDocument{chart, problems}, timelineRows(chart.Lanes), "")
	}

	if !slices.ContainsFunc(chart.Lanes, func(l capacity.Lane) bool { return len(l.Blocks) > 0 }) {
		t.Say(
			"There is nothing to draw: the settings name no reservation that is open or still to come, and EC2 has no "+
				"Capacity Block in %s.\nFind one with `pcs-capacity offerings`, or look into another region with "+
				"--region.",
			chart.Region,
		)

		return nil
	}

	width := max(terminal.Width(t.Out, os.Getenv), timeline.LeastWidth)
	_, err := fmt.Fprint(t.Out, terminal.Wrap(chart.Text(width), width))

	return err
}

// timelineDocument is the JSON form. Problems are reservations of the settings that EC2 would not describe.
type timelineDocument struct {
	timeline.Chart
	Problems []string `json:"problems"`
}

// timelineRow is one line of the CSV form: what is block or gap. A gap has no id.
type timelineRow struct {
	Partition    string         `json:"partition"`
	What         string         `json:"what"`
	ID           string         `json:"id"`
	Kind         capacity.Kind  `json:"kind"`
	State        capacity.State `json:"state"`
	InstanceType string         `json:"instance_type"`
	Count        *int           `json:"count"`
	AZID         string         `json:"az_id"`
	Start        time.Time      `json:"start"`
	Fence        time.Time      `json:"fence"`
	Reclaim      time.Time      `json:"reclaim"`
	End          time.Time      `json:"end"`
	Slot         string         `json:"slot"`
}

func timelineRows(lanes []capacity.Lane) []timelineRow {
	rows := []timelineRow{}
	for _, lane := range lanes {
		for _, b := range lane.Blocks {
			r := b.Reservation
			count := b.Reservation.Size()
			rows = append(
				rows,
				timelineRow{
					lane.Partition, "block", r.ID, r.Kind, r.State, r.InstanceType, &count, r.AZID,
					b.Window.Start, b.Window.Fence, b.Window.Reclaim, b.Window.End, b.Slot,
				},
			)
		}

		for _, g := range lane.Gaps {
			rows = append(rows, timelineRow{Partition: lane.Partition, What: "gap", Start: g.From, End: g.To})
		}
	}

	return rows
}
