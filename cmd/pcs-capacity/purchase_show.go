package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// purchaseRow is the result of a purchase.
type purchaseRow struct {
	ID           string         `json:"id" col:"RESERVATION"`
	OfferingID   string         `json:"offering_id"`
	State        capacity.State `json:"state" col:"STATE"`
	InstanceType string         `json:"instance_type" col:"TYPE"`
	Count        int            `json:"count" col:"COUNT"`
	Zone         string         `json:"-" col:"ZONE"`
	Region       string         `json:"region"`
	AZ           string         `json:"az"`
	AZID         string         `json:"az_id"`
	Start        time.Time      `json:"start" col:"START"`
	Fence        time.Time      `json:"fence" col:"FENCE"`
	Reclaim      time.Time      `json:"reclaim"`
	End          time.Time      `json:"end" col:"END"`
	Fee          *string        `json:"fee" col:"FEE"`
	Currency     string         `json:"currency"`
	PurchasedAt  time.Time      `json:"purchased_at,omitzero"`
	// BoughtNow is false for what an earlier run or another machine bought.
	BoughtNow bool `json:"bought_now"`
}

// dryRunState stands where EC2's state of the reservation would be.
const dryRunState capacity.State = "dry-run"

// newPurchaseRow takes from the intent what EC2 does not show yet.
func newPurchaseRow(cfg *maybeConfig, i state.Intent, r capacity.Reservation, fresh bool) purchaseRow {
	shown := r
	if shown.InstanceType == "" {
		shown = ofOffering(i.Offering, r.ID)
		shown.State = r.State
	}
	if shown.AZID == "" { // EC2 may leave it out until the block is allocated
		shown.AZ, shown.AZID = i.Offering.AZ, i.Offering.AZID
	}
	w := cfg.Timing.Domain().Window(shown)
	row := purchaseRow{ID: shown.ID, OfferingID: i.Offering.ID, State: shown.State, InstanceType: shown.InstanceType,
		Count: max(shown.Size(), i.Offering.Count), Zone: capacity.FormatZone(shown.AZID, shown.AZ), Region: shown.Region, AZ: shown.AZ, AZID: shown.AZID,
		Start: w.Start, Fence: w.Fence, Reclaim: w.Reclaim, End: w.End, Currency: i.Fee.Currency(), BoughtNow: fresh}
	if row.Currency != "" {
		amount := i.Fee.Amount()
		row.Fee = &amount
	}
	if shown.State != dryRunState {
		row.PurchasedAt = i.At
	}
	return row
}

// ofOffering is the reservation that an offering becomes.
func ofOffering(o capacity.Offering, id string) capacity.Reservation {
	return capacity.Reservation{ID: id, Kind: capacity.CapacityBlock, InstanceType: o.InstanceType, Region: o.Region, AZ: o.AZ, AZID: o.AZID,
		Total: o.Count, Start: o.Start, End: o.End, UltraServer: o.UltraServerType != ""}
}

// ofTags is what the tags of a reservation say about a purchase that another machine
// made. It has no id, since it is not ours to record.
func ofTags(r capacity.Reservation) state.Intent {
	i := state.Intent{Kind: state.Purchase, Phase: state.Done, At: r.Created, Region: r.Region, Reservation: r.ID}
	i.Offering.ID, i.Offering.Count = r.Tags[capacity.TagOffering], r.Size()
	_ = i.Fee.UnmarshalText([]byte(r.Tags[capacity.TagFee])) // a tag that somebody has changed tells no fee
	return i
}

// showPurchase says what would be bought, when it can be used, and by whom.
func showPurchase(ctx context.Context, b *buyer, o capacity.Offering) {
	t := b.t
	w := b.cfg.Timing.Domain().Window(ofOffering(o, ""))
	what := fmt.Sprintf("%d x %s", o.Count, o.InstanceType)
	if o.UltraServerType != "" {
		what = fmt.Sprintf("%d x %s (%s)", o.UltraServerCount, o.UltraServerType, what)
	}
	t.Say("%s: %s in %s, region %s%s", o.ID, what, capacity.FormatZone(o.AZID, o.AZ), o.Region, inAccount(b.account))
	t.Say("  start    %s, in %s", t.Time(w.Start), capacity.FormatDuration(max(0, w.Start.Sub(b.aws.Now()))))
	t.Say("  fence    %s: no job runs longer", t.Time(w.Fence))
	t.Say("  reclaim  %s: EC2 begins to terminate the instances", t.Time(w.Reclaim))
	t.Say("  end      %s, after %s", t.Time(w.End), capacity.FormatDuration(o.Duration()))
	t.Say("  fee      %s for all of it, charged at once; %s an instance-hour", o.Fee, o.Fee.PerHour(o.Count, o.Duration()).Amount())
	showZone(t, b.cfg, b.cluster(ctx), o)
	if o.Count > 1 {
		t.Say("Hosts of a block can fail, and then it has fewer: for a job that needs all %d nodes, one or two spare ones are worth their fee.", o.Count)
	}
}

func inAccount(id string) string {
	if id == "" {
		return ""
	}
	return ", account " + id
}
