package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// PurchaseCmd buys a block.
type PurchaseCmd struct {
	Offering string `arg:"" help:"Id of the offering, cb-…, as offerings shows it. With --fee: a reservation, cr-…."`

	feeFlags     `embed:""`
	Platform     string `help:"Platform of the image that will run." default:"Linux/UNIX"`
	InstanceType string `short:"t" help:"As in the offerings question; by default the last one asked here."`
	Count        int    `short:"n" help:"As in the offerings question."`
	Duration     span   `short:"d" help:"As in the offerings question."`
	Again        bool   `help:"Buy one more where the same offering was bought before."`
	DryRun       bool   `help:"Show what would be bought, ask EC2 whether the permissions are there, and buy nothing."`
	Wait         bool   `help:"Follow the payment until the block is scheduled." default:"true" negatable:""`
	Fee          string `help:"Buy nothing: record what a block that was bought elsewhere has cost." placeholder:"USD"`
}

// Help is shown below the flags.
func (PurchaseCmd) Help() string {
	return `A Capacity Block is paid in advance and cannot be cancelled, moved or refunded. The
request is sent once and never repeated. When its answer is lost, or this is killed, run
the same command again: it finds out first whether the block was bought, and goes on from
there. EC2 bills within 5 minutes to 12 hours; until then the block is payment-pending.

  pcs-capacity purchase cb-0123456789abcdef0 --confirm-fee 31464.00
  pcs-capacity purchase cr-0123456789abcdef0 --fee 31464.00`
}

var (
	offeringID    = regexp.MustCompile(`^cb-[0-9A-Za-z]+$`)
	reservationID = regexp.MustCompile(`^cr-[0-9a-f]{8,17}$`)
)

// check finds mistakes in the arguments before EC2 is asked anything.
func (c *PurchaseCmd) check() error {
	switch {
	case c.Fee != "":
		if !reservationID.MatchString(c.Offering) {
			return usage("--fee records what a reservation has cost, and %q is not the id of one (cr-…); to accept the fee of an offering, use --confirm-fee", c.Offering)
		}
		if c.Again || c.DryRun || c.feeFlags != (feeFlags{}) {
			return usage("--fee records what a reservation has cost and buys nothing; leave out the flags for buying")
		}
		return nil
	case reservationID.MatchString(c.Offering):
		return usage("%s is a reservation, which is bought already: add --fee USD to record what it has cost, or use `pcs-capacity extend %s --duration 7d`", c.Offering, c.Offering)
	case !offeringID.MatchString(c.Offering):
		return usage("%q is not the id of an offering (cb-…); `pcs-capacity offerings` lists what is for sale", c.Offering)
	case c.Count < 0:
		return usage("--count=%d: use at least 1", c.Count)
	}
	return c.feeFlags.check()
}

// Run finds the offering again, makes sure of the fee, and buys. What was bought before
// is taken up instead.
func (c *PurchaseCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Fee != "" {
		return c.recordFee(ctx, t, cfg, aws)
	}
	query, region, queryErr := c.query(state.Dir(cfg.StateDir))
	b, err := newBuyer(ctx, g, t, cfg, aws, region, c.DryRun)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.settleOpen(ctx); err != nil {
		return err
	}
	earlier, bought, err := b.boughtBefore(ctx, c.Offering)
	switch {
	case err != nil:
		return err
	case bought && (earlier.Phase == state.Bought || !c.Again):
		return c.takeUp(ctx, b, earlier)
	case queryErr != nil:
		return queryErr
	}
	offering, err := findOffering(ctx, b.aws, query, c.Offering)
	if err != nil {
		return err
	}
	showPurchase(ctx, b, offering)
	if err := c.accept(ctx, t, offering, c.DryRun); err != nil {
		return err
	}
	intent := b.newIntent(state.Purchase)
	intent.Offering, intent.Fee = offering, offering.Fee
	if c.DryRun {
		return c.tryOnly(ctx, b, intent)
	}
	var r capacity.Reservation
	intent, err = b.send(ctx, intent, func(ctx context.Context) (string, error) {
		r, err = b.aws.Purchase(ctx, offering.ID, c.Platform, purchaseTags(cfg, intent))
		return r.ID, err
	})
	if err != nil {
		return err
	}
	r.ID = intent.Reservation
	return c.finish(ctx, b, intent, r, true)
}

