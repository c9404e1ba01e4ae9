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

// ExtensionOrder is an extension to buy.
type ExtensionOrder struct {
	ReservationID string
	Length        time.Duration // a length that EC2 sells: ec2.Length

	Fee   capacity.Money // the only accepted fee; without it the customer is asked
	Again bool           // extends by the same length once more, even shortly after the last time
	Wait  bool           // follows the payment until the end has moved
}

// Extend finds the extension, makes sure of the fee, and buys. It takes up an earlier purchase
// instead, if there is one.
func (b *Buyer) Extend(ctx context.Context, o ExtensionOrder) error {
	d, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer d.close()

	return d.extend(ctx, o)
}

func (d *deal) extend(ctx context.Context, o ExtensionOrder) error {
	if err := d.settleEarlier(ctx); err != nil {
		return err
	}

	// The run that bought it may have been killed, so that nobody knows of it: a repeated request means this one.
	interrupted, found, err := d.earlierExtension(o.ReservationID, func(i Intent) bool { return i.Phase == Bought })
	if err != nil {
		return err
	}

	if found {
		return d.takeUpExtension(ctx, o, interrupted)
	}

	r, err := ec2.Reservation(ctx, d.EC2, o.ReservationID)
	if err != nil {
		return err
	}

	history, err := d.EC2.Extensions(ctx, r.ID)
	if err != nil {
		return err
	}

	preview := Preview{Extended: r, History: history, Account: d.account, Now: d.EC2.Now()}

	repeated, found, err := d.repeatedExtension(preview, o.Length)
	if err != nil {
		return err
	}

	if found && !o.Again {
		return d.takeUpExtension(ctx, o, repeated)
	}

	if err := preview.checkExtendable(o.Length, d.Customer.Time); err != nil {
		return err
	}

	preview.Offering, err = findExtension(ctx, d.EC2, r, o.Length)
	if err != nil {
		return err
	}

	waited, err := d.waitForOthers(ctx)
	if err != nil {
		return err
	}

	if waited {
		return d.extend(ctx, o)
	}

	if err := d.offer(o.Fee, preview); err != nil {
		return err
	}

	return d.buyExtension(ctx, o, r, preview.Offering)
}

// repeatedExtension returns a recent extension by the same length, as EC2 shows it, or as an intent records it: EC2 may
// not show it yet.
func (d *deal) repeatedExtension(p Preview, length time.Duration) (Intent, bool, error) {
	if i, found := p.recentExtension(length); found {
		return i, true, nil
	}

	return d.earlierExtension(p.Extended.ID, func(i Intent) bool {
		e, _ := i.extension(p.History)
		return i.Phase == Done && i.Asked.Duration == length && p.Now.Sub(i.At) < recentTime &&
			e.State != capacity.ExtensionFailed
	})
}

// buyExtension buys an extension whose fee is accepted, or in a dry run asks EC2 whether it may.
func (d *deal) buyExtension(ctx context.Context, o ExtensionOrder, r capacity.Reservation,
	offering capacity.Offering,
) error {
	intent := d.newIntent(ExtendBlock)
	intent.Reservation = r.ID
	intent.Offering = offering
	intent.Fee = offering.Fee
	intent.Asked.Duration = o.Length
	intent.OldEnd = offering.Start
	intent.NewEnd = offering.End

	if d.DryRun {
		if err := d.EC2.PurchaseExtension(ctx, ec2.Try, offering.ID, r.ID); err != nil {
			return notBought(err)
		}
		return d.Customer.Report(Result{Intent: intent, Reservation: r, DryRun: true})
	}

	intent, err := d.send(ctx, intent, func(ctx context.Context) (string, error) {
		return r.ID, d.EC2.PurchaseExtension(ctx, ec2.Buy, offering.ID, r.ID)
	})
	if err != nil {
		return err
	}

	return d.finishExtension(ctx, o, Result{Intent: intent, Reservation: r, BoughtNow: true})
}

// findExtension returns the offering with the length nearest to the requested one; of several, the cheapest.
func findExtension(ctx context.Context, aws World, r capacity.Reservation,
	length time.Duration,
) (capacity.Offering, error) {
	found, err := aws.ExtensionOfferings(ctx, r.ID, length)
	if err != nil {
		return capacity.Offering{}, err
	}

	if len(found) == 0 {
		return capacity.Offering{}, fmt.Errorf(
			"EC2 has no extension of %s by %s for sale; try another --duration, or look for a block of its own with "+
				"`pcs-capacity offerings`",
			r.ID,
			capacity.FormatDuration(length),
		)
	}

	return pickExtension(found, length), nil
}

// takeUpExtension continues an extension of an earlier run or of another machine. It buys nothing.
func (d *deal) takeUpExtension(ctx context.Context, o ExtensionOrder, i Intent) error {
	what := fmt.Sprintf("an extension of %s by %s, to %s, at %s", i.Reservation,
		capacity.FormatDuration(i.Asked.Duration), d.Customer.Time(i.NewEnd), d.Customer.Time(i.At))
	if i.Phase == Bought {
		d.Customer.Say("An earlier run bought %s, and was interrupted. Nothing is bought now.", what)
	} else {
		d.Customer.Say("Somebody bought %s. Nothing is bought now; add --again to extend it further.", what)
	}

	if d.DryRun {
		return nil
	}

	r, err := ec2.Reservation(ctx, d.In(i.Region), i.Reservation)
	if err != nil {
		return err
	}

	if err := d.finishExtension(ctx, o, Result{Intent: i, Reservation: r}); err != nil {
		return err
	}

	if o.Length != i.Asked.Duration {
		return fmt.Errorf("%s was extended by %s, not by the %s asked for now; run this again to extend it further",
			i.Reservation, capacity.FormatDuration(i.Asked.Duration), capacity.FormatDuration(o.Length))
	}

	return nil
}

// finishExtension follows the payment, and records the end of the extension.
func (d *deal) finishExtension(ctx context.Context, o ExtensionOrder, result Result) error {
	d.close() // a payment takes up to 12 hours, in which others may buy

	i := result.Intent
	result.Extension = capacity.Extension{State: capacity.ExtensionPending, Purchased: i.At}
	if o.Wait {
		var err error

		result.Extension, result.Reservation, err = d.followExtension(ctx, i)
		if errors.Is(err, errNotPaid) {
			d.recordEnd(i, Failed, result.Extension.State, err)
		}

		if err != nil {
			return err
		}
	} else if seen, found, err := extensionOf(ctx, d.In(i.Region), i); err == nil && found {
		result.Extension = seen
	}

	if err := d.Customer.Report(result); err != nil {
		return err
	}

	d.recordEnd(i, Done, "", nil)

	return nil
}

// earlierExtension returns the first intent to extend a block that is as asked.
func (d *deal) earlierExtension(reservation string, is func(Intent) bool) (Intent, bool, error) {
	intents, err := d.intents().All()
	i := slices.IndexFunc(intents, func(i Intent) bool {
		return i.Kind == ExtendBlock && i.Reservation == reservation && is(i)
	})
	if err != nil || i < 0 {
		return Intent{}, false, err
	}

	return intents[i], true, nil
}
