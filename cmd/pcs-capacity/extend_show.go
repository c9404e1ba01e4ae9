package main

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// extensionRow is the result of an extension.
type extensionRow struct {
	ID         string `json:"id" col:"RESERVATION"`
	OfferingID string `json:"offering_id"`
	// Status is EC2's of the payment.
	Status string    `json:"status" col:"STATUS"`
	OldEnd time.Time `json:"old_end" col:"OLD END"`
	NewEnd time.Time `json:"new_end" col:"NEW END"`
	// End is what EC2 shows now: the new one once the extension is paid.
	End         time.Time `json:"end"`
	NewFence    time.Time `json:"new_fence" col:"NEW FENCE"`
	NewReclaim  time.Time `json:"new_reclaim"`
	Fee         string    `json:"fee" col:"FEE"`
	Currency    string    `json:"currency"`
	PurchasedAt time.Time `json:"purchased_at,omitzero"`
	// BoughtNow is false for what an earlier run bought.
	BoughtNow bool `json:"bought_now"`
}

func newExtensionRow(cfg *maybeConfig, i state.Intent, e capacity.Extension, r capacity.Reservation, fresh bool) extensionRow {
	extended := r
	extended.End = i.NewEnd
	w := cfg.Timing.Domain().Window(extended)
	return extensionRow{ID: i.Reservation, OfferingID: i.Offering.ID, Status: e.State, OldEnd: i.OldEnd, NewEnd: i.NewEnd, End: r.End,
		NewFence: w.Fence, NewReclaim: w.Reclaim, Fee: i.Fee.Amount(), Currency: i.Fee.Currency(), PurchasedAt: e.Purchased, BoughtNow: fresh}
}

// showExtension says what would be bought, and how the ends move.
func showExtension(b *buyer, r capacity.Reservation, history []capacity.Extension, o capacity.Offering) {
	t := b.t
	extended := r
	extended.End = o.End
	before, after := b.cfg.Timing.Domain().Window(r), b.cfg.Timing.Domain().Window(extended)
	t.Say("%s: %d x %s in %s, region %s%s, %s", r.ID, r.Size(), r.InstanceType, capacity.FormatZone(r.AZID, r.AZ), r.Region, inAccount(b.account), r.State)
	for _, e := range history {
		t.Say("  before   extended to %s at %s, for %s: %s", t.Time(e.To), t.Time(e.Purchased), e.Fee, e.State)
	}
	t.Say("  fence    %s, from %s: no job runs longer", t.Time(after.Fence), t.Time(before.Fence))
	t.Say("  reclaim  %s, from %s: EC2 begins to terminate the instances", t.Time(after.Reclaim), t.Time(before.Reclaim))
	t.Say("  end      %s, from %s: %s more", t.Time(after.End), t.Time(before.End), capacity.FormatDuration(o.End.Sub(r.End)))
	if o.Start.Equal(r.End) {
		t.Say("  gap      none: it begins where the block ends, and instances run on")
	} else {
		t.Say("WARNING: the extension begins at %s, but the block ends at %s.", t.Time(o.Start), t.Time(r.End))
	}
	t.Say("  fee      %s for all of it, charged at once; %s an instance-hour", o.Fee, o.Fee.PerHour(o.Count, o.Duration()).Amount())
}
