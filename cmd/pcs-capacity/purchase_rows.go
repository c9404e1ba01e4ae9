package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// purchaseRow is the result of a purchase.
type purchaseRow struct {
	ID           string         `json:"id" col:"RESERVATION"`
	OfferingID   string         `json:"offering_id"`
	State        capacity.State `json:"state" col:"STATE"`
	InstanceType string         `json:"instance_type" col:"TYPE"`
	Count        int            `json:"count" col:"COUNT" drop:"2"`
	Region       string         `json:"region"`
	AZ           string         `json:"az" col:"AZ" drop:"1"`
	AZID         string         `json:"az_id" col:"AZ ID"`
	Start        time.Time      `json:"start" col:"START"`
	Fence        time.Time      `json:"fence" col:"FENCE" drop:"3"`
	Reclaim      time.Time      `json:"reclaim"`
	End          time.Time      `json:"end" col:"END"`
	// Fee is nil when it is not known, as that of a block that was bought elsewhere.
	Fee         *string   `json:"fee"`
	FeeShown    string    `json:"-" col:"FEE" align:"right"`
	Currency    string    `json:"currency"`
	PurchasedAt time.Time `json:"purchased_at,omitzero"`
	// BoughtNow is false for what an earlier run or another machine bought.
	BoughtNow bool `json:"bought_now"`
}

// dryRunState stands where EC2's state of the reservation would be.
const dryRunState = "dry-run"

// newPurchaseRow takes from the intent what EC2 does not show yet.
func newPurchaseRow(cfg *maybeConfig, p market.PurchaseResult) purchaseRow {
	i, r := p.Intent, p.Reservation
	if r.InstanceType == "" {
		r = i.Offering.Reservation(r.ID)
		r.State = p.Reservation.State
	}
	if r.AZID == "" { // EC2 may leave it out until the block is allocated
		r.AZ, r.AZID = i.Offering.AZ, i.Offering.AZID
	}
	w := cfg.Timing.Domain().Window(r)
	row := purchaseRow{ID: r.ID, OfferingID: i.Offering.ID, State: r.State, InstanceType: r.InstanceType,
		Count: max(r.Size(), i.Offering.Count), Region: r.Region, AZ: r.AZ, AZID: r.AZID,
		Start: w.Start, Fence: w.Fence, Reclaim: w.Reclaim, End: w.End, Currency: i.Fee.Currency(), PurchasedAt: i.At, BoughtNow: p.BoughtNow}
	if row.Currency != "" {
		amount := i.Fee.Amount()
		row.Fee, row.FeeShown = &amount, i.Fee.Grouped()
	}
	if p.DryRun {
		row.State = dryRunState
	}
	return row
}

// purchaseView shows a purchase at the terminal.
type purchaseView struct {
	t   *terminal.Terminal
	cfg *maybeConfig
	// anyZone buys also where the cluster has no subnet; dryRun buys nothing.
	anyZone, dryRun bool
	subnets         func() market.Subnets
}

// preview says what would be bought, when it can be used, and by whom. The error is for what the
// cluster could not use.
func (v purchaseView) preview(p market.PurchasePreview) error {
	t, o := v.t, p.Offering
	w := v.cfg.Timing.Domain().Window(o.Reservation(""))
	what := fmt.Sprintf("%d x %s", o.Count, o.InstanceType)
	if o.UltraServerType != "" {
		what = fmt.Sprintf("%d x %s (%s)", o.UltraServerCount, o.UltraServerType, what)
	}
	if p.OrderedAs != "" {
		t.Say("EC2 has %s under another id now, %s: zone, start, end and count are the same.", p.OrderedAs, o.ID)
	}
	t.Say("%s: %s in %s, region %s%s", o.ID, what, capacity.FormatZone(o.AZID, o.AZ), o.Region, inAccount(p.Account))
	t.Say("  start    %s, in %s", t.Time(w.Start), capacity.FormatDuration(max(0, w.Start.Sub(p.Now))))
	t.Say("  fence    %s: no job runs longer", t.Time(w.Fence))
	t.Say("  reclaim  %s: EC2 begins to terminate the instances", t.Time(w.Reclaim))
	t.Say("  end      %s, after %s", t.Time(w.End), capacity.FormatDuration(o.Duration()))
	t.Say("  fee      %s", feeInWords(o))
	if err := v.zone(o); err != nil {
		return err
	}
	if o.Count > 1 {
		t.Say("Hosts can fail: for a job that needs all %d nodes, one or two spare ones are worth their fee.", o.Count)
	}
	return nil
}

