package market

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	w := newWorld(t, nil)
	b := w.buyer()
	shown := w.offering("USD")
	terms := Terms{Fee: shown.Fee}
	var preview PurchasePreview
	var bought PurchaseResult
	order := w.order(shown.ID, terms, &bought)
	order.Show = func(p PurchasePreview) error { preview = p; return nil }

	// An error of who is shown it buys nothing.
	refused := order
	refused.Show = func(PurchasePreview) error { return errDeclined }
	if err := b.Purchase(t.Context(), refused); !errors.Is(err, errDeclined) || len(w.sim.Ledger()) != 0 {
		t.Errorf("it was shown and not wanted: %v", err)
	}
	// Nobody knows what to ask EC2 for.
	unknown := order
	unknown.Count = 0
	if err := b.Purchase(t.Context(), unknown); err == nil || !strings.Contains(err.Error(), "offering") || len(w.sim.Ledger()) != 0 {
		t.Errorf("an order that says too little: %v", err)
	}

	try := *b
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil || !bought.DryRun || bought.Intent.Platform != capacity.LinuxUNIX || len(w.sim.Ledger()) != 0 {
		t.Errorf("a dry run: %v, %+v", err, bought)
	}
	if err := b.Purchase(t.Context(), order); err != nil || !bought.BoughtNow || bought.DryRun || bought.Intent.Phase != Bought || bought.Intent.Platform != capacity.LinuxUNIX || bought.Intent.OrderedAs != "" {
		t.Fatalf("%v, %+v", err, bought)
	}
	if !strings.HasPrefix(bought.Intent.ID, "buy-") || strings.Contains(w.said(), "warning") {
		t.Errorf("id %s; said: %s", bought.Intent.ID, w.said())
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
	w := newWorld(t, nil)
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
	try := *b
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil || bought.Reservation.ID == "" {
		t.Errorf("a dry run: %v, %+v", err, bought)
	}
	if all, err := b.intents().All(); err != nil || len(all) != 1 || all[0].Phase != Bought {
		t.Errorf("a dry run writes: %+v, %v", all, err)
	}
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

// A dry run waits for nobody who buys, and tells the waits for EC2's request limits as a purchase does.
func TestDryRunBesideAPurchase(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	unlock, err := b.intents().Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	shown := w.offering("USD")
	var bought PurchaseResult
	order := w.order(shown.ID, Terms{Fee: shown.Fee}, &bought)
	if err := b.Purchase(t.Context(), order); err == nil || !strings.Contains(err.Error(), "another purchase") || len(w.sim.Ledger()) != 0 {
		t.Errorf("two at once: %v", err)
	}
	b.DryRun = true
	if err := b.Purchase(t.Context(), order); err != nil || !bought.DryRun {
		t.Errorf("a dry run: %v, %+v", err, bought)
	}
	w.fault(awssim.Fault{Operation: "DescribeCapacityBlockOfferings", Effect: awssim.FailBefore, Code: "RequestLimitExceeded", Status: 503, Count: 1})
	const wait = "Waiting 7s for EC2's request limits in us-east-2."
	if err := b.Purchase(w.stoppedAt(wait), order); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; said: %s", err, w.said())
	}
}

// A payment that fails leaves no block: it is an error, and counts as not bought.
func TestPaymentThatFails(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(20 * time.Minute) })
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
	if err != nil || len(all) != 1 || all[0].Phase != Failed || all[0].Code != string(capacity.StatePaymentFailed) || !strings.Contains(all[0].Message, "the payment failed") {
		t.Errorf("%v, %+v", err, all)
	}
	w.sim.FailPayments(false)
	if err := b.Purchase(t.Context(), order); err != nil || !bought.BoughtNow {
		t.Errorf("after a failed payment: %v, %+v", err, bought)
	}
}

