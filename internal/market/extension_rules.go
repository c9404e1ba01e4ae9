package market

import (
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Extensions that EC2 sells: EC2 User Guide, "Extend Capacity Blocks".
const (
	earliestExtension = 56 * 24 * time.Hour
	latestExtension   = time.Hour
	longestBlock      = 182 * 24 * time.Hour
)

// recentTime is how long after an extension the same length counts as the same request: an extension
// has no name by which the next run of a killed script could ask for it again. The shortest one is
// a day long.
const recentTime = 24 * time.Hour

// extendable returns why EC2 will not extend a block by a length; nil if no obstacle is known.
func (d *deal) extendable(
	r capacity.Reservation,
	history []capacity.Extension,
	length time.Duration,
	now time.Time,
) error {
	at := d.Customer.Time
	left := r.End.Sub(now)
	switch {
	case !r.Kind.Bought():
		return fmt.Errorf("%s is an On-Demand Capacity Reservation; only Capacity Blocks are extended", r.ID)
	case r.State != capacity.StateActive && r.State != capacity.StateScheduled:
		return fmt.Errorf("%s is %s; EC2 extends blocks that are scheduled or active", r.ID, r.State)
	case d.account != "" && r.OwnerID != "" && r.OwnerID != d.account:
		return fmt.Errorf("%s belongs to account %s and is shared with yours; only its owner can extend it", r.ID,
			r.OwnerID)
	case left < latestExtension:
		return fmt.Errorf(
			"%s ends at %s; EC2 sells extensions until one hour before the end, so look for another block with `pcs-capacity offerings`",
			r.ID, at(r.End))
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
				"an extension of %s to %s was bought at %s and is %s; EC2 sells no other until it is paid", r.ID,
				at(e.To), at(e.Purchased), e.State)
		}
	}
	return nil
}

// cutOffExtension returns the extension of a block whose run was killed after the purchase. Nobody
// may know of it, so a repeated request means this one.
func (d *deal) cutOffExtension(reservation string) (Intent, bool, error) {
	intents, err := d.intents().All()
	i := slices.IndexFunc(intents, func(i Intent) bool {
		return i.Kind == ExtendBlock && i.Reservation == reservation && i.Phase == Bought
	})
	if err != nil || i < 0 {
		return Intent{}, false, err
	}
	return intents[i], true, nil
}

// recentExtension returns a recent extension by the same length, bought by anybody, unless its
// payment failed.
func recentExtension(r capacity.Reservation, history []capacity.Extension, length time.Duration,
	now time.Time) (Intent, bool) {
	for _, e := range slices.Backward(history) {
		if e.To.Sub(e.From) == length && e.State != capacity.ExtensionFailed && now.Sub(e.Purchased) < recentTime {
			i := Intent{Kind: ExtendBlock, Phase: Done, At: e.Purchased, Region: r.Region, Fee: e.Fee,
				Reservation: r.ID, Asked: capacity.Duration{Duration: length}, OldEnd: e.From, NewEnd: e.To}
			i.Offering.ID = e.OfferingID
			return i, true
		}
	}
	return Intent{}, false
}
