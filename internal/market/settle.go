package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// settleEarlier finds out the outcome of every earlier purchase and extension where it is unknown, and reports it.
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
		case !d.isOurs(i):
			d.Customer.Say(
				"The outcome of %s is unknown, but belongs to account %s; it is left for a run with the credentials "+
					"of that account.",
				i,
				i.Account,
			)

			continue
		case d.DryRun:
			d.Customer.Say("The outcome of %s is unknown; a real run finds out first.", i)
			continue
		}

		d.Customer.Say("An earlier run was interrupted, so the outcome of %s is unknown.", i)

		if _, err := d.settle(ctx, i); err != nil {
			return err
		}
	}

	return nil
}

// settle asks EC2 until it shows the purchase of an intent, or until it would show one. The
// intent's phase is then Bought or Failed; after an error it is still unknown.
func (d *deal) settle(ctx context.Context, i Intent) (Intent, error) {
	// An intent of a run that was killed during the call: EC2 may have got it as late as the call's timeout.
	if i.SettledAt.IsZero() {
		i.SettledAt = i.At.Add(callTimeout + settleTime)
	}

	progress := d.Customer.Start(
		fmt.Sprintf("asking EC2 in %s about %s, until %s at the latest", i.Region, i.ID, d.Customer.Time(i.SettledAt)))
	defer progress.Done()

	for wait := firstWait; ; wait = min(2*wait, settleWait) {
		began := time.Now()

		// Asked again and again: "not there" means nothing until EC2 would surely show it.
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
			// That EC2 shows a purchase by then is not documented: docs/assumptions.md.
			progress.Say(
				"EC2 does not show it %s after the call: it was not bought. Before you buy another, look for it with "+
					"`pcs-capacity list --blocks`, and in the account's bill.",
				capacity.FormatDuration(asked.Sub(i.At)),
			)
			i.Phase = Failed
			d.record(i)

			return i, nil
		case err != nil && wouldShow:
			return i, d.unknownOutcome(i, err)
		case err != nil:
			progress.Now("asking again: " + firstLine(err))
		}

		if !d.sleep(ctx, wait) {
			return i, d.unknownOutcome(i, context.Cause(ctx))
		}
	}
}

func (d *deal) unknownOutcome(i Intent, err error) error {
	return fmt.Errorf(
		"%s: could not determine whether it was made: %w; run this again, which finds out before it buys anything "+
			"(recorded in %s)",
		i,
		err,
		d.intents().Path(i.ID),
	)
}

// look asks EC2 once whether it shows the purchase of an intent, and fills in the reservation.
func (d *deal) look(ctx context.Context, i *Intent) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	aws := d.In(i.Region)
	if i.Kind == ExtendBlock {
		_, found, err := extensionOf(ctx, aws, *i)
		return found, err
	}
	// Plain: the fewer calls, the less can fail.
	tagged, err := aws.FindReservations(
		ctx,
		ec2.ReservationQuery{Tags: map[string]string{capacity.TagPurchase: i.ID}, Plain: true},
	)
	// Tags are copied by people and programs: only a reservation of the kind can have been bought.
	at := slices.IndexFunc(tagged, func(r capacity.Reservation) bool { return r.Kind == capacity.CapacityBlock })
	if at < 0 {
		return false, err
	}

	// Only the id: the caller reads the rest when it needs it.
	i.Reservation = tagged[at].ID

	return true, nil
}

// askTimeout bounds one question of many: a later one may be answered.
const askTimeout = time.Minute

// extensionOf finds the extension of an intent in the block's history: extensions carry
// no tags. The newest one is it, when the same was bought before and not paid for.
func extensionOf(ctx context.Context, aws World, i Intent) (capacity.Extension, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	history, err := aws.Extensions(ctx, i.Reservation)
	e, found := i.extension(history)

	return e, found, err
}

// Waits between two questions to EC2 begin short and double: up to 5 s for a thing that is not shown yet, far below
// EC2's request limits; up to half a minute for a payment, which takes minutes to hours.
const firstWait, settleWait, paymentWait = 100 * time.Millisecond, 5 * time.Second, 30 * time.Second

// errNotPaid is a failed payment: there is no block or extension.
var errNotPaid = errors.New("the payment failed")

