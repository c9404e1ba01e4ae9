package market

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// settleEarlier finds out the outcome of every earlier purchase and extension where it is unknown,
// and reports it.
func (d *deal) settleEarlier(ctx context.Context) error {
	intents, err := d.intents().All()
	if err != nil {
		return err
	}
	for _, i := range intents {
		if i.Phase != Sending {
			continue
		}
		switch {
		case !d.ours(i):
			d.Customer.Say(
				"The outcome of %s is unknown, but belongs to account %s; it is left for a run with the credentials of that account.",
				i, i.Account)
			continue
		case d.DryRun:
			d.Customer.Say("The outcome of %s is unknown; a real run finds out first.", i)
			continue
		}
		d.Customer.Say("An earlier run was cut off, so the outcome of %s is unknown.", i)
		if _, err := d.settle(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// settle asks EC2 until it shows the purchase of an intent, or until it would show one. The
// intent's phase is then Bought or Failed; after an error it is still unknown.
func (d *deal) settle(ctx context.Context, i Intent) (Intent, error) {
	if i.SettledAt.IsZero() {
		i.SettledAt = i.At.Add(callTimeout + settleTime)
	}
	progress := d.Customer.Start(
		fmt.Sprintf("asking EC2 in %s about %s, until %s at the latest", i.Region, i.ID, d.Customer.Time(i.SettledAt)),
	)
	defer progress.Done()
	for wait := firstWait; ; wait = min(2*wait, settleWait) {
		began := time.Now()
		found, err := d.look(ctx, &i)
		// AWS's time when EC2 was asked: its answer has just carried it.
		asked := d.EC2.Now().Add(-time.Since(began))
		wouldShow := !asked.Before(i.SettledAt)
		switch {
		case found:
			progress.Say("EC2 shows it: it was bought, %s.", i.boughtAs())
			i.Phase = Bought
			d.record(i)
			return i, nil
		case err == nil && wouldShow:
			progress.Say("EC2 does not show it %s after the call: it was not bought.",
				capacity.FormatDuration(asked.Sub(i.At)))
			i.Phase = Failed
			d.record(i)
			return i, nil
		case err != nil && wouldShow:
			return i, d.unknown(i, err)
		case err != nil:
			progress.Now("asking again: " + firstLine(err))
		}
		if !d.sleep(ctx, wait) {
			return i, d.unknown(i, context.Cause(ctx))
		}
	}
}

func (d *deal) unknown(i Intent, err error) error {
	return fmt.Errorf(
		"%s: it is not known whether it was made: %w; run this again, which finds out before it buys anything (recorded in %s)",
		i, err, d.intents().Path(i.ID))
}

// look asks EC2 once whether it shows the purchase of an intent, and fills in the reservation.
func (d *deal) look(ctx context.Context, i *Intent) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	aws := d.EC2.In(i.Region)
	if i.Kind == ExtendBlock {
		_, found, err := extensionOf(ctx, aws, *i)
		return found, err
	}
	// A list, not InspectBlocks: the fewer calls, the less can fail.
	tagged, err := aws.List(ctx, ec2.ReservationQuery{Tags: map[string]string{capacity.TagPurchase: i.ID}})
	// Tags are copied by people and programs: only a reservation of the kind can have been bought.
	at := slices.IndexFunc(tagged, func(r capacity.Reservation) bool { return r.Kind == capacity.CapacityBlock })
	if at < 0 {
		return false, err
	}
	i.Reservation = tagged[at].ID
	return true, nil
}

// clockSlack is by how much EC2's time of a purchase may be before our time of the
// decision, which comes from a Date header of whole seconds.
const clockSlack = 30 * time.Second

// extensionOf finds the extension of an intent in the block's history: extensions carry
// no tags. The newest one is it, when the same was bought before and not paid for.
func extensionOf(ctx context.Context, aws *ec2.Client, i Intent) (capacity.Extension, bool, error) {
	history, err := aws.Extensions(ctx, i.Reservation)
	e, found := i.extension(history)
	return e, found, err
}

// extension is the newest one of a history that the intent can have made.
func (i Intent) extension(history []capacity.Extension) (newest capacity.Extension, found bool) {
	for _, e := range history {
		if e.OfferingID == i.Offering.ID && e.From.Equal(i.OldEnd) && !e.Purchased.Before(i.At.Add(-clockSlack)) &&
			!e.Purchased.Before(newest.Purchased) {
			newest, found = e, true
		}
	}
	return newest, found
}

// Waits between two questions to EC2 begin short and double: up to 5 s for a thing that is not
// shown yet, far below EC2's request limits; up to half a minute for a payment, which takes minutes
// to hours.
const firstWait, settleWait, paymentWait = 100 * time.Millisecond, 5 * time.Second, 30 * time.Second
