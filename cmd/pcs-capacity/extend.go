package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// ExtendCmd extends a block.
type ExtendCmd struct {
	Reservation string `arg:"" help:"Block to extend, cr-…."`
	Duration    span   `required:"" short:"d" help:"By how much, such as 7d. EC2 sells 1 to 14 days, then whole weeks; it is rounded up."`

	feeFlags `embed:""`
	Again    bool `help:"Extend by the same length once more, though that was bought less than a day ago."`
	DryRun   bool `help:"Show what would be bought, ask EC2 whether the permissions are there, and buy nothing."`
	Wait     bool `help:"Follow the payment until the end has moved." default:"true" negatable:""`
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

// What EC2 sells: EC2 User Guide, "Extend Capacity Blocks".
const (
	earliestExtension = 56 * 24 * time.Hour
	latestExtension   = time.Hour
	longestBlock      = 182 * 24 * time.Hour
)

// sameWish is how long after an extension the same length counts as the same wish. An
// extension has no name by which a script whose run was cut off could ask for that one
// again; and the shortest one lasts a day.
const sameWish = 24 * time.Hour

func (c *ExtendCmd) check() error {
	if !reservationID.MatchString(c.Reservation) {
		return usage("%q is not the id of a reservation (cr-…); `pcs-capacity list --blocks` shows those that there are", c.Reservation)
	}
	return c.feeFlags.check()
}

// Run finds the extension, makes sure of the fee, and buys. What was bought before is
// taken up instead.
func (c *ExtendCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if err := c.check(); err != nil {
		return err
	}
	length, err := roundedLength(t, time.Duration(c.Duration))
	if err != nil {
		return err
	}
	b, err := newBuyer(ctx, g, t, cfg, aws, "", c.DryRun)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.settleOpen(ctx); err != nil {
		return err
	}
	if earlier, found, err := b.cutOff(c.Reservation); found || err != nil {
		if err != nil {
			return err
		}
		return c.takeUp(ctx, b, earlier, length)
	}
	r, err := aws.Reservation(ctx, c.Reservation)
	if err != nil {
		return fmt.Errorf("%w; check the id and the region", err)
	}
	history, err := aws.Extensions(ctx, r.ID)
	if err != nil {
		return err
	}
	if earlier, found := b.sameExtension(r, history, length); found && !c.Again {
		return c.takeUp(ctx, b, earlier, length)
	}
	if err := b.extendable(r, history, length); err != nil {
		return err
	}
	offering, err := findExtension(ctx, aws, r, length)
	if err != nil {
		return err
	}
	showExtension(b, r, history, offering)
	if err := c.accept(ctx, t, offering, c.DryRun); err != nil {
		return err
	}
	intent := b.newIntent(state.Extension)
	intent.Reservation, intent.Offering, intent.Fee = r.ID, offering, offering.Fee
	intent.Asked, intent.OldEnd, intent.NewEnd = capacity.Duration{Duration: length}, r.End, offering.End
	if c.DryRun {
		return c.tryOnly(ctx, b, intent, r)
	}
	intent, err = b.send(ctx, intent, func(ctx context.Context) (string, error) {
		_, err := aws.PurchaseExtension(ctx, offering.ID, r.ID)
		return r.ID, err
	})
	if err != nil {
		return err
	}
	return c.finish(ctx, b, intent, r, true)
}

// cutOff is the extension of a block that an earlier run bought without coming to its
// end. Nobody may know of it, so asking once more is not a wish for another one.
func (b *buyer) cutOff(reservation string) (state.Intent, bool, error) {
	intents, err := b.dir.Intents()
	i := slices.IndexFunc(intents, func(i state.Intent) bool {
		return i.Kind == state.Extension && i.Reservation == reservation && i.Phase == state.Bought
	})
	if err != nil || i < 0 {
		return state.Intent{}, false, err
	}
	return intents[i], true, nil
}

// sameExtension is an extension by the same length that was bought a short while ago,
// by anybody, and not left unpaid.
func (b *buyer) sameExtension(r capacity.Reservation, history []capacity.Extension, length time.Duration) (state.Intent, bool) {
	for _, e := range slices.Backward(history) {
		if e.To.Sub(e.From) == length && e.State != capacity.ExtensionFailed && b.aws.Now().Sub(e.Purchased) < sameWish {
			i := state.Intent{Kind: state.Extension, Phase: state.Done, At: e.Purchased, Region: r.Region, Fee: e.Fee,
				Reservation: r.ID, Asked: capacity.Duration{Duration: length}, OldEnd: e.From, NewEnd: e.To}
			i.Offering.ID = e.OfferingID
			return i, true
		}
	}
	return state.Intent{}, false
}

// takeUp goes on where an earlier run, or another machine, stopped. It buys nothing.
func (c *ExtendCmd) takeUp(ctx context.Context, b *buyer, i state.Intent, length time.Duration) error {
	what := fmt.Sprintf("an extension of %s by %s, to %s, at %s", i.Reservation, capacity.FormatDuration(i.Asked.Duration), b.t.Time(i.NewEnd), b.t.Time(i.At))
	if i.Phase == state.Bought {
		b.t.Say("An earlier run bought %s, and was cut off. Nothing is bought now.", what)
	} else {
		b.t.Say("Somebody bought %s. Nothing is bought now; add --again to extend it further.", what)
	}
	if b.dry {
		return nil
	}
	r, err := b.aws.In(i.Region).Reservation(ctx, i.Reservation)
	if err != nil {
		return err
	}
	if err := c.finish(ctx, b, i, r, false); err != nil {
		return err
	}
	if length != i.Asked.Duration {
		return fmt.Errorf("%s was extended by %s, not by the %s asked for now; run this again to extend it further", i.Reservation, capacity.FormatDuration(i.Asked.Duration), capacity.FormatDuration(length))
	}
	return nil
}

// extendable says why EC2 will not extend a block by a length; nil if nothing is known
// against it.
func (b *buyer) extendable(r capacity.Reservation, history []capacity.Extension, length time.Duration) error {
	left := r.End.Sub(b.aws.Now())
	switch {
	case r.Kind != capacity.CapacityBlock:
		return fmt.Errorf("%s is an On-Demand Capacity Reservation; only Capacity Blocks are extended", r.ID)
	case r.State != capacity.StateActive && r.State != capacity.StateScheduled:
		return fmt.Errorf("%s is %s; EC2 extends blocks that are scheduled or active", r.ID, r.State)
	case b.account != "" && r.OwnerID != "" && r.OwnerID != b.account:
		return fmt.Errorf("%s belongs to account %s and is shared with yours; only its owner can extend it", r.ID, r.OwnerID)
	case left < latestExtension:
		return fmt.Errorf("%s ends at %s; EC2 sells extensions until one hour before the end, so look for another block with `pcs-capacity offerings`", r.ID, b.t.Time(r.End))
	case left > earliestExtension:
		return fmt.Errorf("%s ends at %s; EC2 sells extensions in the last 56 days, from %s on", r.ID, b.t.Time(r.End), b.t.Time(r.End.Add(-earliestExtension)))
	case r.End.Add(length).Sub(r.Start) > longestBlock:
		return fmt.Errorf("%s would have %s with %s more; EC2 sells at most 182 days in all", r.ID, capacity.FormatDuration(r.End.Add(length).Sub(r.Start)), capacity.FormatDuration(length))
	}
	for _, e := range history {
		if e.State == capacity.ExtensionPending {
			return fmt.Errorf("an extension of %s to %s was bought at %s and is %s; EC2 sells no other until it is paid", r.ID, b.t.Time(e.To), b.t.Time(e.Purchased), e.State)
		}
	}
	return nil
}

// findExtension is the offering whose length is nearest to the one asked for, and of
// those the cheapest.
func findExtension(ctx context.Context, aws *ec2.Client, r capacity.Reservation, length time.Duration) (capacity.Offering, error) {
	found, err := aws.ExtensionOfferings(ctx, r.ID, length)
	if err != nil {
		return capacity.Offering{}, err
	}
	if len(found) == 0 {
		return capacity.Offering{}, fmt.Errorf("EC2 has no extension of %s by %s for sale; try another --duration, or look for a block of its own with `pcs-capacity offerings`", r.ID, capacity.FormatDuration(length))
	}
	return slices.MinFunc(found, func(x, y capacity.Offering) int {
		dx, dy := (x.Duration() - length).Abs(), (y.Duration() - length).Abs()
		if dx != dy {
			return int(dx - dy)
		}
		return compareFees(x.Fee, y.Fee)
	}), nil
}

// tryOnly asks EC2 whether it would take the extension.
func (c *ExtendCmd) tryOnly(ctx context.Context, b *buyer, i state.Intent, r capacity.Reservation) error {
	if err := b.aws.TryPurchaseExtension(ctx, i.Offering.ID, i.Reservation); err != nil {
		i.Code = ec2.Code(err)
		return fmt.Errorf("%w; nothing was bought%s", err, adviceFor(i))
	}
	if b.t.Format != terminal.Table {
		if err := b.t.Rows([]extensionRow{newExtensionRow(b.cfg, i, capacity.Extension{State: string(dryRunState)}, r, false)}); err != nil {
			return err
		}
	}
	b.t.Say("Dry run: EC2 would take this extension; nothing was bought.")
	return nil
}

// finish follows the payment, and records that this extension has come to its end.
func (c *ExtendCmd) finish(ctx context.Context, b *buyer, i state.Intent, r capacity.Reservation, fresh bool) error {
	b.close() // a payment takes up to 12 hours, in which others may buy
	aws := b.aws.In(i.Region)
	e := capacity.Extension{State: capacity.ExtensionPending, Purchased: i.At}
	var err error
	if c.Wait {
		e, r, err = followExtension(ctx, b.t, aws, i)
		if errors.Is(err, errNotPaid) {
			b.end(i, state.Failed, e.State, err)
		}
	} else if seen, found, lookErr := extensionOf(ctx, aws, i); lookErr == nil && found {
		e = seen
	}
	if err != nil {
		return err
	}
	row := newExtensionRow(b.cfg, i, e, r, fresh)
	if err := b.t.Rows([]extensionRow{row}); err != nil {
		return err
	}
	if e.State == capacity.ExtensionPaid {
		b.t.Say("The end has moved. `pcs-capacity sync` moves the fence to %s; a sync --watch that runs does it by itself.", b.t.Time(row.NewFence))
	} else {
		b.t.Say("The end moves when the extension is paid; `pcs-capacity sync` then moves the fence to %s.", b.t.Time(row.NewFence))
	}
	b.end(i, state.Done, "", nil)
	return nil
}