// What the search showed is shown beside what EC2 says now, where that differs.
func TestWhatTheSearchShowed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*capacity.Offering)
		was    bool
	}{
		"the same":    {func(*capacity.Offering) {}, false},
		"another fee": {func(o *capacity.Offering) { o.Fee = usd(t, "1.00") }, true},
		"another id":  {func(o *capacity.Offering) { o.ID = "cb-0e2000000000000ff" }, true},
	} {
		w := newWorld(t, nil)
		b := w.buyer()
		now := w.offering("USD")
		was := now
		c.change(&was)
		if err := Remember(w.dir, Remembered{InstanceType: now.InstanceType, Count: now.Count, Duration: capacity.Duration{Duration: day}, Region: "us-east-2", At: w.aws.Now(), Found: []capacity.Offering{was}}); err != nil {
			t.Fatal(err)
		}
		var preview PurchasePreview
		var bought PurchaseResult
		order := PurchaseOrder{OfferingID: was.ID, Terms: Terms{Fee: now.Fee}, Wait: true,
			Show: func(p PurchasePreview) error { preview = p; return nil }, Tell: func(r PurchaseResult) error { bought = r; return nil }}
		if err := b.Purchase(t.Context(), order); err != nil || preview.Offering.ID != now.ID || preview.Offering.Fee != now.Fee {
			t.Errorf("%s: %v, %+v", name, err, preview)
		}
		if (preview.Was.ID == was.ID) != c.was || (preview.Was.ID == "") == c.was {
			t.Errorf("%s: shown before was %+v", name, preview.Was)
		}
		if alias := was.ID != now.ID; (bought.Intent.OrderedAs == was.ID) != alias {
			t.Errorf("%s: ordered as %q", name, bought.Intent.OrderedAs)
		}
	}
}

// An answer that cannot be read any more keeps nobody from buying who says what to ask for.
func TestPurchaseWithoutTheAnswer(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	shown := w.offering("USD")
	if err := Remember(w.dir, Remembered{InstanceType: shown.InstanceType}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(string(w.dir), "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	var bought PurchaseResult
	order := w.order(shown.ID, Terms{Fee: shown.Fee}, &bought)
	short := order
	short.Duration = 0
	if err := b.Purchase(t.Context(), short); err == nil || !strings.Contains(err.Error(), files[0]) {
		t.Errorf("the answer is needed: %v", err)
	}
	if err := b.Purchase(t.Context(), order); err != nil || !bought.BoughtNow {
		t.Errorf("it is not needed: %v", err)
	}
}

// accepting confirms every fee.
type accepting struct{ *customer }

func (accepting) ConfirmFee(capacity.Offering) error { return nil }

// Who has taken the time to type a fee gets the block by the id that it has by then; a fee
// that was given with the order needs no second look, and nothing bought none at all.
func TestTheOfferingIsLookedUpAfterTyping(t *testing.T) {
	const renamed = "EC2 has "
	for name, c := range map[string]struct {
		typed, dry, looks bool
	}{"typed": {typed: true, looks: true}, "given": {}, "typed in a dry run": {typed: true, dry: true}} {
		w := newWorld(t, func(s *awssim.Scenario) { s.NewOfferingIDs = true })
		b := w.buyer()
		b.Customer, b.DryRun = accepting{&w.customer}, c.dry
		shown := w.offering("USD")
		if err := Remember(w.dir, Remembered{InstanceType: shown.InstanceType, Count: shown.Count, Duration: capacity.Duration{Duration: day}, Region: "us-east-2", Found: []capacity.Offering{shown}}); err != nil {
			t.Fatal(err)
		}
		terms := Terms{Fee: shown.Fee}
		if c.typed {
			terms = Terms{}
		}
		var bought PurchaseResult
		if err := b.Purchase(t.Context(), w.order(shown.ID, terms, &bought)); err != nil || bought.DryRun != c.dry || bought.BoughtNow == c.dry {
			t.Errorf("%s: %v, %+v", name, err, bought)
		}
		if looks := strings.Contains(w.said(), renamed); looks != c.looks {
			t.Errorf("%s: %s", name, w.said())
		}
	}
}
