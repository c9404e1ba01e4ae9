package market

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// errNotPaid is a failed payment: there is no block or extension.
var errNotPaid = errors.New("the payment failed")

// followPayment waits until a block is paid. Stopping it changes nothing. The state of r
// is "" until EC2 shows the block.
func (d *deal) followPayment(ctx context.Context, r capacity.Reservation) (capacity.Reservation, error) {
	what, wait := fmt.Sprintf("%s is %s", r.ID, r.State), firstWait
	if r.State == "" {
		what, wait = "waiting for the payment of "+r.ID, 0
	}
	progress := d.Customer.Start(what)
	defer progress.Done()
	for ; ; wait = min(max(2*wait, firstWait), paymentWait) {
		switch {
		case r.State == capacity.StateScheduled || r.State == capacity.StateActive:
			return r, nil
		case r.State != "" && !r.State.Live():
			return r, fmt.Errorf("reservation %s is %s: %w, so there is no block; see AWS Billing, then buy another",
				r.ID, r.State, errNotPaid)
		}
		if !d.sleep(ctx, wait) {
			return r, fmt.Errorf(
				"reservation %s is bought and %s, and its payment is no longer followed; run this again to follow it",
				r.ID, stateInWords(r.State))
		}
		found, missing, err := askReservation(ctx, d.EC2, r.ID)
		switch {
		case err != nil && ctx.Err() == nil:
			progress.Now(fmt.Sprintf("%s was %s; asking again: %s", r.ID, stateInWords(r.State), firstLine(err)))
		case len(found) == 1:
			r = found[0]
			progress.Now(fmt.Sprintf("%s is %s", r.ID, r.State))
		case len(missing) == 1:
			progress.Now(fmt.Sprintf("%s does not show yet: %s", r.ID, firstLine(missing[0].Err)))
		}
	}
}

// followExtension waits until an extension is paid and the block's end has moved.
func (d *deal) followExtension(ctx context.Context, i Intent) (capacity.Extension, capacity.Reservation, error) {
	aws := d.EC2.In(i.Region)
	progress := d.Customer.Start(fmt.Sprintf("the extension of %s is bought", i.Reservation))
	defer progress.Done()
	for wait := firstWait; ; wait = min(2*wait, paymentWait) {
		e, found, err := askExtension(ctx, aws, i)
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
			r, _, err := askReservation(ctx, aws, i.Reservation)
			if err == nil && len(r) == 1 && !r[0].End.Before(i.NewEnd) {
				return e, r[0], nil
			}
			progress.Now("paid; waiting for EC2 to show the new end")
		case err == nil:
			progress.Now(fmt.Sprintf("the extension of %s is %s", i.Reservation, e.State))
		}
		if !d.sleep(ctx, wait) {
			return e, capacity.Reservation{}, fmt.Errorf(
				"the extension of %s to %s is bought, and its payment is no longer followed; run this again to follow it",
				i.Reservation, d.Customer.Time(i.NewEnd))
		}
	}
}

// askTimeout bounds one question of many: a later one may be answered.
const askTimeout = time.Minute

func askReservation(ctx context.Context, aws *ec2.Client,
	id string) ([]capacity.Reservation, []capacity.Missing, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return aws.Reservations(ctx, []string{id})
}

func askExtension(ctx context.Context, aws *ec2.Client, i Intent) (capacity.Extension, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return extensionOf(ctx, aws, i)
}

func stateInWords(s capacity.State) string {
	if s == "" {
		return "not shown by EC2 yet"
	}
	return string(s)
}
