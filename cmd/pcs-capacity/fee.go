package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// feeFlags are how a person or a script accepts a fee.
type feeFlags struct {
	ConfirmFee string `help:"The fee in USD that you accept. Refused when EC2 now asks for another." placeholder:"USD"`
	MaxPrice   string `help:"Refuse a higher fee. It does not accept a lower one." placeholder:"USD"`
}

// check finds mistakes in the flags before EC2 is asked anything.
func (f feeFlags) check() error {
	if f.ConfirmFee != "" {
		if _, err := capacity.ParseMoney(f.ConfirmFee, capacity.USD); err != nil {
			return usage("--confirm-fee: %w", err)
		}
	}
	_, err := maxPrice(f.MaxPrice)
	return err
}

// accept makes sure that the fee is not too high and that a person accepted this very
// fee; --yes is not enough. In a dry run nobody has to.
func (f feeFlags) accept(ctx context.Context, t *terminal.Terminal, o capacity.Offering, dryRun bool) error {
	most, err := maxPrice(f.MaxPrice)
	if err != nil {
		return err
	}
	if most != nil {
		over, err := o.Fee.Compare(*most)
		if err != nil {
			return fmt.Errorf("offering %s: its fee is %s, which cannot be compared with the %s of --max-price; nothing was bought", o.ID, o.Fee, most)
		}
		if over > 0 {
			return fmt.Errorf("offering %s: its fee is %s, more than the %s of --max-price; nothing was bought", o.ID, o.Fee, most)
		}
	}
	switch {
	case f.ConfirmFee != "":
		return f.compare(o)
	case dryRun:
		return nil
	case !t.CanAsk:
		return usage("offering %s: nobody has accepted the fee; add --confirm-fee %s", o.ID, o.Fee.Amount())
	}
	typed := make(chan error, 1)
	go func() {
		typed <- t.Type(fmt.Sprintf("This cannot be undone. Type the fee (%s) to buy", o.Fee.Amount()), o.Fee.Amount())
	}()
	select {
	case err := <-typed:
		return err
	case <-ctx.Done():
		return terminal.ErrDeclined
	}
}

func (f feeFlags) compare(o capacity.Offering) error {
	accepted, err := capacity.ParseMoney(f.ConfirmFee, capacity.USD)
	if err != nil {
		return usage("--confirm-fee: %w", err)
	}
	if o.Fee != accepted {
		return fmt.Errorf("offering %s: its fee is %s, not the %s of --confirm-fee; nothing was bought", o.ID, o.Fee, accepted)
	}
	return nil
}

// compareFees orders amounts of one currency, and else currencies.
func compareFees(a, b capacity.Money) int {
	if c, err := a.Compare(b); err == nil {
		return c
	}
	return strings.Compare(a.Currency(), b.Currency())
}