// purchaseTags let any machine find the block again, and see what it has cost.
func purchaseTags(cfg *maybeConfig, i state.Intent) map[string]string {
	tags := map[string]string{capacity.TagPurchase: i.ID, capacity.TagOffering: i.Offering.ID, capacity.TagFee: i.Fee.String()}
	if cfg.Cluster != "" {
		tags[capacity.TagCluster] = cfg.Cluster
	}
	return tags
}

// query is the question that the offering was an answer to, since EC2 cannot look one up
// by id, and the region of the answer; "" is the own one.
func (c *PurchaseCmd) query(dir state.Dir) (q ec2.OfferingQuery, region string, err error) {
	if c.InstanceType != "" && c.Count > 0 && c.Duration > 0 {
		return ec2.OfferingQuery{InstanceType: c.InstanceType, Count: c.Count, Duration: time.Duration(c.Duration)}, "", nil
	}
	last, err := dir.ReadOfferings()
	if err != nil {
		return q, "", err
	}
	i := slices.IndexFunc(last.Found, func(o capacity.Offering) bool { return o.ID == c.Offering })
	if i < 0 {
		return q, "", usage("offering %s: it is not in the answer that `pcs-capacity offerings` saw last; run that again, or add --instance-type, --count and --duration", c.Offering)
	}
	return ec2.OfferingQuery{InstanceType: last.InstanceType, Count: last.Count, Duration: last.Duration.Duration,
		StartAfter: last.StartAfter, EndBy: last.EndBy}, last.Found[i].Region, nil
}

// findOffering asks EC2 anew, so that the fee is today's.
func findOffering(ctx context.Context, aws *ec2.Client, q ec2.OfferingQuery, id string) (capacity.Offering, error) {
	found, err := aws.Offerings(ctx, q)
	if err != nil {
		return capacity.Offering{}, err
	}
	i := slices.IndexFunc(found, func(o capacity.Offering) bool { return o.ID == id })
	if i < 0 {
		return capacity.Offering{}, fmt.Errorf("offering %s: EC2 no longer has it for sale in %s; run `pcs-capacity offerings` again", id, aws.Region())
	}
	return found[i], nil
}

// tryOnly asks EC2 whether it would take the purchase.
func (c *PurchaseCmd) tryOnly(ctx context.Context, b *buyer, i state.Intent) error {
	if err := b.aws.TryPurchase(ctx, i.Offering.ID, c.Platform, purchaseTags(b.cfg, i)); err != nil {
		i.Code = ec2.Code(err)
		return fmt.Errorf("%w; nothing was bought%s", err, adviceFor(i))
	}
	if b.t.Format != terminal.Table {
		if err := b.t.Rows([]purchaseRow{newPurchaseRow(b.cfg, i, capacity.Reservation{State: dryRunState}, false)}); err != nil {
			return err
		}
	}
	b.t.Say("Dry run: EC2 would take this purchase; nothing was bought. After the purchase, go on with:\n%s", nextStep(b.cfg, b.cluster(ctx), ofOffering(i.Offering, "cr-…")))
	return nil
}

