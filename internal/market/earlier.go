package market

import (
	"context"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// boughtBefore finds the newest purchase of an offering that was not undone by its
// payment: among the intents, and among the tags of EC2's reservations, where those of
// other machines show. One in phase Bought goes first: its run was cut off. An intent of
// the same block as known, which may have had another id, counts too.
func (d *deal) boughtBefore(ctx context.Context, offering string, known capacity.Offering) (Intent, bool, error) {
	tagged, err := d.aws.List(ctx, ec2.ReservationQuery{Tags: map[string]string{capacity.TagOffering: offering}})
	if err != nil {
		return Intent{}, false, fmt.Errorf("looking whether offering %s was bought before: %w", offering, err)
	}
	intents, err := d.intents().All()
	if err != nil {
		return Intent{}, false, err
	}
	var bought []Intent
	recorded := map[string]bool{}
	for _, i := range intents {
		same := i.Offering.ID == offering || i.ordered() == offering || sameBlock(i.Offering, known)
		if i.Kind != BuyBlock || !same || i.Region != d.aws.Region() || !d.ours(i) {
			continue
		}
		recorded[i.ID] = true
		at := slices.IndexFunc(tagged, func(r capacity.Reservation) bool { return r.ID == i.Reservation })
		unpaid := at >= 0 && tagged[at].State == capacity.StatePaymentFailed
		if unpaid && i.Phase == Done {
			d.Customer.Say("Offering %s was bought at %s, as %s, but its payment failed.", offering, d.Customer.Time(i.At), i.Reservation)
		}
		if i.Phase == Bought || i.Phase == Done && !unpaid {
			bought = append(bought, i)
		}
	}
	for _, r := range tagged {
		if !recorded[r.Tags[capacity.TagPurchase]] && r.State != capacity.StatePaymentFailed {
			bought = append(bought, purchaseOfTags(r))
		}
	}
	if len(bought) == 0 {
		return Intent{}, false, nil
	}
	slices.SortFunc(bought, func(x, y Intent) int { return y.At.Compare(x.At) })
	if cutOff := slices.IndexFunc(bought, func(i Intent) bool { return i.Phase == Bought }); cutOff > 0 {
		return bought[cutOff], true, nil
	}
	return bought[0], true, nil
}

// purchaseOfTags is what the tags of a reservation say about a purchase that another
// machine made. It has no id, since it is not ours to record; and the offering has neither
// times, which an extension may have moved, nor a number of UltraServers.
func purchaseOfTags(r capacity.Reservation) Intent {
	i := Intent{Kind: BuyBlock, Phase: Done, At: r.Created, Region: r.Region, Reservation: r.ID, Platform: r.Platform}
	i.Offering = capacity.Offering{ID: r.Tags[capacity.TagOffering], Region: r.Region}
	if !r.UltraServer {
		i.Offering.InstanceType, i.Offering.Count = r.InstanceType, r.Size()
	}
	_ = i.Fee.UnmarshalText([]byte(r.Tags[capacity.TagFee])) // a tag that somebody has changed tells no fee
	return i
}
