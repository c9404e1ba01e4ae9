package main

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// ExtendCmd extends a block.
type ExtendCmd struct {
	Reservation string `arg:"" predictor:"reservation" help:"Block to extend, cr-…."`
	Duration    span   `required:"" short:"d" help:"By how much, such as 7d. EC2 sells 1 to 14 days, then whole weeks; it is rounded up."`

	feeFlag `embed:""`
	Again   bool `help:"Extend by the same length again, even if that was bought less than a day ago."`
	DryRun  bool `help:"Show what would be bought, ask EC2 whether the permissions are there, and buy nothing."`
	Wait    bool `help:"Follow the payment until the end has moved." default:"true" negatable:""`
}

// Help is shown below the flags.
func (ExtendCmd) Help() string {
	return `An extension begins where the block ends, so that its instances run on. It is paid in advance
and cannot be cancelled. EC2 sells it from 56 days until one hour before the end; a block has
at most 182 days in all. The end moves when it is paid; when the payment fails, the old end
stays. The request is sent once: when its answer is lost, or this is killed, run the same
command again. The same length asked for again within a day buys nothing without --again.

  pcs-capacity extend cr-0123456789abcdef0 --duration 7d --confirm-fee 31464.00`
}

// Run extends.
func (c *ExtendCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if !capacity.IsReservationID(c.Reservation) {
		return usage(
			"%q is not the id of a reservation (cr-…); `pcs-capacity list --blocks` shows those that there are",
			c.Reservation)
	}
	fee, err := dollars("--confirm-fee", c.ConfirmFee)
	if err != nil {
		return err
	}
	length, err := roundedLength(t, time.Duration(c.Duration))
	if err != nil {
		return err
	}
	show := extensionView{t, cfg}
	return newBuyer(t, cfg, aws, c.DryRun).Extend(ctx, market.ExtensionOrder{ReservationID: c.Reservation, Length: length,
		Fee: fee, Again: c.Again, Wait: c.Wait, Show: show.preview, Tell: show.result})
}
