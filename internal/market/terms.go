package market

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Terms are the fees that somebody accepts. Zero values are terms that were not given.
type Terms struct {
	// Fee is the only accepted fee. Without it the customer is asked.
	Fee capacity.Money
	// MaxPrice refuses a higher fee. It accepts none.
	MaxPrice capacity.Money
}

// accept makes sure that the fee of an offering is not too high, and that somebody has
// accepted this very fee. In a dry run nobody has to.
func (t Terms) accept(c Customer, o capacity.Offering, dryRun bool) error {
	if t.MaxPrice != (capacity.Money{}) {
		order, err := o.Fee.Compare(t.MaxPrice)
		if err != nil {
			return fmt.Errorf(
				"offering %s: its fee is %s, which cannot be compared with the %s of --max-price; nothing was bought",
				o.ID, o.Fee, t.MaxPrice)
		}
		if order > 0 {
			return fmt.Errorf("offering %s: its fee is %s, more than the %s of --max-price; nothing was bought", o.ID,
				o.Fee, t.MaxPrice)
		}
	}
	switch {
	case t.Fee != (capacity.Money{}):
		if t.Fee != o.Fee { // the currency too
			return fmt.Errorf("offering %s: its fee is %s, not the %s of --confirm-fee; nothing was bought", o.ID,
				o.Fee, t.Fee)
		}
		return nil
	case dryRun:
		return nil
	}
	return c.ConfirmFee(o)
}
