package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// feeRow is the result of recording a fee.
type feeRow struct {
	ID         string    `json:"id" col:"RESERVATION"`
	Fee        string    `json:"fee" col:"FEE"`
	Currency   string    `json:"currency" col:"CURRENCY"`
	RecordedAt time.Time `json:"recorded_at" col:"RECORDED"`
}

// recordFee writes down what a block that was bought elsewhere has cost. EC2 tells it
// at the purchase only.
func (c *PurchaseCmd) recordFee(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	fee, err := capacity.ParseMoney(c.Fee, capacity.USD)
	if err != nil {
		return usage("--fee: %w", err)
	}
	dir := state.Dir(cfg.StateDir)
	unlock, err := dir.LockIntents()
	if err != nil {
		return fmt.Errorf("%w; the fee is recorded in state_dir (%s)", err, dir)
	}
	defer unlock()
	intents, err := dir.Intents()
	if err != nil {
		return err
	}
	for _, i := range intents {
		if i.Reservation != c.Offering {
			continue
		}
		switch {
		case i.Kind == state.Purchase && (i.Phase == state.Bought || i.Phase == state.Done):
			return fmt.Errorf("%s was bought here at %s, for %s, which is recorded already; nothing was changed", c.Offering, t.Time(i.At), i.Fee)
		case i.Kind == state.Recorded:
			t.Say("Before, %s was recorded at %s; it is replaced.", i.Fee, t.Time(i.At))
		}
	}
	r, err := aws.Reservation(ctx, c.Offering)
	if err != nil {
		return fmt.Errorf("%w; nothing was recorded, check the id and the region", err)
	}
	if r.Kind != capacity.CapacityBlock {
		return fmt.Errorf("%s is an On-Demand Capacity Reservation, which is billed by the hour and has no fee; nothing was recorded", r.ID)
	}
	i := state.Intent{ID: "fee-" + r.ID, Kind: state.Recorded, Phase: state.Done, At: aws.Now().UTC().Truncate(time.Second),
		Region: aws.Region(), Fee: fee, Reservation: r.ID}
	if err := dir.WriteIntent(i); err != nil {
		return err
	}
	return t.Rows([]feeRow{{r.ID, i.Fee.Amount(), i.Fee.Currency(), i.At}})
}
