package market

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// PurchaseOrder is a block to buy.
type PurchaseOrder struct {
	OfferingID string
	Query      ec2.OfferingQuery // the search that finds the offering: EC2 cannot look one up by its id
	// Zone is the AZ id of the block. With it, and a Query from the block's start to its end, the block is
	// found under another id too.
	Zone     string
	Platform string // Platform of the image that will run; "" is Linux

	Fee   capacity.Money // the only accepted fee; without it the customer is asked
	Again bool           // buys one more after a purchase of the same offering
	Wait  bool           // follows the payment until the block is scheduled
}

// Purchase finds the offering again, makes sure of the fee, and buys. It takes up an earlier
// purchase instead, if there is one.
func (b *Buyer) Purchase(ctx context.Context, o PurchaseOrder) error {
	d, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer d.close()

	return d.purchase(ctx, o)
}

func (d *deal) purchase(ctx context.Context, o PurchaseOrder) error {
	if err := d.settleEarlier(ctx); err != nil {
		return err
	}

	// The error may wait: an offering that was bought before is no longer for sale.
	offering, findErr := findOffering(ctx, d.EC2, o.Query, o.OfferingID, o.block(d.EC2.Region()))
	earlier, bought, err := d.boughtBefore(ctx, o.OfferingID, offering)
	switch {
	case err != nil:
		return err
	case bought && (earlier.Phase == Bought || !o.Again):
		return d.takeUpPurchase(ctx, o, earlier)
	case findErr != nil:
		return findErr
	}

	waited, err := d.waitForOthers(ctx)
	if err != nil {
		return err
	}

	// From the start: others may have bought meanwhile.
	if waited {
		return d.purchase(ctx, o)
	}

	intent := d.newIntent(BuyBlock)
	if offering.ID != o.OfferingID {
		intent.OrderedAs = o.OfferingID
	}

	err = d.offer(o.Fee, Preview{
		Offering:  offering,
		OrderedAs: intent.OrderedAs,
		Account:   d.account,
		Now:       d.EC2.Now(),
	})
	if err != nil {
		return err
	}

	// A person takes minutes to confirm, and the offering may be gone or cost something else.
	if typed := o.Fee == (capacity.Money{}) && !d.DryRun; typed {
		offering, err = d.findConfirmed(ctx, o.Query, offering)
		if err != nil {
			return err
		}
	}

	if offering.ID != o.OfferingID {
		intent.OrderedAs = o.OfferingID
	}

	intent.Offering = offering

	return d.buyBlock(ctx, o, intent)
}

// buyBlock buys the offering of an intent whose fee is accepted, or in a dry run asks EC2 whether it may.
func (d *deal) buyBlock(ctx context.Context, o PurchaseOrder, intent Intent) error {
	intent.Fee = intent.Offering.Fee

	intent.Platform = o.Platform
	if intent.Platform == "" {
		intent.Platform = capacity.LinuxUNIX
	}

	// EC2 checks permission and parameters in a dry run, and sells nothing.
	if d.DryRun {
		if _, err := d.EC2.Purchase(ctx, ec2.Try, intent.Offering.ID, intent.Platform, d.tags(intent)); err != nil {
			return notBought(err)
		}
		return d.Customer.Report(Result{Intent: intent, DryRun: true})
	}

	var r capacity.Reservation

	intent, err := d.send(ctx, intent, func(ctx context.Context) (id string, err error) {
		r, err = d.EC2.Purchase(ctx, ec2.Buy, intent.Offering.ID, intent.Platform, d.tags(intent))
		return r.ID, err
	})
	if err != nil {
		return err
	}

	// EC2's answer may have been lost, and the purchase found by its tag: then r is empty.
	r.ID = intent.Reservation

	return d.finishPurchase(ctx, o.Wait, Result{Intent: intent, Reservation: r, BoughtNow: true})
}

// tags let any machine find the block again, and see its fee.
func (d *deal) tags(i Intent) map[string]string {
	tags := map[string]string{capacity.TagPurchase: i.ID, capacity.TagOffering: i.orderedID()}
	if i.Fee != (capacity.Money{}) {
		tags[capacity.TagFee] = i.Fee.String()
	}

	if d.Cluster != "" {
		tags[capacity.TagCluster] = d.Cluster
	}

	return tags
}

// block returns the block that the order describes without its id; zero if it says too little.
func (o PurchaseOrder) block(region string) capacity.Offering {
	if o.Zone == "" || o.Query.StartAfter.IsZero() || o.Query.EndBy.IsZero() {
		return capacity.Offering{}
	}

	known := capacity.Offering{
		ID:     o.OfferingID,
		Region: region,
		AZID:   o.Zone,
		Start:  o.Query.StartAfter,
		End:    o.Query.EndBy,
	}
	if ec2.IsUltraServer(o.Query.InstanceType) {
		known.UltraServerType = o.Query.InstanceType
		known.UltraServerCount = o.Query.Count
	} else {
		known.InstanceType = o.Query.InstanceType
		known.Count = o.Query.Count
	}

	return known
}

