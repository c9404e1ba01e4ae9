package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// ExtensionOrder is an extension to buy. Preview and Report must be set, as in PurchaseOrder.
type ExtensionOrder struct {
	ReservationID string
	Length        time.Duration // a length that EC2 sells: ec2.Length

	Fee     capacity.Money // the only accepted fee; without it the customer is asked
	Again   bool           // extends by the same length once more, even shortly after the last time
	Wait    bool           // follows the payment until the end has moved
	Preview func(ExtensionPreview)
	Report  func(Result) error
}

// ExtensionPreview is the extension before it is bought.
type ExtensionPreview struct {
	Reservation capacity.Reservation
	History     []capacity.Extension // the block's extensions
	Offering    capacity.Offering
	Account     string // Account that buys; "" if unknown
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

	now := d.EC2.Now()

	repeated, found, err := d.repeatedExtension(r, history, o.Length, now)
	if err != nil {
		return err
	}

	if found && !o.Again {
		return d.takeUpExtension(ctx, o, repeated)
	}

	if err := d.checkExtendable(r, history, o.Length, now); err != nil {
		return err
	}

	offering, err := findExtension(ctx, d.EC2, r, o.Length)
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

	o.Preview(ExtensionPreview{r, history, offering, d.account})

	if err := accept(d.Customer, o.Fee, offering, d.DryRun); err != nil {
		return err
	}

	return d.buyExtension(ctx, o, r, offering)
}

// repeatedExtension returns a recent extension by the same length, as EC2 shows it, or as an intent records it: EC2 may
// not show it yet.
func (d *deal) repeatedExtension(r capacity.Reservation, history []capacity.Extension, length time.Duration,
	now time.Time,
) (Intent, bool, error) {
	if i, found := recentExtension(r, history, length, now); found {
		return i, true, nil
	}

	return d.earlierExtension(r.ID, func(i Intent) bool {
		e, _ := i.extension(history)
		return i.Phase == Done && i.Asked.Duration == length && now.Sub(i.At) < recentTime &&
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
		return o.Report(Result{Intent: intent, Reservation: r, DryRun: true})
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

// pickExtension returns findExtension's choice among the offerings.
func pickExtension(found []capacity.Offering, length time.Duration) capacity.Offering {
	return slices.MinFunc(found, func(x, y capacity.Offering) int {
		return cmp.Or(cmp.Compare((x.Duration()-length).Abs(), (y.Duration()-length).Abs()), compareFees(x.Fee, y.Fee))
	})
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

	if err := o.Report(result); err != nil {
		return err
	}

	d.recordEnd(i, Done, "", nil)

	return nil
}

// Extensions that EC2 sells: EC2 User Guide, "Extend Capacity Blocks".
const (
	earliestExtension = 56 * 24 * time.Hour
	latestExtension   = time.Hour
	longestBlock      = 182 * 24 * time.Hour
)

// recentTime must pass after an extension before the same length counts as another request: an extension has no name by
// which the next run of a killed script could ask for it again. The shortest one is a day long.
const recentTime = 24 * time.Hour

// checkExtendable returns why EC2 will not extend a block by a length; nil if no obstacle is known.
func (d *deal) checkExtendable(r capacity.Reservation, history []capacity.Extension, length time.Duration,
	now time.Time,
) error {
	at := d.Customer.Time
	left := r.End.Sub(now)
	switch {
	case !r.Kind.IsBlock():
		return fmt.Errorf("%s is an On-Demand Capacity Reservation; only Capacity Blocks are extended", r.ID)
	case r.State != capacity.StateActive && r.State != capacity.StateScheduled:
		return fmt.Errorf("%s is %s; EC2 extends blocks that are scheduled or active", r.ID, r.State)
	case d.account != "" && r.OwnerID != "" && r.OwnerID != d.account:
		return fmt.Errorf(
			"%s belongs to account %s and is shared with yours; only its owner can extend it",
			r.ID,
			r.OwnerID,
		)
	case left < latestExtension:
		return fmt.Errorf(
			"%s ends at %s; EC2 sells extensions until one hour before the end, so look for another block with "+
				"`pcs-capacity offerings`",
			r.ID,
			at(r.End),
		)
	case left > earliestExtension:
		return fmt.Errorf("%s ends at %s; EC2 sells extensions in the last 56 days, from %s on", r.ID, at(r.End),
			at(r.End.Add(-earliestExtension)))
	case r.End.Add(length).Sub(r.Start) > longestBlock:
		return fmt.Errorf("%s would have %s with %s more; EC2 sells at most 182 days in all", r.ID,
			capacity.FormatDuration(r.End.Add(length).Sub(r.Start)), capacity.FormatDuration(length))
	}

	for _, e := range history {
		if e.State == capacity.ExtensionPending {
			return fmt.Errorf(
				"an extension of %s to %s was bought at %s and is %s; EC2 sells no other until it is paid",
				r.ID,
				at(e.To),
				at(e.Purchased),
				e.State,
			)
		}
	}

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

// recentExtension returns a recent extension by the same length, bought by anybody, unless its payment failed.
func recentExtension(r capacity.Reservation, history []capacity.Extension, length time.Duration,
	now time.Time,
) (Intent, bool) {
	for _, e := range slices.Backward(history) {
		if e.To.Sub(e.From) == length && e.State != capacity.ExtensionFailed && now.Sub(e.Purchased) < recentTime {
			i := Intent{
				Kind:        ExtendBlock,
				Phase:       Done,
				At:          e.Purchased,
				Region:      r.Region,
				Fee:         e.Fee,
				Reservation: r.ID,
				Asked:       capacity.Duration{Duration: length},
				OldEnd:      e.From,
				NewEnd:      e.To,
			}
			i.Offering.ID = e.OfferingID

			return i, true
		}
	}

	return Intent{}, false
}
