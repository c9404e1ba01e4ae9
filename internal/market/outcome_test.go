package market

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// What EC2 refuses is not bought, unless EC2 shows that it is.
func TestR3_RefusedPurchase(t *testing.T) {
	for effect, bought := range map[awssim.Effect]bool{awssim.FailBefore: false, awssim.FailAfter: true} {
		w := newWorld(t, nil)
		b := w.buyer()
		shown := w.offering("USD")
		w.fault(awssim.Fault{Operation: "PurchaseCapacityBlock", Effect: effect, Code: "UnauthorizedOperation", Status: 403})
		var block PurchaseResult
		err := b.Purchase(t.Context(), w.order(shown.ID, Terms{Fee: shown.Fee}, &block))
		all, intentsErr := b.intents().All()
		if intentsErr != nil || len(all) != 1 || len(w.sim.Ledger()) == 1 != bought {
			t.Fatalf("%v, %+v, %+v", intentsErr, all, w.sim.Ledger())
		}
		if bought {
			if err != nil || !block.BoughtNow || block.Reservation.ID == "" || all[0].Phase != Done || !strings.Contains(w.said(), "but shows that it was bought") {
				t.Errorf("refused and bought: %v, %+v, %+v", err, block, all)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "nothing was bought") || all[0].Phase != Failed || all[0].Code != "UnauthorizedOperation" || !strings.Contains(all[0].Message, "PurchaseCapacityBlock") || all[0].Reservation != "" {
			t.Errorf("refused: %v, %+v", err, all)
		}
		try := *b
		try.DryRun = true
		if err := try.Purchase(t.Context(), w.order(shown.ID, Terms{Fee: shown.Fee}, &block)); err == nil || !strings.Contains(err.Error(), "nothing was bought") {
			t.Errorf("a dry run: %v", err)
		}
	}
}

// As long as EC2 cannot be asked nothing is known, and nothing is bought.
func TestR3_UnknownStaysUnknown(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	shown := w.offering("USD")
	var block PurchaseResult
	order := w.order(shown.ID, Terms{Fee: shown.Fee}, &block)
	cutOff := Intent{ID: "buy-0000000000000001", Kind: BuyBlock, Phase: Sending, At: w.aws.Now(), Region: "us-east-2", Offering: shown, Fee: shown.Fee}
	unlock, err := b.intents().Lock() // makes the folder
	if err == nil {
		err = b.intents().Write(cutOff)
		unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, err error, says string) {
		t.Helper()
		all, intentsErr := b.intents().All()
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "it is not known whether it was made") || intentsErr != nil || len(all) != 1 || all[0].Phase != Sending || len(w.sim.Ledger()) != 0 {
			t.Errorf("%s: %v, %+v, %v", name, err, all, intentsErr)
		}
	}
	w.fault(awssim.Fault{Operation: "DescribeCapacityReservations", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403})
	check("EC2 does not tell", b.Purchase(t.Context(), order), "UnauthorizedOperation")
	if waited := w.sim.Clock().Now().Sub(opening); waited < b.Timeout+b.Settle || !strings.Contains(w.said(), "asking again: ") {
		t.Errorf("given up after %s; said: %s", waited, w.said())
	}
	w.sim.ClearFaults()
	stopped, cancel := context.WithCancel(t.Context())
	w.sim.Clock().Set(opening) // it would not show yet
	b.pause = func(context.Context, time.Duration) bool { cancel(); return false }
	check("interrupted", b.Purchase(stopped, order), "context canceled")

	// A dry run and another account leave it alone.
	try := *w.buyer()
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil || !strings.Contains(w.said(), "is unknown; a real run finds out first") {
		t.Errorf("a dry run: %v; said: %s", err, w.said())
	}
	cutOff.Account = "444455556666"
	if err := b.intents().Write(cutOff); err != nil {
		t.Fatal(err)
	}
	if err := w.buyer().Purchase(t.Context(), order); err != nil || !block.BoughtNow || !strings.Contains(w.said(), "belongs to account 444455556666") {
		t.Errorf("of another account: %v, %+v; said: %s", err, block, w.said())
	}
	all, err := b.intents().All()
	if err != nil || len(all) != 2 || !slices.ContainsFunc(all, func(i Intent) bool { return i.ID == cutOff.ID && i.Phase == Sending }) {
		t.Errorf("%+v, %v", all, err)
	}
}