// boughtBefore finds the newest purchase of an offering that was not undone by its
// payment: among the intents, and among the tags of EC2's reservations, where those of
// other machines show. One in phase Bought goes first: its run was cut off.
func (b *buyer) boughtBefore(ctx context.Context, offering string) (state.Intent, bool, error) {
	tagged, err := b.aws.List(ctx, ec2.ReservationQuery{Tags: map[string]string{capacity.TagOffering: offering}})
	if err != nil {
		return state.Intent{}, false, fmt.Errorf("looking whether offering %s was bought before: %w", offering, err)
	}
	intents, err := b.dir.Intents()
	if err != nil {
		return state.Intent{}, false, err
	}
	var bought []state.Intent
	known := map[string]bool{}
	for _, i := range intents {
		if i.Kind != state.Purchase || i.Offering.ID != offering || i.Region != b.aws.Region() || !b.ours(i) {
			continue
		}
		known[i.ID] = true
		at := slices.IndexFunc(tagged, func(r capacity.Reservation) bool { return r.ID == i.Reservation })
		unpaid := at >= 0 && tagged[at].State == capacity.StatePaymentFailed
		if unpaid && i.Phase == state.Done {
			b.t.Say("Offering %s was bought at %s, as %s, but its payment failed.", offering, b.t.Time(i.At), i.Reservation)
		}
		if i.Phase == state.Bought || i.Phase == state.Done && !unpaid {
			bought = append(bought, i)
		}
	}
	for _, r := range tagged {
		if !known[r.Tags[capacity.TagPurchase]] && r.State != capacity.StatePaymentFailed {
			bought = append(bought, ofTags(r))
		}
	}
	if len(bought) == 0 {
		return state.Intent{}, false, nil
	}
	slices.SortFunc(bought, func(x, y state.Intent) int { return y.At.Compare(x.At) })
	if cutOff := slices.IndexFunc(bought, func(i state.Intent) bool { return i.Phase == state.Bought }); cutOff > 0 {
		return bought[cutOff], true, nil
	}
	return bought[0], true, nil
}

// takeUp goes on where an earlier run, or another machine, stopped. It buys nothing.
func (c *PurchaseCmd) takeUp(ctx context.Context, b *buyer, i state.Intent) error {
	if i.Phase == state.Bought {
		b.t.Say("An earlier run bought offering %s at %s, as %s, and was cut off. Nothing is bought now.", i.Offering.ID, b.t.Time(i.At), i.Reservation)
	} else {
		b.t.Say("Offering %s was bought at %s, as %s. Nothing is bought now; add --again to buy one more.", i.Offering.ID, b.t.Time(i.At), i.Reservation)
	}
	r, err := b.aws.Reservation(ctx, i.Reservation)
	switch notShown := ec2.Code(err) == reservationNotFound || errors.Is(err, ec2.ErrNotDescribed); {
	case notShown:
		r = capacity.Reservation{ID: i.Reservation}
	case err != nil:
		return err
	}
	if b.dry || i.Phase == state.Done && r.State != capacity.StatePaymentPending {
		return c.result(ctx, b, i, r, false)
	}
	return c.finish(ctx, b, i, r, false)
}

const reservationNotFound = "InvalidCapacityReservationId.NotFound"

// finish follows the payment, and records that this purchase has come to its end.
func (c *PurchaseCmd) finish(ctx context.Context, b *buyer, i state.Intent, r capacity.Reservation, fresh bool) error {
	b.close() // a payment takes up to 12 hours, in which others may buy
	if c.Wait {
		var err error
		if r, err = followPayment(ctx, b.t, b.aws, r); err != nil {
			if errors.Is(err, errNotPaid) {
				b.end(i, state.Failed, string(r.State), err)
			}
			return err
		}
	}
	if err := c.result(ctx, b, i, r, fresh); err != nil {
		return err
	}
	b.end(i, state.Done, "", nil)
	return nil
}

// result shows the block and says what comes next.
func (c *PurchaseCmd) result(ctx context.Context, b *buyer, i state.Intent, r capacity.Reservation, fresh bool) error {
	if err := b.t.Rows([]purchaseRow{newPurchaseRow(b.cfg, i, r, fresh)}); err != nil {
		return err
	}
	if r.InstanceType == "" { // EC2 does not show it
		r = ofOffering(i.Offering, i.Reservation)
	}
	if r.State != capacity.StateExpired {
		b.t.Say("Next:\n%s", nextStep(b.cfg, b.cluster(ctx), r))
	}
	return nil
}