// feeInWords is the fee of a block or an extension.
func feeInWords(o capacity.Offering) string {
	return fmt.Sprintf("%s for all of it, charged at once; %s an instance-hour", o.Fee,
		o.Fee.PerHour(o.Count, o.Duration()).Amount())
}

func inAccount(id string) string {
	if id == "" {
		return ""
	}
	return ", account " + id
}

// zone says whether the cluster can run nodes in the zone of an offering (R10). Where it cannot,
// or that is not known, it is an error without --any-zone.
func (v purchaseView) zone(o capacity.Offering) error {
	where := capacity.FormatZone(o.AZID, o.AZ)
	subnets := v.subnets()
	use := subnets.In(o.AZID)
	buys := !v.anyZone && !v.dryRun
	switch {
	case subnets.Err != nil && buys:
		return fmt.Errorf(
			"offering %s: whether the cluster can use %s is not known: %w; nothing was bought. Run this again, or add --any-zone to buy all the same",
			o.ID, where, subnets.Err)
	case subnets.Err != nil:
		v.t.Say("WARNING: whether the cluster can use %s is not known: %s", where, subnets.Err)
	case len(subnets.Own) == 0:
		v.t.Say("  cluster  not compared: the settings name no cluster and no subnet")
	case len(use.Subnets) > 0:
		v.t.Say("  cluster  has %s in this zone%s", strings.Join(use.Subnets, ", "),
			usedBy(v.cfg.Config, o.InstanceType, use.Subnets))
	case buys:
		return usage(
			"offering %s: the cluster has no subnet in %s, where this block would be; it has %s; nothing was bought. Only a subnet in the block's own zone can run its nodes: %s; or add --any-zone to buy all the same",
			o.ID, where, zonesOf(subnets.Own), remedy(use))
	default:
		v.t.Say("WARNING: THE CLUSTER HAS NO SUBNET IN %s, where this block would be; it has %s.", where,
			zonesOf(subnets.Own))
		v.t.Say("WARNING: Only a subnet in the block's own zone can run its nodes: %s.", remedy(use))
	}
	if v.dryRun && !v.anyZone && (subnets.Err != nil || len(subnets.Own) > 0 && len(use.Subnets) == 0) {
		v.t.Say("WARNING: The purchase takes --any-zone.")
	}
	return nil
}

func remedy(use market.ZoneUse) string {
	if len(use.Neighbours) > 0 {
		return fmt.Sprintf(
			"give %s, which is in its VPC, to `pcs-capacity setup --subnet-ids`, or take another offering",
			use.Neighbours[0])
	}
	return "make one before you buy, or take another offering"
}

func zonesOf(subnets []capacity.Subnet) string {
	var parts []string
	for _, s := range subnets {
		if part := fmt.Sprintf("%s in %s", s.ID, capacity.FormatZone(s.AZID, s.AZ)); !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

func usedBy(cfg *config.Config, instanceType string, subnets []string) string {
	p, g, found := market.GroupFor(cfg, instanceType, subnets)
	if !found {
		return ""
	}
	return fmt.Sprintf(", used by node group %s of partition %s", g.Name, p.Name)
}

// seen are the reservations that sync saw last; none if it has seen nothing.
func (v purchaseView) seen() []capacity.Reservation {
	snap, err := state.Dir(v.cfg.StateDir).ReadSnapshot()
	if err != nil {
		return nil
	}
	return snap.Reservations
}

// result shows what was bought and says what comes next.
func (v purchaseView) result(p market.PurchaseResult) error {
	if !p.DryRun || v.t.Format != terminal.Table {
		if err := v.t.Rows([]purchaseRow{newPurchaseRow(v.cfg, p)}); err != nil {
			return err
		}
	}
	r := p.Reservation
	if r.InstanceType == "" { // EC2 does not show it
		r = p.Intent.Offering.Reservation(p.Intent.Reservation)
	}
	switch {
	case p.DryRun:
		r.ID = "cr-…"
		v.t.Say("Dry run: EC2 would take this purchase; nothing was bought. After the purchase, go on with:\n%s",
			market.NextStep(v.cfg.Config, v.subnets(), r, v.seen()))
	case r.State != capacity.StateExpired:
		v.t.Say("Next:\n%s", market.NextStep(v.cfg.Config, v.subnets(), r, v.seen()))
	}
	return nil
}