// takeUpPurchase continues a purchase of an earlier run or of another machine. It buys nothing.
func (d *deal) takeUpPurchase(ctx context.Context, o PurchaseOrder, i Intent) error {
	at := d.Customer.Time(i.At)
	if i.Phase == Bought {
		d.Customer.Say("An earlier run bought offering %s%s at %s, as %s, and was interrupted. Nothing is bought now.",
			i.Offering.ID, i.alias(o.OfferingID), at, i.Reservation)
	} else {
		d.Customer.Say("Offering %s%s was bought at %s, as %s. Nothing is bought now; add --again to buy one more.",
			i.Offering.ID, i.alias(o.OfferingID), at, i.Reservation)
	}

	r, err := readPurchased(ctx, d.EC2, i.Reservation)
	if err != nil {
		return err
	}

	result := Result{Intent: i, Reservation: r}
	if d.DryRun || i.Phase == Done && r.State != capacity.StatePaymentPending {
		return d.Customer.Report(result)
	}

	return d.finishPurchase(ctx, o.Wait, result)
}

// readPurchased returns the purchased reservation, which has only its id until EC2 shows it.
func readPurchased(ctx context.Context, aws World, id string) (capacity.Reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	r, err := ec2.Reservation(ctx, aws, id)
	if ec2.Code(err) == reservationNotFound || errors.Is(err, ec2.ErrNotDescribed) {
		return capacity.Reservation{ID: id}, nil
	}

	return r, err
}

const reservationNotFound = "InvalidCapacityReservationId.NotFound"

// finishPurchase follows the payment, and records the end of the purchase.
func (d *deal) finishPurchase(ctx context.Context, wait bool, result Result) error {
	d.close() // a payment takes up to 12 hours, in which others may buy

	if wait {
		var err error

		result.Reservation, err = d.followPayment(ctx, result.Reservation)
		if err != nil {
			if errors.Is(err, errNotPaid) {
				d.recordEnd(result.Intent, Failed, string(result.Reservation.State), err)
			}
			return err
		}
	}

	if err := d.Customer.Report(result); err != nil {
		return err
	}

	d.recordEnd(result.Intent, Done, "", nil)

	return nil
}

// findOffering asks EC2 anew, for today's fee. If EC2 no longer has the id, another offering of the
// same block stands for it: of several, one with the same fee, else the cheapest.
func findOffering(ctx context.Context, aws World, q ec2.OfferingQuery, id string,
	known capacity.Offering,
) (capacity.Offering, error) {
	found, err := aws.Offerings(ctx, q)
	if err != nil {
		return capacity.Offering{}, err
	}

	o, there := pickOffering(found, id, known)
	if !there {
		return o, fmt.Errorf(
			"offering %s: EC2 no longer has it for sale in %s; run `pcs-capacity offerings` again, and use the whole "+
				"command that it prints",
			id,
			aws.Region(),
		)
	}

	return o, nil
}

// pickOffering returns findOffering's choice among the offerings.
func pickOffering(found []capacity.Offering, id string, known capacity.Offering) (capacity.Offering, bool) {
	if i := slices.IndexFunc(found, func(o capacity.Offering) bool { return o.ID == id }); i >= 0 {
		return found[i], true
	}

	same := slices.DeleteFunc(found, func(o capacity.Offering) bool { return !sameBlock(o, known) })
	if len(same) == 0 {
		return capacity.Offering{}, false
	}

	if i := slices.IndexFunc(same, func(o capacity.Offering) bool { return o.Fee == known.Fee }); i >= 0 {
		return same[i], true
	}

	return slices.MinFunc(same, func(x, y capacity.Offering) int { return compareFees(x.Fee, y.Fee) }), true
}

// sameBlock reports whether two offerings are of one block, whatever their ids and fees:
// the ids of offerings expire soon, and EC2 then shows the block under another one.
func sameBlock(a, b capacity.Offering) bool {
	return a.Region == b.Region && a.AZID == b.AZID && soldType(a) == soldType(b) && SoldCount(a) == SoldCount(b) &&
		!a.Start.IsZero() && a.Start.Equal(b.Start) && a.End.Equal(b.End)
}

// findConfirmed finds an offering once more after somebody has typed its fee: its id may have expired
// meanwhile. The typed fee accepts that very fee.
func (d *deal) findConfirmed(ctx context.Context, q ec2.OfferingQuery,
	typed capacity.Offering,
) (capacity.Offering, error) {
	now, err := findOffering(ctx, d.EC2, q, typed.ID, typed)
	switch {
	case err != nil:
		return now, fmt.Errorf("%w; nothing was bought", err)
	case now.Fee != typed.Fee:
		return now, fmt.Errorf("offering %s: its fee is %s now, not the %s that you typed; nothing was bought", now.ID,
			now.Fee, typed.Fee)
	case now.ID != typed.ID:
		d.Customer.Say("EC2 now lists %s as %s, for the same fee.", typed.ID, now.ID)
	}

	return now, nil
}
