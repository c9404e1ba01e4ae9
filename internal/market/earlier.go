package market

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// findEarlier returns the purchases of an offering, or of the same block as known under another id, and those that
// their payment or EC2 has undone, with the reservation: they may be made again. An offering can be bought under two
// ids, and by other machines, so both the intents and the tags of EC2's reservations count.
func findEarlier(
	intents []Intent, tagged []capacity.Reservation, offering string, known capacity.Offering,
) (bought []Intent, undone []Result) {
	recorded := map[string]bool{}
	for _, i := range intents {
		same := i.Offering.ID == offering || i.orderedID() == offering || sameBlock(i.Offering, known)
		if i.Kind != BuyBlock || !same {
			continue
		}

		recorded[i.ID] = true

		// EC2's answer takes precedence over the file.
		if r, shown := i.findIn(tagged); shown && (i.Phase == Sending || i.Phase == Failed) {
			i.Phase = Bought
			i.Reservation = r.ID
		}

		at := slices.IndexFunc(tagged, func(r capacity.Reservation) bool { return r.ID == i.Reservation })
		gone := at >= 0 && isUndone(tagged[at])
		switch {
		case i.Phase == Done && gone:
			undone = append(undone, Result{Intent: i, Reservation: tagged[at]})
		case i.Phase == Done, i.Phase == Bought:
			bought = append(bought, i)
		}
	}

	// What no record of ours explains was bought by another machine.
	for _, r := range tagged {
		if !recorded[r.Tags[capacity.TagPurchase]] && !isUndone(r) {
			bought = append(bought, purchaseOfTags(r))
		}
	}

	return bought, undone
}

// pickEarlier returns the newest of some purchases, unless a run was cut off after one: its customer has not heard of
// it yet.
func pickEarlier(bought []Intent) Intent {
	slices.SortFunc(bought, func(x, y Intent) int { return y.At.Compare(x.At) })

	if cutOff := slices.IndexFunc(bought, func(i Intent) bool { return i.Phase == Bought }); cutOff >= 0 {
		return bought[cutOff]
	}

	return bought[0]
}

// findIn finds the purchase of an intent among reservations: one of its kind with its tag.
func (i Intent) findIn(tagged []capacity.Reservation) (capacity.Reservation, bool) {
	at := slices.IndexFunc(tagged, func(r capacity.Reservation) bool {
		return r.Tags[capacity.TagPurchase] == i.ID && r.Kind == capacity.CapacityBlock && !isUndone(r)
	})
	if at < 0 {
		return capacity.Reservation{}, false
	}

	return tagged[at], true
}

// isUndone reports whether a purchase never came to be, or was given back.
func isUndone(r capacity.Reservation) bool {
	switch r.State {
	case capacity.StatePaymentFailed, capacity.StateUnsupported, capacity.StateFailed, capacity.StateCancelled:
		return true
	}

	return false
}

// purchaseOfTags reads a purchase of another machine from the tags of a reservation. It has no id, since it is not ours
// to record; and the offering has neither times, which an extension may have moved, nor a number of UltraServers.
func purchaseOfTags(r capacity.Reservation) Intent {
	i := Intent{Kind: BuyBlock, Phase: Done, At: r.Created, Region: r.Region, Reservation: r.ID, Platform: r.Platform}
	i.Offering = capacity.Offering{ID: r.Tags[capacity.TagOffering], Region: r.Region}
	if !r.UltraServer {
		i.Offering.InstanceType, i.Offering.Count = r.InstanceType, r.Size()
	}

	_ = i.Fee.UnmarshalText([]byte(r.Tags[capacity.TagFee])) // a tag that somebody has changed has no fee

	return i
}

// extension returns the newest extension of a history that the intent can have made.
func (i Intent) extension(history []capacity.Extension) (newest capacity.Extension, found bool) {
	for _, e := range history {
		if e.OfferingID == i.Offering.ID && e.From.Equal(i.OldEnd) && !e.Purchased.Before(i.At.Add(-clockSlack)) &&
			!e.Purchased.Before(newest.Purchased) {
			newest = e
			found = true
		}
	}

	return newest, found
}

// clockSlack is by how much EC2's time of a purchase may be before our time of the
// decision, which comes from a Date header of whole seconds.
const clockSlack = 30 * time.Second

// recentTime must pass after an extension before the same length counts as another request: an extension has no name by
// which the next run of a killed script could ask for it again. The shortest one is a day long.
const recentTime = 24 * time.Hour

// recentExtension returns a recent extension by the same length, bought by anybody, unless its payment failed.
func (p Preview) recentExtension(length time.Duration) (Intent, bool) {
	r := p.Extended
	for _, e := range slices.Backward(p.History) {
		if e.To.Sub(e.From) == length && e.State != capacity.ExtensionFailed && p.Now.Sub(e.Purchased) < recentTime {
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