// An interrupt before the call buys nothing, and leaves nothing to settle.
func TestInterruptedBeforeTheCall(t *testing.T) {
	w := newWorld(t, nil)
	d, err := w.buyer().open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.send(ctx, d.newIntent(BuyBlock), nil); err == nil || !strings.Contains(err.Error(), "nothing was bought") {
		t.Error(err)
	}
	if all, err := d.intents().All(); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A payment is followed through what EC2 does not show yet and does not tell, until somebody
// stops it; the next run goes on.
func TestPaymentIsFollowed(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) {
		showLate(s)
		s.PaymentDelay = awssim.Duration(20 * time.Minute)
	})
	w.patience = 5 * time.Minute
	shown := w.offering("USD")
	var block PurchaseResult
	order := w.order(shown.ID, Terms{Fee: shown.Fee}, &block)
	err := w.buyer().Purchase(t.Context(), order)
	if err == nil || !strings.Contains(err.Error(), "is bought and payment-pending, and its payment is no longer followed") {
		t.Fatal(err)
	}
	if !strings.Contains(w.said(), " does not show yet: ") || !strings.Contains(w.said(), " is payment-pending") {
		t.Errorf("said: %s", w.said())
	}
	w.patience = day
	w.fault(awssim.Fault{Operation: "DescribeCapacityReservations", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403, Skip: 3, Count: 1})
	if err := w.buyer().Purchase(t.Context(), order); err != nil || block.BoughtNow || block.Reservation.State != capacity.StateScheduled || len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, block)
	}
	if !strings.Contains(w.said(), " was payment-pending; asking again: ") {
		t.Errorf("said: %s", w.said())
	}
	if paid := w.sim.Clock().Now().Sub(opening); paid < 20*time.Minute || paid > 22*time.Minute {
		t.Errorf("the payment is seen after %s", paid)
	}
}

// A block that EC2 does not show yet is waited for, too.
func TestPaymentOfWhatDoesNotShow(t *testing.T) {
	w := newWorld(t, showLate)
	w.patience = 10 * time.Second
	d := &deal{Buyer: w.buyer(), aws: w.aws}
	shown := w.offering("USD")
	bought, err := w.aws.Purchase(t.Context(), shown.ID, linux, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.followPayment(t.Context(), capacity.Reservation{ID: bought.ID}); err == nil || !strings.Contains(err.Error(), "is bought and not shown by EC2 yet, and") {
		t.Error(err)
	}
	w.patience = day
	if r, err := d.followPayment(t.Context(), capacity.Reservation{ID: bought.ID}); err != nil || r.State != capacity.StateScheduled {
		t.Errorf("%v, %+v", err, r)
	}
	if !strings.HasPrefix(w.said(), "waiting for the payment of "+bought.ID) {
		t.Errorf("said: %s", w.said())
	}
	asked := w.sim.Clock().Now()
	if r, err := d.followPayment(t.Context(), capacity.Reservation{ID: bought.ID}); err != nil || r.State != capacity.StateScheduled || !w.sim.Clock().Now().Equal(asked) {
		t.Errorf("what shows is waited for: %v, %+v", err, r)
	}
}

// An extension, too, until somebody stops it.
func TestExtensionIsFollowed(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(20 * time.Minute) })
	w.patience = 5 * time.Minute
	var bought ExtensionResult
	order := w.extension(dollarBlock, Terms{Fee: usd(t, "960")}, &bought)
	w.fault(awssim.Fault{Operation: "DescribeCapacityBlockExtensionHistory", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403, Skip: 1, Count: 1})
	err := w.buyer().Extend(t.Context(), order)
	if err == nil || !strings.Contains(err.Error(), "is bought, and its payment is no longer followed") || !strings.Contains(w.said(), "asking again: ") {
		t.Fatalf("%v; said: %s", err, w.said())
	}
	w.patience = day
	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.BoughtNow || bought.Extension.State != capacity.ExtensionPaid || len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, bought)
	}
}

// What EC2 has under the id of a reservation is told, and any error but that it does not show.
func TestTakeUpAsksEC2(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	shown := w.offering("USD")
	var block PurchaseResult
	order := w.order(shown.ID, Terms{Fee: shown.Fee}, &block)
	if err := b.Purchase(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	w.fault(awssim.Fault{Operation: "DescribeCapacityReservations", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403, Skip: 1})
	if err := b.Purchase(t.Context(), order); ec2.Code(err) != "UnauthorizedOperation" {
		t.Error(err)
	}
	w.sim.ClearFaults()
	block = PurchaseResult{}
	try := *b
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil || block.Reservation.ID == "" || block.DryRun || block.BoughtNow {
		t.Errorf("a dry run: %v, %+v", err, block)
	}
}
