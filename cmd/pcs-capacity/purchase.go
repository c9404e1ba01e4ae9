package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/config"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/state"
)

// PurchaseCmd buys a block.
type PurchaseCmd struct {
	Offering string `arg:"" help:"Id of the offering, cb-…, as offerings shows it."`

	ConfirmFee   string `help:"The fee in USD that you accept. The purchase is refused when EC2 now asks for another." placeholder:"USD"`
	Platform     string `help:"Platform of the image that will run." default:"Linux/UNIX"`
	InstanceType string `short:"t" help:"As in the offerings question; by default the last one asked here."`
	Count        int    `short:"n" help:"As in the offerings question."`
	Duration     span   `short:"d" help:"As in the offerings question."`
	DryRun       bool   `help:"Show what would be bought, and buy nothing."`
	Wait         bool   `help:"Follow the payment until the block is scheduled." default:"true" negatable:""`
}

// Help is shown below the flags.
func (PurchaseCmd) Help() string {
	return `A Capacity Block is paid in advance and cannot be cancelled, moved or refunded. The
request is sent once and never repeated. EC2 bills within 5 minutes to 12 hours; until
then the block is payment-pending.`
}

// purchaseRow is the result.
type purchaseRow struct {
	ID           string         `json:"id" col:"RESERVATION"`
	State        capacity.State `json:"state" col:"STATE"`
	InstanceType string         `json:"instance_type" col:"TYPE"`
	Count        int            `json:"count" col:"COUNT"`
	Zone         string         `json:"-" col:"ZONE"`
	AZID         string         `json:"az_id"`
	Start        time.Time      `json:"start" col:"START"`
	End          time.Time      `json:"end" col:"END"`
	Fee          capacity.Money `json:"fee" col:"FEE"`
	Currency     string         `json:"currency"`
}

// Run finds the offering again, makes sure of the fee, and buys.
func (c *PurchaseCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	query, region, err := c.query(state.Dir(cfg.StateDir))
	if err != nil {
		return err
	}
	aws = aws.In(region)
	offering, err := findOffering(ctx, aws, query, c.Offering)
	if err != nil {
		return err
	}
	t.Say("%s: %d x %s in %s, %s to %s (%s), for %s %s.", offering.ID, offering.Count, offering.InstanceType,
		zone(offering.AZID, offering.AZ), t.Time(offering.Start), t.Time(offering.End), lasts(offering.Duration()), offering.Fee, offering.Currency)
	if err := c.confirm(t, offering); err != nil {
		return err
	}
	if c.DryRun {
		t.Say("Dry run: nothing was bought. After the purchase, go on with:\n  %s", setupCommand("cr-…"))
		return nil
	}
	r, err := c.buy(ctx, t, aws, offering, cfg.Config)
	if err != nil {
		return err
	}
	if c.Wait {
		if r, err = followPayment(ctx, t, aws, r); err != nil {
			return err
		}
	}
	if err := t.Rows([]purchaseRow{{ID: r.ID, State: r.State, InstanceType: r.InstanceType, Count: max(r.Size(), offering.Count),
		Zone: zone(offering.AZID, offering.AZ), AZID: offering.AZID, Start: r.Start, End: r.End, Fee: offering.Fee, Currency: offering.Currency}}); err != nil {
		return err
	}
	t.Say("Next:\n  %s", setupCommand(r.ID))
	return nil
}

