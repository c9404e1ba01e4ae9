package market

import (
	"cmp"
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

// checkExtendable returns why EC2 will not extend the block by a length; nil if no obstacle is known. at writes a time.
func (p Preview) checkExtendable(length time.Duration, at func(time.Time) string) error {
	r := p.Extended
	left := r.End.Sub(p.Now)
	switch {
	case !r.Kind.IsBlock():
		return fmt.Errorf("%s is an On-Demand Capacity Reservation; only Capacity Blocks are extended", r.ID)
	case r.State != capacity.StateActive && r.State != capacity.StateScheduled:
		return fmt.Errorf("%s is %s; EC2 extends blocks that are scheduled or active", r.ID, r.State)
	case p.Account != "" && r.OwnerID != "" && r.OwnerID != p.Account:
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
		return fmt.Errorf("%s would last %s with %s more; EC2 sells at most 182 days in all", r.ID,
			capacity.FormatDuration(r.End.Add(length).Sub(r.Start)), capacity.FormatDuration(length))
	}

	for _, e := range p.History {
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

// pickExtension returns findExtension's choice among the offerings.
func pickExtension(found []capacity.Offering, length time.Duration) capacity.Offering {
	return slices.MinFunc(found, func(x, y capacity.Offering) int {
		return cmp.Or(cmp.Compare((x.Duration()-length).Abs(), (y.Duration()-length).Abs()), compareFees(x.Fee, y.Fee))
	})
}
