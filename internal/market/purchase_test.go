package market

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

func TestQuestionOfAnOrder(t *testing.T) {
	for _, c := range []struct {
		order PurchaseOrder
		asks  bool
	}{
		{PurchaseOrder{InstanceType: "t", Count: 1, Duration: 1}, true},
		{PurchaseOrder{Count: 1, Duration: 1}, false},
		{PurchaseOrder{InstanceType: "t", Duration: 1}, false},
		{PurchaseOrder{InstanceType: "t", Count: 1}, false},
		{PurchaseOrder{InstanceType: "t", Count: 1, Duration: -1}, false},
	} {
		if q := c.order.question(); (q != ec2.OfferingQuery{}) != c.asks || c.asks && (q.InstanceType != "t" || q.Count != 1 || q.Duration != 1) {
			t.Errorf("%+v: %+v", c.order, q)
		}
	}
}

// A purchase from its order to its end, and what a second order of the same makes of it.
func TestPurchase(t *testing.T) {
	w := newWorld(t, 0, nil)
	b := w.buyer()
	shown := w.offering("USD")
	terms := Terms{Fee: shown.Fee}
	var preview PurchasePreview
	var bought PurchaseResult
	order := w.order(shown.ID, terms, &bought)
	order.Show = func(p PurchasePreview) { preview = p }

	// Nobody knows what to ask EC2 for.
	unknown := order
	unknown.Count = 0
	if err := b.Purchase(t.Context(), unknown); err == nil || !strings.Contains(err.Error(), "offering") || len(w.sim.Ledger()) != 0 {
		t.Errorf("an order that says too little: %v", err)
	}

	try := *b
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil || !bought.DryRun || bought.Intent.Platform != linux || len(w.sim.Ledger()) != 0 {
		t.Errorf("a dry run: %v, %+v", err, bought)
	}
	if err := b.Purchase(t.Context(), order); err != nil || !bought.BoughtNow || bought.DryRun || bought.Intent.Phase != Bought || bought.Intent.Platform != linux || bought.Intent.OrderedAs != "" {
		t.Fatalf("%v, %+v", err, bought)
	}
	if preview.Offering.ID != shown.ID || preview.Was.ID != "" || bought.Reservation.State != capacity.StateScheduled {
		t.Errorf("%+v; %+v", preview, bought)
	}
	first := bought.Reservation.ID
	if r, err := w.aws.Reservation(t.Context(), first); err != nil || r.Tags[capacity.TagPurchase] != bought.Intent.ID || r.Tags[capacity.TagOffering] != shown.ID || r.Tags[capacity.TagCluster] != "" {
		t.Errorf("%v, tags %v", err, r.Tags)
	}

	// Once more is taken for the same wish, but with Again.
	if err := b.Purchase(t.Context(), order); err != nil || bought.BoughtNow || bought.Reservation.ID != first || len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, bought)
	}
	if !strings.Contains(w.said(), "add --again to buy one more") {
		t.Errorf("said: %s", w.said())
	}
	other := order
	other.Count = 2
	if err := b.Purchase(t.Context(), other); err == nil || len(w.sim.Ledger()) != 1 {
		t.Errorf("another count: %v", err)
	}
	again := order
	again.Again, again.Platform = true, "Red Hat Enterprise Linux"
	c := *b
	c.Cluster = "ml"
	if err := c.Purchase(t.Context(), again); err != nil || !bought.BoughtNow || bought.Reservation.ID == first || len(w.sim.Ledger()) != 2 || bought.Intent.Platform != again.Platform {
		t.Fatalf("%v, %+v", err, bought)
	}
	if r, err := w.aws.Reservation(t.Context(), bought.Reservation.ID); err != nil || r.Tags[capacity.TagCluster] != "ml" {
		t.Errorf("%v, tags %v", err, r.Tags)
	}
}

// A run that is cut off after the purchase is taken up, whatever the order says of Again.
func TestCutOffPurchaseIsTakenUp(t *testing.T) {
	w := newWorld(t, 0, nil)
	b := w.buyer()
	shown := w.offering("USD")
	var bought PurchaseResult
	order := w.order(shown.ID, Terms{Fee: shown.Fee}, &bought)
	order.Tell = func(PurchaseResult) error { return errDeclined } // nobody hears of it
	if err := b.Purchase(t.Context(), order); err == nil {
		t.Fatal("it was not cut off")
	}
	order = w.order(shown.ID, Terms{Fee: shown.Fee}, &bought)
	order.Again = true
	if err := b.Purchase(t.Context(), order); err != nil || bought.BoughtNow || len(w.sim.Ledger()) != 1 || bought.Reservation.State != capacity.StateScheduled {
		t.Errorf("%v, %+v", err, bought)
	}
	if !strings.Contains(w.said(), "and was cut off. Nothing is bought now.") {
		t.Errorf("said: %s", w.said())
	}
	if err := b.Purchase(t.Context(), order); err != nil || !bought.BoughtNow || len(w.sim.Ledger()) != 2 {
		t.Errorf("now it is one more: %v, %+v", err, bought)
	}
}

// A payment that fails leaves no block: it is an error, and counts as not bought.
func TestPaymentThatFails(t *testing.T) {
	w := newWorld(t, 600, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(20 * time.Minute) })
	w.sim.FailPayments(true)
	b := w.buyer()
	shown := w.offering("USD")
	var bought PurchaseResult
	order := w.order(shown.ID, Terms{Fee: shown.Fee}, &bought)
	err := b.Purchase(t.Context(), order)
	if err == nil || !strings.Contains(err.Error(), "the payment failed") || bought.Intent.ID != "" {
		t.Fatalf("%v, %+v", err, bought)
	}
	all, err := b.intents().All()
	if err != nil || len(all) != 1 || all[0].Phase != Failed || all[0].Code != string(capacity.StatePaymentFailed) {
		t.Errorf("%v, %+v", err, all)
	}
	w.sim.FailPayments(false)
	if err := b.Purchase(t.Context(), order); err != nil || !bought.BoughtNow {
		t.Errorf("after a failed payment: %v, %+v", err, bought)
	}
}