func setupCommand(id string) string {
	return fmt.Sprintf("pcs-capacity setup --reservation %s --queue QUEUE --node-group NAME --like NODE_GROUP", id)
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

// confirm makes sure that a person accepted this very fee. --yes is not enough.
func (c *PurchaseCmd) confirm(t *terminal.Terminal, o capacity.Offering) error {
	if c.ConfirmFee == "" {
		switch {
		case c.DryRun:
			return nil
		case !t.CanAsk:
			return usage("offering %s: nobody has accepted the fee; add --confirm-fee %s", o.ID, o.Fee)
		}
		return t.Type(fmt.Sprintf("This cannot be undone. Type the fee (%s) to buy", o.Fee), o.Fee.String())
	}
	accepted, err := capacity.ParseMoney(c.ConfirmFee)
	if err != nil {
		return usage("--confirm-fee: %w", err)
	}
	if accepted.Cmp(o.Fee) != 0 || o.Currency != "USD" {
		return fmt.Errorf("offering %s: its fee is %s %s, not the %s USD of --confirm-fee; nothing was bought", o.ID, o.Fee, o.Currency, accepted)
	}
	return nil
}

// buy records the decision, sends the purchase once (R3), and records the outcome.
func (c *PurchaseCmd) buy(ctx context.Context, t *terminal.Terminal, aws *ec2.Client, o capacity.Offering, cfg *config.Config) (capacity.Reservation, error) {
	dir := state.Dir(cfg.StateDir)
	unlock, err := dir.LockIntents()
	if err != nil {
		return capacity.Reservation{}, fmt.Errorf("%w; a purchase is recorded in state_dir before it is sent", err)
	}
	defer unlock()
	if err := settleIntents(ctx, t, aws, dir); err != nil {
		return capacity.Reservation{}, err
	}
	intent := state.Intent{ID: newIntent(), Kind: state.Purchase, Phase: state.Sending, At: aws.Now(), Region: aws.Region(),
		Offering: o, Fee: o.Fee, Currency: o.Currency}
	if err := dir.WriteIntent(intent); err != nil {
		return capacity.Reservation{}, err
	}
	tags := map[string]string{capacity.TagPurchase: intent.ID}
	if cfg.Cluster != "" {
		tags[capacity.TagCluster] = cfg.Cluster
	}
	r, err := aws.Purchase(ctx, o.ID, c.Platform, tags)
	switch {
	case err == nil:
		intent.Phase, intent.Reservation = state.Done, r.ID
	case ec2.Refused(err):
		intent.Phase, intent.Code, intent.Message = state.Failed, ec2.Code(err), err.Error()
	default:
		t.Say("The purchase has no clear outcome: %s", err)
		intent.Code, intent.Message = ec2.Code(err), err.Error()
		if writeErr := dir.WriteIntent(intent); writeErr != nil {
			return r, errors.Join(err, writeErr)
		}
		return settle(context.WithoutCancel(ctx), t, aws, dir, intent)
	}
	return r, errors.Join(err, dir.WriteIntent(intent))
}

// settleIntents finds out what became of earlier purchases with an unknown outcome.
// As long as one of them stays unknown, nothing is bought.
func settleIntents(ctx context.Context, t *terminal.Terminal, aws *ec2.Client, dir state.Dir) error {
	intents, err := dir.Intents()
	if err != nil {
		return err
	}
	for _, i := range intents {
		if i.Kind == state.Purchase && i.Phase == state.Sending {
			r, err := settle(ctx, t, aws.In(i.Region), dir, i)
			if err != nil {
				return err
			}
			return fmt.Errorf("offering %s was bought by an earlier run, as %s; run this again if you want to buy one more", i.Offering.ID, r.ID)
		}
	}
	return nil
}

// settle looks for the block of a purchase by the tag that it carries.
func settle(ctx context.Context, t *terminal.Terminal, aws *ec2.Client, dir state.Dir, i state.Intent) (capacity.Reservation, error) {
	t.Say("Looking for the block in %s by its tag %s=%s.", aws.Region(), capacity.TagPurchase, i.ID)
	found, err := aws.ReservationsByTag(ctx, map[string]string{capacity.TagPurchase: i.ID})
	if len(found) > 0 {
		t.Say("It was bought, as %s.", found[0].ID)
		i.Phase, i.Reservation = state.Done, found[0].ID
		return found[0], dir.WriteIntent(i)
	}
	if err == nil {
		err = errors.New("EC2 shows no such block, which can change within minutes")
	}
	return capacity.Reservation{}, fmt.Errorf("purchase %s of offering %s: nobody knows whether it was made: %w; run this again in some minutes, and see AWS Billing before you delete %s",
		i.ID, i.Offering.ID, err, dir.IntentPath(i.ID))
}

// newIntent names one purchase.
func newIntent() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: package crypto/rand
	return "buy-" + hex.EncodeToString(b[:])
}

// The payment is asked for after a second, then less and less often, at last every
// half minute: EC2 takes minutes to hours for it.
const firstPaymentPoll, lastPaymentPoll = time.Second, 30 * time.Second

// followPayment waits until the block is paid. Stopping it changes nothing.
func followPayment(ctx context.Context, t *terminal.Terminal, aws *ec2.Client, r capacity.Reservation) (capacity.Reservation, error) {
	progress := t.Start(fmt.Sprintf("%s is %s", r.ID, r.State))
	defer func() { progress.Done("") }()
	for poll := firstPaymentPoll; ; poll = min(2*poll, lastPaymentPoll) {
		switch {
		case r.State == capacity.StateScheduled || r.State == capacity.StateActive:
			return r, nil
		case !r.State.Live():
			return r, fmt.Errorf("reservation %s is %s: the block was not paid for; see AWS Billing, then buy another", r.ID, r.State)
		}
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("reservation %s is bought and %s; `pcs-capacity status` shows when it is scheduled", r.ID, r.State)
		case <-time.After(poll):
		}
		found, missing, err := aws.Reservations(ctx, []string{r.ID})
		switch {
		case err != nil && ctx.Err() == nil:
			progress.Now(fmt.Sprintf("%s was %s; asking again: %s", r.ID, r.State, firstLine(err)))
		case len(found) == 1:
			r = found[0]
			progress.Now(fmt.Sprintf("%s is %s", r.ID, r.State))
		case len(missing) == 1:
			progress.Now(fmt.Sprintf("%s does not show yet: %s", r.ID, firstLine(missing[0].Err)))
		}
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
