package market

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A fee is accepted to the cent and in its currency, or not at all; over the wire, with EC2's ledger as the judge.
func TestNothingIsBoughtForAnotherFee(t *testing.T) {
	w := newWorld(t, nil)
	dollars, yuan := w.offering("USD"), w.offering("CNY")
	if dollars.Fee != usd(t, "960") || yuan.Fee != money(t, "480", "CNY") {
		t.Fatalf("fees %s and %s", dollars.Fee, yuan.Fee)
	}

	for name, c := range map[string]struct {
		offering capacity.Offering
		block    string // the extension of this one has the same fee
		fee      capacity.Money
		says     string
	}{
		"a lower fee": {
			dollars,
			dollarBlock,
			usd(t, "959.99"),
			"its fee is 960.00 USD, not the 959.99 USD of --confirm-fee",
		},
		"a higher fee": {
			dollars,
			dollarBlock,
			usd(t, "960.01"),
			"its fee is 960.00 USD, not the 960.01 USD of --confirm-fee",
		},
		"another currency": {
			yuan,
			yuanBlock,
			usd(t, "480"),
			"its fee is 480.00 CNY, not the 480.00 USD of --confirm-fee",
		},
		"nobody has accepted it": {dollars, dollarBlock, capacity.Money{}, "declined"},
	} {
		var block Result

		err := w.buyer().Purchase(t.Context(), w.order(c.offering.ID, c.fee, &block))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: purchase: %v, want %q", name, err, c.says)
		}

		var extension Result

		err = w.buyer().Extend(t.Context(), w.extension(c.block, c.fee, &extension))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: extension: %v, want %q", name, err, c.says)
		}

		if bought := w.sim.Ledger(); len(bought) > 0 {
			t.Fatalf("%s: bought %+v", name, bought)
		}
	}

	if intents, err := (Intents{w.dir}).All(); err != nil || len(intents) > 0 {
		t.Errorf("intents %v, %v", intents, err)
	}
}

// paying accepts a fee, whatever is shown.
type paying struct {
	*customer
	fee capacity.Money
}

func (p paying) Show(Preview) (capacity.Money, error) { return p.fee, nil }

// What a customer accepts counts only if it is the very fee: a customer who says nothing has accepted nothing.
func TestOnlyTheShownFeeIsAccepted(t *testing.T) {
	w := newWorld(t, nil)

	for name, fee := range map[string]capacity.Money{
		"none":             {},
		"less":             usd(t, "959"),
		"another currency": money(t, "960", "CNY"),
	} {
		var bought Result

		b := w.buyer()
		b.Customer = paying{&w.customer, fee}

		err := b.Purchase(t.Context(), w.order(w.offering("USD").ID, capacity.Money{}, &bought))
		if err == nil || !strings.Contains(err.Error(), "nothing was bought") || len(w.sim.Ledger()) != 0 {
			t.Errorf("%s, a block: %v, %+v", name, err, w.sim.Ledger())
		}

		err = b.Extend(t.Context(), w.extension(dollarBlock, capacity.Money{}, &bought))
		if err == nil || !strings.Contains(err.Error(), "nothing was bought") || len(w.sim.Ledger()) != 0 {
			t.Errorf("%s, an extension: %v, %+v", name, err, w.sim.Ledger())
		}
	}
}
