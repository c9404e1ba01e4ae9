package market

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// RecordFee records the fee of a block that was bought elsewhere, in place of an earlier record.
// EC2 shows a fee only at the purchase.
func (b *Buyer) RecordFee(ctx context.Context, reservation string, fee capacity.Money) (Intent, error) {
	unlock, err := b.intents().Lock()
	if err != nil {
		return Intent{}, fmt.Errorf("%w; the fee is recorded in state_dir (%s)", err, b.StateDir)
	}
	defer unlock()
	intents, err := b.intents().All()
	if err != nil {
		return Intent{}, err
	}
	for _, i := range intents {
		if i.Reservation != reservation {
			continue
		}
		switch {
		case i.Kind == BuyBlock && (i.Phase == Bought || i.Phase == Done):
			return Intent{}, fmt.Errorf(
				"%s was bought here at %s, for %s, which is recorded already; nothing was changed", reservation,
				b.Customer.Time(i.At), i.Fee)
		case i.Kind == RecordedFee:
			b.Customer.Say("Before, %s was recorded at %s; it is replaced.", i.Fee, b.Customer.Time(i.At))
		}
	}
	r, err := b.EC2.Reservation(ctx, reservation)
	if err != nil {
		return Intent{}, fmt.Errorf("nothing was recorded: %w", err)
	}
	if !r.Kind.Bought() {
		return Intent{}, fmt.Errorf(
			"%s is an On-Demand Capacity Reservation, which is billed by the hour and has no fee; nothing was recorded",
			r.ID)
	}
	i := Intent{ID: "fee-" + r.ID, Kind: RecordedFee, Phase: Done, At: b.EC2.Now().UTC().Truncate(time.Second),
		Region: b.EC2.Region(), Fee: fee, Reservation: r.ID}
	return i, b.intents().Write(i)
}
