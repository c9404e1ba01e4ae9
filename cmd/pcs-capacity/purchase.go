package main

import (
	"context"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// PurchaseCmd buys a block.
type PurchaseCmd struct {
	Offering string `arg:"" help:"Id of the offering, cb-…, as offerings shows it."`

	feeFlag      `embed:""`
	Platform     string `help:"Platform of the image that will run. Default: Linux/UNIX."`
	InstanceType string `short:"t" help:"Same as for offerings."`
	Count        int    `short:"n" help:"Same as for offerings."`
	Duration     span   `short:"d" help:"Same as for offerings."`
	StartAfter   moment `help:"Earliest start." placeholder:"TIME"`
	EndBy        moment `help:"Latest end." placeholder:"TIME"`
	Zone         string `help:"AZ id of the block. The block there from --start-after to --end-by is bought even if its id has changed." placeholder:"AZ-ID"`
	Again        bool   `help:"Buy another one even if the same offering was bought before."`
	AnyZone      bool   `help:"Buy even if the cluster has no subnet in the block's zone, or if that is unknown."`
	DryRun       bool   `help:"Show what would be bought, ask EC2 whether the permissions are there, and buy nothing."`
	Wait         bool   `help:"Follow the payment until the block is scheduled." default:"true" negatable:""`
}

// Help is shown below the flags.
func (PurchaseCmd) Help() string {
	return `A Capacity Block is paid in advance and cannot be cancelled, moved or refunded. The
request is sent once and never repeated. When its answer is lost, or this is killed, run
the same command again: it finds out first whether the block was bought, and goes on from
there. EC2 bills within 5 minutes to 12 hours; until then the block is payment-pending.
EC2 cannot look up an offering by its id, so the question is asked again: offerings prints
the whole command.

  pcs-capacity purchase cb-0123456789abcdef0 -t p5.48xlarge -n 4 -d 7d --confirm-fee 31464.00`
}

// check finds mistakes in the arguments before EC2 is asked anything.
func (c *PurchaseCmd) check() error {
	switch {
	case capacity.IsReservationID(c.Offering):
		return usage(
			"%s is a reservation, which is bought already; to extend it, use `pcs-capacity extend %s --duration 7d`",
			c.Offering, c.Offering)
	case !capacity.IsOfferingID(c.Offering):
		return usage("%q is not the id of an offering (cb-…); `pcs-capacity offerings` lists what is for sale", c.Offering)
	case c.InstanceType == "" || c.Count < 1 || c.Duration == 0:
		return usage("offering %s: EC2 cannot look it up by its id, so add --instance-type, --count and --duration; `pcs-capacity offerings` prints the whole command", c.Offering)
	}
	return nil
}

// Run buys.
func (c *PurchaseCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if err := c.check(); err != nil {
		return err
	}
	fee, err := dollars("--confirm-fee", c.ConfirmFee)
	if err != nil {
		return err
	}
	subnets := sync.OnceValue(func() market.Subnets { return readSubnets(ctx, cfg, aws) })
	show := purchaseView{t, cfg, c.AnyZone, c.DryRun, subnets}
	query := ec2.OfferingQuery{InstanceType: c.InstanceType, Count: c.Count, Duration: time.Duration(c.Duration),
		StartAfter: c.StartAfter.Time, EndBy: c.EndBy.Time}
	return newBuyer(t, cfg, aws, c.DryRun).Purchase(ctx, market.PurchaseOrder{OfferingID: c.Offering, Query: query, Zone: c.Zone, Platform: c.Platform,
		Fee: fee, Again: c.Again, Wait: c.Wait, Show: show.preview, Tell: show.result})
}
