package main

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// CleanCmd releases reservations that no job uses.
type CleanCmd struct {
	DryRun bool `help:"Show what would be given back, and change nothing."`
}

// Help is shown below the flags.
func (CleanCmd) Help() string {
	return `Cancels what a hook or command that was killed still holds: On-Demand Capacity
Reservations with this cluster's mark whose job has ended or runs, whose probe is over,
or whose end has passed. What people hold with reserve stays until its end, unless the
command was cut off before it could tell the id. sync does the same in each pass.

Exit status 1: something could not be given back.`
}

// cleanRow is a reservation that serves nothing.
type cleanRow struct {
	ID           string `json:"id" col:"ID"`
	InstanceType string `json:"instance_type" col:"TYPE"`
	AZID         string `json:"az_id" col:"AZ ID"`
	Count        int    `json:"count" col:"COUNT"`
	Free         int    `json:"free" col:"FREE" drop:"2"`
	// PerHour is what the free places cost; nil without a price.
	PerHour *capacity.Money `json:"per_hour" col:"AN HOUR" drop:"1"`
	End     time.Time       `json:"end,omitzero" col:"ENDS" drop:"3"`
	Why     string          `json:"why" col:"WHY" wrap:"yes"`
	// Released: it is given back.
	Released bool   `json:"released" col:"GIVEN BACK"`
	Error    string `json:"error,omitempty" col:"ERROR" wrap:"yes"`
}

// Run cleans.
func (c *CleanCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client,
	pcsClient *pcs.Client) error {
	found, err := lifecycle.Clean(ctx, lifecycle.From(cfg, aws, pcsClient), c.DryRun)
	rows, failed := []cleanRow{}, false
	for _, n := range found {
		row := cleanRow{
			ID:           n.ID,
			InstanceType: n.InstanceType,
			AZID:         n.AZID,
			Count:        n.Total,
			Free:         n.Available,
			End:          n.End,
			Why:          n.Why,
			Released:     n.Err == nil && !c.DryRun,
		}
		if !n.PriceUnknown {
			row.PerHour = &n.PerHour
		}
		if n.Err != nil {
			row.Error, failed = ec2.Message(n.Err), true
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 || t.Format != terminal.Table {
		if err := t.Rows(rows); err != nil {
			return err
		}
	}
	for _, n := range found {
		if n.Err != nil {
			t.Say("%s", n)
		}
	}
	switch {
	case err != nil:
		return err
	case failed:
		return errShown
	case len(rows) == 0:
		t.Say("Nothing to give back.")
	case c.DryRun:
		t.Say("Dry run: nothing was changed.")
	}
	return nil
}
