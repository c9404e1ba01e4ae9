package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// queueAssumes tells people what fit --queue takes for granted.
const queueAssumes = "jobs run on whole nodes, for all of their time limits, in today's order; what is held " +
	"stays so; dependencies and limits of accounts are left out; a new block is set up when it opens"

// choiceRow is something that could be bought, or nothing.
type choiceRow struct {
	Offering        string          `json:"offering,omitempty"`
	Extends         string          `json:"extends,omitempty"` // the block that the offering extends
	InstanceType    string          `json:"instance_type,omitempty"`
	Count           int             `json:"count,omitempty"`
	AZID            string          `json:"az_id,omitempty"`
	Start           time.Time       `json:"start,omitzero"`
	End             time.Time       `json:"end,omitzero"`
	Fee             capacity.Amount `json:"fee"`
	Currency        string          `json:"currency,omitempty"`
	Jobs            int             `json:"jobs"`
	Done            time.Time       `json:"done,omitzero"` // zero if jobs stay undone
	Undone          []string        `json:"undone"`
	NodeHours       float64         `json:"node_hours"` // of the queue's reservations, from now until their fences
	NodeHoursUnused float64         `json:"node_hours_unused"`
	BuyBy           time.Time       `json:"buy_by,omitzero"`
	Command         string          `json:"command,omitempty"`
	Size            string          `json:"-"`
	Share           string          `json:"-"` // of the node-hours that jobs use
}

func newChoiceRow(c market.Choice, region string) choiceRow {
	row := choiceRow{
		Offering:        c.Offer.ID,
		Extends:         c.Extends,
		InstanceType:    c.Offer.InstanceType,
		Count:           c.Offer.Count,
		AZID:            c.Offer.AZID,
		Start:           c.Offer.Start,
		End:             c.Offer.End,
		Fee:             c.Offer.Fee,
		Currency:        c.Offer.Currency,
		Jobs:            c.Jobs,
		Done:            c.Done,
		Undone:          []string{},
		NodeHours:       c.Usable.Hours(),
		NodeHoursUnused: (c.Usable - c.Used).Hours(),
		BuyBy:           c.BuyBy,
		Share:           c.Share(),
	}
	for _, j := range c.Undone {
		row.Undone = append(row.Undone, j.Name)
	}

	switch {
	case c.Extends != "":
		row.Size = "+" + c.Offer.Lasts()
		row.Command = fmt.Sprintf("pcs-capacity extend %s --duration %s", c.Extends, capacity.FormatDuration(c.Length))
	case c.Offer.ID != "":
		row.Size = fmt.Sprintf("%d x %s", market.SoldCount(c.Offer.Offering), c.Offer.Lasts())
		lines := purchaseCommand(c.Offer, c.Length, region)
		row.Command = strings.Join(strings.Fields(strings.ReplaceAll(lines, "\\\n", "")), " ")
	}

	return row
}

const choiceColumns = "CHOICE: Name; FOR: Size; DONE: Done; UNDONE: Left right; FEE: Fee; " +
	"USED: Share right drop 2; BUY BY: BuyBy drop 1"

// Name returns the id of what would be extended or bought.
func (r choiceRow) Name() string { return cmp.Or(r.Extends, r.Offering, "nothing") }

// Left counts the jobs that stay undone.
func (r choiceRow) Left() string { return fmt.Sprintf("%d of %d", len(r.Undone), r.Jobs) }

// queueDocument is the JSON form.
type queueDocument struct {
	Queue   string      `json:"queue"`
	At      time.Time   `json:"at"`
	TakenAt time.Time   `json:"taken_at"` // when sync last saw the reservations
	By      time.Time   `json:"by,omitzero"`
	Choices []choiceRow `json:"choices"`
	NotSold []string    `json:"not_for_sale"`
	Assumed string      `json:"assumed"`
}

// fitQueue shows what comes of a queue, and what to buy for it.
func (c *FitCmd) fitQueue(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if _, found := cfg.Partition(c.Queue); !found {
		return usage("%q is not a partition in the settings; they have %s", c.Queue, partitionNames(cfg.Config))
	}

	snap, now, err := readSnapshot(cfg.Config)
	if err != nil {
		return err
	}

	progress := t.Slow("asking Slurm and EC2")
	defer progress.Done()

	jobs, err := slurm.New(cfg.Cluster).Queue(ctx, c.Queue)
	if err != nil {
		return err
	}

	queue := capacity.Queue{
		Partition: c.Queue,
		Jobs:      jobs,
		By:        c.By.Time,
		Now:       now.UTC().Truncate(time.Minute),
	}
	aws = aws.In(cmp.Or(snap.Region, aws.Region()))
	answer := market.QueueQuestion{
		EC2:      aws,
		Forecast: market.Forecast{Queue: queue, Snapshot: snap},
		MaxPrice: c.MaxPrice.Money,
		Progress: progress,
		Time:     t.Time,
	}.Ask(ctx)

	if err := ctx.Err(); err != nil {
		return err
	}

	progress.Done()

	doc := queueDocument{
		Queue:   c.Queue,
		At:      queue.Now,
		TakenAt: snap.TakenAt,
		By:      queue.By,
		NotSold: answer.NotSold,
		Assumed: queueAssumes,
	}
	for _, choice := range answer.Choices {
		doc.Choices = append(doc.Choices, newChoiceRow(choice, aws.Region()))
	}

	if err := t.Show(doc, doc.Choices, choiceColumns); err != nil {
		return err
	}

	for _, why := range doc.NotSold {
		t.Say("%s.", why)
	}

	return sayChoices(t, doc)
}

// sayChoices says how to buy each choice, and what they rest on. It fails unless nothing has to be bought.
func sayChoices(t *terminal.Terminal, doc queueDocument) error {
	sold := len(doc.Choices) > 1
	undone := len(doc.Choices[0].Undone) > 0
	switch {
	case !sold && !undone:
		t.Say("Nothing has to be bought.")
	case !sold:
		t.Say("Nothing that is for sale would help.")
	case t.Format == terminal.Table:
		for _, r := range doc.Choices {
			if r.Command != "" {
				t.Say("%s, to be bought by %s:\n  %s", r.Name(), t.Time(r.BuyBy), r.Command)
			}
		}
	}

	t.Say("Assumed: %s. Sync saw the reservations at %s.", queueAssumes, t.Time(doc.TakenAt))

	if sold || undone {
		return errReported
	}

	return nil
}
