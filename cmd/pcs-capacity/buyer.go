package main

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// customer is the person or the script that buys at a terminal.
type customer struct{ *terminal.Terminal }

var _ market.Customer = customer{}

// Start begins to tell about something that can take long.
func (c customer) Start(what string) market.Progress { return c.Terminal.Start(what) }

// ConfirmFee has the fee typed; --yes is not enough.
func (c customer) ConfirmFee(o capacity.Offering) error {
	fee, remedy := o.Fee.Amount(), "pass --confirm-fee "+o.Fee.Amount()
	if o.Fee.Currency() != capacity.USD {
		fee, remedy = o.Fee.String(), "it is "+o.Fee.String()+", and --confirm-fee takes USD only, so run this at a terminal"
	}
	if !c.CanAsk {
		return usage("offering %s: fee not confirmed; %s", o.ID, remedy)
	}
	return c.Type(fmt.Sprintf("This cannot be undone. Type the fee (%s) to buy", fee), fee)
}

// feeFlag is how a script accepts a fee.
type feeFlag struct {
	ConfirmFee string `help:"The fee in USD that you accept. Refused when EC2 now asks for another." placeholder:"USD"`
}

// dollars reads the value of a flag; the zero value if it is not given.
func dollars(flag, value string) (capacity.Money, error) {
	if value == "" {
		return capacity.Money{}, nil
	}
	m, err := capacity.ParseMoney(value, capacity.USD)
	if err != nil {
		return m, usage("%s: %w", flag, err)
	}
	return m, nil
}

// newBuyer is a buyer with the settings' own limits.
func newBuyer(t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client, dryRun bool) *market.Buyer {
	return &market.Buyer{EC2: aws, Customer: customer{t}, StateDir: state.Dir(cfg.StateDir), Cluster: cfg.Cluster, DryRun: dryRun}
}
