package main

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// ExtendCmd extends a block.
type ExtendCmd struct {
	Reservation string `arg:"" predictor:"reservation" help:"Block to extend, cr-…."`
	Duration    span   `required:"" short:"d" help:"By how much, such as 7d. EC2 sells 1 to 14 days, then whole weeks; it is rounded up."`

	feeFlag `embed:""`
	Again   bool `help:"Extend by the same length again, even if that was bought less than a day ago."`
	DryRun  bool `help:"Show what would be bought, ask EC2 whether the permissions are there, and buy nothing."`
	Wait    bool `help:"Follow the payment until the end has moved." default:"true" negatable:""`
}

// Help is shown below the flags.
func (ExtendCmd) Help() string {
	return `An extension begins where the block ends, so that its instances run on. It is paid in advance
and cannot be cancelled. EC2 sells it from 56 days until one hour before the end; a block has
at most 182 days in all. The end moves when it is paid; when the payment fails, the old end
stays. The request is sent once: when its answer is lost, or this is killed, run the same
command again. The same length asked for again within a day buys nothing without --again.

  pcs-capacity extend cr-0123456789abcdef0 --duration 7d --confirm-fee 31464.00`
}

// Run extends.
func (c *ExtendCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if !capacity.IsReservationID(c.Reservation) {
		return usage(
			"%q is not the id of a reservation (cr-…); `pcs-capacity list --blocks` shows those that there are",
			c.Reservation)
	}
	fee, err := dollars("--confirm-fee", c.ConfirmFee)
	if err != nil {
		return err
	}
	length, err := roundedLength(t, time.Duration(c.Duration))
	if err != nil {
		return err
	}
	show := extensionView{t, cfg}
	return newBuyer(t, cfg, aws, c.DryRun).Extend(ctx, market.ExtensionOrder{ReservationID: c.Reservation, Length: length,
		Fee: fee, Again: c.Again, Wait: c.Wait, Show: show.preview, Tell: show.result})
}

// extensionRow is the result of an extension.
type extensionRow struct {
	ID         string `json:"id"`
	OfferingID string `json:"offering_id"`
	// Status is EC2's of the payment.
	Status string    `json:"status"`
	OldEnd time.Time `json:"old_end"`
	NewEnd time.Time `json:"new_end"`
	// End is what EC2 shows now: the new one once the extension is paid.
	End         time.Time      `json:"end"`
	NewFence    time.Time      `json:"new_fence"`
	NewReclaim  time.Time      `json:"new_reclaim"`
	Fee         capacity.Money `json:"fee"`
	PurchasedAt time.Time      `json:"purchased_at,omitzero"`
	// BoughtNow is false for what an earlier run bought.
	BoughtNow bool `json:"bought_now"`
}

const extensionColumns = "RESERVATION: ID; STATUS: Status; OLD END: OldEnd drop 1; NEW END: NewEnd; NEW FENCE: NewFence; FEE: Fee"

func newExtensionRow(cfg *maybeConfig, x market.ExtensionResult) extensionRow {
	i, extended := x.Intent, x.Reservation
	extended.End = i.NewEnd
	w := cfg.Timing.Domain().Window(extended)
	row := extensionRow{i.Reservation, i.Offering.ID, x.Extension.State, i.OldEnd, i.NewEnd, x.Reservation.End, w.Fence, w.Reclaim, i.Fee,
		x.Extension.Purchased, x.BoughtNow}
	if x.DryRun {
		row.Status = dryRunState
	}
	return row
}

// extensionView shows an extension at the terminal.
type extensionView struct {
	t   *terminal.Terminal
	cfg *maybeConfig
}

// preview says what would be bought, and how the ends move.
func (v extensionView) preview(p market.ExtensionPreview) {
	t, r, o := v.t, p.Reservation, p.Offering
	extended := r
	extended.End = o.End
	before, after := v.cfg.Timing.Domain().Window(r), v.cfg.Timing.Domain().Window(extended)
	t.Say("%s: %d x %s in %s, region %s%s, %s", r.ID, r.Size(), r.InstanceType, capacity.FormatZone(r.AZID, r.AZ),
		r.Region, inAccount(p.Account), r.State)
	for _, e := range p.History {
		t.Say("  before   extended to %s at %s, for %s: %s", t.Time(e.To), t.Time(e.Purchased), e.Fee, e.State)
	}
	t.Say("  fence    %s, from %s: no job runs longer", t.Time(after.Fence), t.Time(before.Fence))
	t.Say("  reclaim  %s, from %s: EC2 begins to terminate the instances", t.Time(after.Reclaim), t.Time(before.Reclaim))
	t.Say("  end      %s, from %s: %s more", t.Time(after.End), t.Time(before.End),
		capacity.FormatDuration(o.End.Sub(r.End)))
	if o.Start.Equal(r.End) {
		t.Say("  gap      none: it begins where the block ends, and instances run on")
	} else {
		t.Say("WARNING: the extension begins at %s, but the block ends at %s.", t.Time(o.Start), t.Time(r.End))
	}
	t.Say("  fee      %s", feeInWords(o))
}

// result shows what was bought and says what comes next.
func (v extensionView) result(x market.ExtensionResult) error {
	row := newExtensionRow(v.cfg, x)
	if !x.DryRun || v.t.Format != terminal.Table {
		if err := v.t.Rows([]extensionRow{row}, extensionColumns); err != nil {
			return err
		}
	}
	switch {
	case x.DryRun:
		v.t.Say("Dry run: EC2 would take this extension; nothing was bought.")
	case x.Extension.State == capacity.ExtensionPaid:
		v.t.Say(
			"The end has moved. `pcs-capacity sync` moves the fence to %s; a sync --watch that runs does it by itself.",
			v.t.Time(row.NewFence))
	default:
		v.t.Say("The end moves when the extension is paid; `pcs-capacity sync` then moves the fence to %s.",
			v.t.Time(row.NewFence))
	}
	return nil
}
