package main

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// extensionRow is the result of an extension.
type extensionRow struct {
	ID         string `json:"id" col:"RESERVATION"`
	OfferingID string `json:"offering_id"`
	// Status is EC2's of the payment.
	Status string    `json:"status" col:"STATUS"`
	OldEnd time.Time `json:"old_end" col:"OLD END" drop:"1"`
	NewEnd time.Time `json:"new_end" col:"NEW END"`
	// End is what EC2 shows now: the new one once the extension is paid.
	End         time.Time `json:"end"`
	NewFence    time.Time `json:"new_fence" col:"NEW FENCE"`
	NewReclaim  time.Time `json:"new_reclaim"`
	Fee         string    `json:"fee"`
	FeeShown    string    `json:"-" col:"FEE" align:"right"`
	Currency    string    `json:"currency"`
	PurchasedAt time.Time `json:"purchased_at,omitzero"`
	// BoughtNow is false for what an earlier run bought.
	BoughtNow bool `json:"bought_now"`
}

func newExtensionRow(cfg *maybeConfig, x market.ExtensionResult) extensionRow {
	i, extended := x.Intent, x.Reservation
	extended.End = i.NewEnd
	w := cfg.Timing.Domain().Window(extended)
	row := extensionRow{
		ID:          i.Reservation,
		OfferingID:  i.Offering.ID,
		Status:      x.Extension.State,
		OldEnd:      i.OldEnd,
		NewEnd:      i.NewEnd,
		End:         x.Reservation.End,
		NewFence:    w.Fence,
		NewReclaim:  w.Reclaim,
		Fee:         i.Fee.Amount(),
		FeeShown:    i.Fee.Grouped(),
		Currency:    i.Fee.Currency(),
		PurchasedAt: x.Extension.Purchased,
		BoughtNow:   x.BoughtNow,
	}
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
		if err := v.t.Rows([]extensionRow{row}); err != nil {
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