// followPayment waits until a block is paid. Stopping it changes nothing. The state of r
// is "" until EC2 shows the block.
func (d *deal) followPayment(ctx context.Context, r capacity.Reservation) (capacity.Reservation, error) {
	what := fmt.Sprintf("%s is %s", r.ID, r.State)
	wait := firstWait
	if r.State == "" {
		what = "waiting for the payment of " + r.ID
		wait = 0
	}

	progress := d.Customer.Start(what)
	defer progress.Done()

	for ; ; wait = min(max(2*wait, firstWait), paymentWait) {
		switch {
		case r.State == capacity.StateScheduled, r.State == capacity.StateActive, r.State == capacity.StateExpired:
			return r, nil // it is paid; an expired one was asked for again after its end
		case r.State != "" && !r.State.IsLive():
			return r, fmt.Errorf("reservation %s is %s: %w, so there is no block; see AWS Billing, then buy another",
				r.ID, r.State, errNotPaid)
		}

		if !d.sleep(ctx, wait) {
			return r, fmt.Errorf(
				"reservation %s is bought and %s, and its payment is no longer followed; run this again to follow it",
				r.ID, describeState(r.State))
		}

		found, err := readPurchased(ctx, d.EC2, r.ID)
		switch {
		case err != nil && ctx.Err() == nil:
			progress.Now(fmt.Sprintf("%s was %s; asking again: %s", r.ID, describeState(r.State), firstLine(err)))
		case err == nil && found.State != "":
			r = found
			progress.Now(fmt.Sprintf("%s is %s", r.ID, r.State))
		case err == nil:
			progress.Now(r.ID + " does not show yet")
		}
	}
}

// followExtension waits until an extension is paid and the block's end has moved.
func (d *deal) followExtension(ctx context.Context, i Intent) (capacity.Extension, capacity.Reservation, error) {
	aws := d.In(i.Region)

	progress := d.Customer.Start(fmt.Sprintf("the extension of %s is bought", i.Reservation))
	defer progress.Done()

	for wait := firstWait; ; wait = min(2*wait, paymentWait) {
		e, found, err := extensionOf(ctx, aws, i)
		switch {
		case err != nil && ctx.Err() == nil:
			progress.Now("asking again: " + firstLine(err))
		case err == nil && !found:
			progress.Now("EC2 does not show the extension yet")
		case err == nil && e.State == capacity.ExtensionFailed:
			return e, capacity.Reservation{}, fmt.Errorf(
				"extension %s of %s is %s: %w, so the block still ends at %s; see AWS Billing, then run this again",
				i.Offering.ID, i.Reservation, e.State, errNotPaid, d.Customer.Time(i.OldEnd))
		case err == nil && e.State == capacity.ExtensionPaid:
			// Paid is not enough: fences move only with the block's end.
			r, err := readPurchased(ctx, aws, i.Reservation)
			if err == nil && !r.End.Before(i.NewEnd) {
				return e, r, nil
			}

			progress.Now("paid; waiting for EC2 to show the new end")
		case err == nil:
			progress.Now(fmt.Sprintf("the extension of %s is %s", i.Reservation, e.State))
		}

		if !d.sleep(ctx, wait) {
			return e, capacity.Reservation{}, fmt.Errorf(
				"the extension of %s to %s is bought, and its payment is no longer followed; run this again to "+
					"follow it",
				i.Reservation,
				d.Customer.Time(i.NewEnd),
			)
		}
	}
}

func describeState(s capacity.State) string {
	if s == "" {
		return "not shown by EC2 yet"
	}
	return string(s)
}

// boughtBefore finds the newest purchase of an offering that neither its payment nor EC2 has undone: among the intents,
// and among the tags of EC2's reservations, which show purchases of other machines. An intent of the same block as
// known, perhaps under another id, counts too. If there is none, everything learned must be on disk.
func (d *deal) boughtBefore(ctx context.Context, offering string, known capacity.Offering) (Intent, bool, error) {
	tagged, err := d.EC2.FindReservations(
		ctx,
		ec2.ReservationQuery{Tags: map[string]string{capacity.TagOffering: offering}, Plain: true},
	)
	if err != nil {
		return Intent{}, false, fmt.Errorf("checking whether offering %s was bought before: %w", offering, err)
	}

	intents, err := d.intents().All()
	if err != nil {
		return Intent{}, false, err
	}

	intents = slices.DeleteFunc(intents, func(i Intent) bool { return i.Region != d.EC2.Region() || !d.isOurs(i) })
	bought, undone := findEarlier(intents, tagged, offering, known)

	for _, u := range undone {
		why := "its payment failed"
		if u.Reservation.State != capacity.StatePaymentFailed {
			why = "it is " + string(u.Reservation.State)
		}

		i := u.Intent
		d.Customer.Say("Offering %s was bought at %s, as %s, but %s.", i.Offering.ID, d.Customer.Time(i.At),
			i.Reservation, why)
	}

	if len(bought) == 0 {
		return Intent{}, false, d.checkRecorded()
	}

	return pickEarlier(bought), true, nil
}
