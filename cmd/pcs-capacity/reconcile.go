package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// settleOpen finds out what became of every earlier purchase and extension whose
// outcome is unknown, and says it.
func (b *buyer) settleOpen(ctx context.Context) error {
	intents, err := b.dir.Intents()
	if err != nil {
		return err
	}
	for _, i := range intents {
		if i.Phase != state.Sending {
			continue
		}
		switch {
		case !b.ours(i):
			b.t.Say("The outcome of %s is unknown, but belongs to account %s; it is left for a run with the credentials of that account.", named(i), i.Account)
			continue
		case b.dry:
			b.t.Say("The outcome of %s is unknown; a real run finds out first.", named(i))
			continue
		}
		b.t.Say("An earlier run was cut off, so the outcome of %s is unknown.", named(i))
		if _, err := b.settle(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// settle asks EC2 what became of an intent until it shows, or until it would show if
// it had been made. The intent's phase is then Bought or Failed; after an error it is
// still unknown.
func (b *buyer) settle(ctx context.Context, i state.Intent) (state.Intent, error) {
	if i.SettledAt.IsZero() {
		i.SettledAt = i.At.Add(b.cfg.Purchase.Timeout.Duration + b.cfg.Purchase.Settle.Duration)
	}
	progress := b.t.Start(fmt.Sprintf("asking EC2 in %s about %s, until %s at the latest", i.Region, i.ID, b.t.Time(i.SettledAt)))
	defer progress.Done("")
	for wait := firstWait; ; wait = min(2*wait, settleWait) {
		began := time.Now()
		found, err := b.look(ctx, &i)
		// AWS's time when EC2 was asked; its answer has just told the time.
		asked := b.aws.Now().Add(-time.Since(began))
		switch {
		case found:
			progress.Above("EC2 shows it: it was bought, %s.", boughtAs(i))
			i.Phase = state.Bought
			b.record(i)
			return i, nil
		case err == nil && !asked.Before(i.SettledAt):
			progress.Above("EC2 does not show it %s after the call: it was not bought.", capacity.FormatDuration(asked.Sub(i.At)))
			i.Phase = state.Failed
			b.record(i)
			return i, nil
		case err != nil && !asked.Before(i.SettledAt):
			return i, b.unknown(i, err)
		case err != nil:
			progress.Now("asking again: " + firstLine(err))
		}
		if !sleep(ctx, wait) {
			return i, b.unknown(i, context.Cause(ctx))
		}
	}
}

func (b *buyer) unknown(i state.Intent, err error) error {
	return fmt.Errorf("%s: it is not known whether it was made: %w; run this again, which finds out before it buys anything (recorded in %s)",
		named(i), err, b.dir.IntentPath(i.ID))
}

// look asks EC2 once whether it shows what an intent is about, and fills in the
// reservation.
func (b *buyer) look(ctx context.Context, i *state.Intent) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Purchase.Timeout.Duration)
	defer cancel()
	aws := b.aws.In(i.Region)
	if i.Kind == state.Extension {
		_, found, err := extensionOf(ctx, aws, *i)
		return found, err
	}
	// A list, not InspectBlocks: the fewer calls, the less can fail.
	reservations, err := aws.List(ctx, ec2.ReservationQuery{Tags: map[string]string{capacity.TagPurchase: i.ID}})
	if len(reservations) == 0 {
		return false, err
	}
	i.Reservation = reservations[0].ID
	return true, nil
}

// clockSlack is by how much EC2's time of a purchase may lie before our time of the
// decision, which comes from a Date header of whole seconds.
const clockSlack = 30 * time.Second

// extensionOf finds the extension of an intent in the block's history: extensions carry
// no tags. The newest one is it, when the same was bought before and not paid for.
func extensionOf(ctx context.Context, aws *ec2.Client, i state.Intent) (capacity.Extension, bool, error) {
	history, err := aws.Extensions(ctx, i.Reservation)
	var newest capacity.Extension
	found := false
	for _, e := range history {
		if e.OfferingID == i.Offering.ID && e.From.Equal(i.OldEnd) && !e.Purchased.Before(i.At.Add(-clockSlack)) && !e.Purchased.Before(newest.Purchased) {
			newest, found = e, true
		}
	}
	return newest, found, err
}

// named is an intent in a sentence.
func named(i state.Intent) string {
	if i.Kind == state.Extension {
		return fmt.Sprintf("extension %s of %s by offering %s", i.ID, i.Reservation, i.Offering.ID)
	}
	return fmt.Sprintf("purchase %s of offering %s", i.ID, i.Offering.ID)
}

func boughtAs(i state.Intent) string {
	if i.Kind == state.Extension {
		return "and extends " + i.Reservation
	}
	return "as " + i.Reservation
}

// Waits between two questions to EC2 begin short and double: for something that is not
// shown yet up to 5 s, which stays far below EC2's request limits; for a payment, which
// takes minutes to hours, up to half a minute.
const firstWait, settleWait, paymentWait = 100 * time.Millisecond, 5 * time.Second, 30 * time.Second

// sleep waits; false means that ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
