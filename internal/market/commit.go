package market

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// CommitOrder is an order of an ODCR for later. It costs money from its start to the end of its
// commitment, used or not. Accept and Tell must be set.
type CommitOrder struct {
	InstanceType, Platform string
	Count                  int
	// SubnetID determines the zone.
	SubnetID string
	Start    time.Time
	// For is the commitment, in whole hours.
	For time.Duration
	// Again orders one more after an identical order.
	Again bool
	// Limits are the limits of the settings.
	Limits capacity.Reserve
	// Accept asks a person to confirm the commitment; nil means yes.
	Accept func(CommitPreview) error
	// Tell is called with the outcome, as that of a purchase.
	Tell func(CommitResult) error
}

// InstanceHours is the size of the commitment.
func (o CommitOrder) InstanceHours() int { return o.Count * int(o.For/time.Hour) }

// CommitPreview is the commitment before it is made.
type CommitPreview struct {
	Order CommitOrder
	AZID  string
	// Account that commits; "" if unknown.
	Account string
	// Now is AWS's time.
	Now time.Time
}

// CommitResult is the order made.
type CommitResult struct {
	Order  CommitOrder
	AZID   string
	Intent Intent
	// Reservation has only an id until EC2 shows it.
	Reservation capacity.Reservation
	// BoughtNow is false for an order of an earlier run or another machine.
	BoughtNow bool
}

// Commit orders an ODCR for later, once (R3). It takes up an earlier order instead, if there is
// one.
func (b *Buyer) Commit(ctx context.Context, o CommitOrder) error {
	if !o.Limits.Enabled {
		return ErrHoldingOff
	}
	d, err := b.open(ctx, "")
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.settleEarlier(ctx); err != nil {
		return err
	}
	subnets, err := d.aws.Subnets(ctx, []string{o.SubnetID})
	if err != nil {
		return err
	}
	offering := capacity.Offering{InstanceType: o.InstanceType, Count: o.Count, Region: d.aws.Region(),
		AZ: subnets[0].AZ, AZID: subnets[0].AZID, Start: o.Start.UTC(), End: o.Start.Add(o.For).UTC()}
	// This goes into a tag, so it has only characters that tags may have.
	offering.ID = fmt.Sprintf("%d x %s in %s from %s for %s", o.Count, o.InstanceType, offering.AZID,
		offering.Start.Format(time.RFC3339), capacity.FormatExact(o.For))
	earlier, bought, err := d.boughtBefore(ctx, CommitLater, offering.ID, offering)
	switch {
	case err != nil:
		return err
	case bought && (earlier.Phase == Bought || !o.Again):
		return d.takeUpCommitment(ctx, o, offering.AZID, earlier)
	}
	// Not earlier: an order is found at any time.
	if err := o.check(d.aws.Now()); err != nil {
		return err
	}
	if err := o.Accept(CommitPreview{Order: o, AZID: offering.AZID, Account: d.account, Now: d.aws.Now()}); err != nil {
		return err
	}
	intent := d.newIntent(CommitLater)
	intent.Offering, intent.Asked, intent.Platform = offering, capacity.Duration{Duration: o.For}, o.Platform
	var r capacity.Reservation
	intent, err = d.send(ctx, intent, func(ctx context.Context) (string, error) {
		r, err = d.aws.Commit(ctx, capacity.CommitOrder{
			ClientToken:  intent.ID,
			InstanceType: o.InstanceType,
			AZID:         offering.AZID,
			Platform:     o.Platform,
			Count:        o.Count,
			Start:        o.Start,
			For:          o.For,
			Tags:         d.tags(intent),
		})
		return r.ID, err
	})
	if err != nil {
		return err
	}
	if r.ID == "" { // the answer was lost
		if r, err = d.shown(ctx, intent.Reservation); err != nil {
			return err
		}
	}
	return d.tellCommitment(o,
		CommitResult{Order: o, AZID: offering.AZID, Intent: intent, Reservation: r, BoughtNow: true})
}

// check returns an order's faults: EC2 would refuse it, or the settings do not allow it.
func (o CommitOrder) check(now time.Time) error {
	earliest, latest := now.Add(capacity.CommitEarliest), now.Add(capacity.CommitLatest)
	switch {
	case o.Start.Before(earliest) || o.Start.After(latest):
		return mistake("--start %s: EC2 takes ODCRs for later from 5 to 120 days ahead, now from %s to %s",
			capacity.FormatUTC(o.Start), capacity.FormatUTC(earliest), capacity.FormatUTC(latest))
	case o.For < capacity.CommitShortest || o.For%time.Hour != 0:
		return mistake("--commitment %s: EC2 takes commitments of 14d and more; give whole hours",
			capacity.FormatExact(o.For))
	}
	return o.Limits.Allows(capacity.Held{InstanceType: o.InstanceType, Count: o.Count}, nil)
}

// takeUpCommitment continues an order of an earlier run or of another machine. It orders nothing.
func (d *deal) takeUpCommitment(ctx context.Context, o CommitOrder, azID string, i Intent) error {
	at := d.Customer.Time(i.At)
	if i.Phase == Bought {
		d.Customer.Say("An earlier run bought %s at %s, as %s, and was cut off. Nothing is bought now.", i.what(), at,
			i.Reservation)
	} else {
		d.Customer.Say("%s was bought at %s, as %s. Nothing is bought now; add --again to commit to as much once more.",
			capitalized(i.what()), at, i.Reservation)
	}
	r, err := d.shown(ctx, i.Reservation)
	if err != nil {
		return err
	}
	return d.tellCommitment(o, CommitResult{Order: o, AZID: azID, Intent: i, Reservation: r})
}

func (d *deal) tellCommitment(o CommitOrder, result CommitResult) error {
	if err := o.Tell(result); err != nil {
		return err
	}
	d.end(result.Intent, Done, "", nil)
	return nil
}
