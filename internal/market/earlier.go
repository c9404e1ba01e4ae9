package market

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// boughtBefore finds the newest purchase of a kind and an offering that neither its payment nor EC2
// has undone: among the intents, and among the tags of EC2's reservations, which show purchases of
// other machines. EC2's answer takes precedence over an intent. A purchase in phase Bought goes
// first: its run was cut off. An intent of the same block as known, perhaps under another id,
// counts too. If there is none, everything learned must be on disk.
func (d *deal) boughtBefore(ctx context.Context, kind IntentKind, offering string,
	known capacity.Offering) (Intent, bool, error) {
	tagged, err := d.EC2.List(ctx, ec2.ReservationQuery{Tags: map[string]string{capacity.TagOffering: offering}})
	if err != nil {
		return Intent{}, false, fmt.Errorf("looking whether %s was bought before: %w",
			Intent{Kind: kind, Offering: capacity.Offering{ID: offering}}.what(), err)
	}
	intents, err := d.intents().All()
	if err != nil {
		return Intent{}, false, err
	}
	var bought []Intent
	recorded := map[string]bool{}
	for _, i := range intents {
		same := i.Offering.ID == offering || i.ordered() == offering || sameBlock(i.Offering, known)
		if i.Kind != kind || !same || i.Region != d.EC2.Region() || !d.ours(i) {
			continue
		}
		recorded[i.ID] = true
		if r, shown := i.shownBy(tagged); shown && (i.Phase == Sending || i.Phase == Failed) {
			i.Phase, i.Reservation = Bought, r.ID // even if the file differs: EC2 has it
		}
		at := slices.IndexFunc(tagged, func(r capacity.Reservation) bool { return r.ID == i.Reservation })
		gone := at >= 0 && undone(tagged[at])
		if gone && i.Phase == Done {
			why := "its payment failed"
			if tagged[at].State != capacity.StatePaymentFailed {
				why = "it is " + string(tagged[at].State)
			}
			d.Customer.Say("%s was bought at %s, as %s, but %s.", capitalized(i.what()), d.Customer.Time(i.At),
				i.Reservation, why)
		}
		if i.Phase == Bought || i.Phase == Done && !gone {
			bought = append(bought, i)
		}
	}
	for _, r := range tagged {
		if !recorded[r.Tags[capacity.TagPurchase]] && !undone(r) {
			bought = append(bought, purchaseOfTags(kind, r))
		}
	}
	if len(bought) == 0 {
		return Intent{}, false, d.recorded()
	}
	slices.SortFunc(bought, func(x, y Intent) int { return y.At.Compare(x.At) })
	if cutOff := slices.IndexFunc(bought, func(i Intent) bool { return i.Phase == Bought }); cutOff > 0 {
		return bought[cutOff], true, nil
	}
	return bought[0], true, nil
}

// shownBy finds the purchase of an intent among reservations: one of its kind with its tag.
func (i Intent) shownBy(tagged []capacity.Reservation) (capacity.Reservation, bool) {
	at := slices.IndexFunc(tagged, func(r capacity.Reservation) bool {
		return r.Tags[capacity.TagPurchase] == i.ID && r.Kind == capacity.CapacityBlock && !undone(r)
	})
	if at < 0 {
		return capacity.Reservation{}, false
	}
	return tagged[at], true
}

func capitalized(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// undone reports whether a purchase never came to be, or was given back.
func undone(r capacity.Reservation) bool {
	switch r.State {
	case capacity.StatePaymentFailed, capacity.StateUnsupported, capacity.StateFailed, capacity.StateCancelled:
		return true
	}
	return false
}

// purchaseOfTags reads a purchase of another machine from the tags of a reservation. It has no id,
// since it is not ours to record; and the offering has neither times, which an extension may have
// moved, nor a number of UltraServers.
func purchaseOfTags(kind IntentKind, r capacity.Reservation) Intent {
	i := Intent{Kind: kind, Phase: Done, At: r.Created, Region: r.Region, Reservation: r.ID, Platform: r.Platform}
	i.Offering = capacity.Offering{ID: r.Tags[capacity.TagOffering], Region: r.Region}
	if !r.UltraServer {
		i.Offering.InstanceType, i.Offering.Count = r.InstanceType, r.Size()
	}
	_ = i.Fee.UnmarshalText([]byte(r.Tags[capacity.TagFee])) // a tag that somebody has changed has no fee
	return i
}
