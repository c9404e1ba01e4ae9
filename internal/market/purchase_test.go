package market

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// A purchase from order to end, and a second order of the same.
func TestPurchase(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	shown, order, bought := w.purchase()

	var preview Preview

	// An error from Show buys nothing.
	w.show = func(Preview) error { return errDeclined }
	if err := b.Purchase(t.Context(), order); !errors.Is(err, errDeclined) || len(w.sim.Ledger()) != 0 {
		t.Errorf("it was shown and not wanted: %v", err)
	}

	w.show = func(p Preview) error { preview = p; return nil }

	try := *b
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil || !bought.DryRun ||
		bought.Intent.Platform != capacity.LinuxUNIX ||
		len(w.sim.Ledger()) != 0 {
		t.Errorf("a dry run: %v, %+v", err, *bought)
	}

	if err := b.Purchase(t.Context(), order); err != nil || !bought.BoughtNow || bought.DryRun ||
		bought.Intent.Phase != Bought ||
		bought.Intent.Platform != capacity.LinuxUNIX ||
		bought.Intent.OrderedAs != "" {
		t.Fatalf("%v, %+v", err, *bought)
	}

	if !strings.HasPrefix(bought.Intent.ID, "buy-") || strings.Contains(w.said(), "warning") {
		t.Errorf("id %s; said: %s", bought.Intent.ID, w.said())
	}

	if preview.Offering.ID != shown.ID || preview.OrderedAs != "" ||
		bought.Reservation.State != capacity.StateScheduled {
		t.Errorf("%+v; %+v", preview, bought)
	}

	first := bought.Reservation.ID
	if r, err := ec2.Reservation(t.Context(), w.aws, first); err != nil ||
		r.Tags[capacity.TagPurchase] != bought.Intent.ID ||
		r.Tags[capacity.TagOffering] != shown.ID ||
		r.Tags[capacity.TagCluster] != "" {
		t.Errorf("%v, tags %v", err, r.Tags)
	}

	// A repeat counts as the same order unless Again is set.
	if err := b.Purchase(t.Context(), order); err != nil || bought.BoughtNow || bought.Reservation.ID != first ||
		len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, *bought)
	}

	w.says("add --again to buy one more")

	again := order

	again.Again, again.Platform = true, "Red Hat Enterprise Linux"
	c := *b
	c.Cluster = "ml"
	if err := c.Purchase(t.Context(), again); err != nil || !bought.BoughtNow || bought.Reservation.ID == first ||
		len(w.sim.Ledger()) != 2 ||
		bought.Intent.Platform != again.Platform {
		t.Fatalf("%v, %+v", err, *bought)
	}

	if r, err := ec2.Reservation(t.Context(), w.aws, bought.Reservation.ID); err != nil ||
		r.Tags[capacity.TagCluster] != "ml" {
		t.Errorf("%v, tags %v", err, r.Tags)
	}
}

// The next run resumes a purchase that was cut off, even with Again.
func TestCutOffPurchaseIsTakenUp(t *testing.T) {
	w := newWorld(t, nil)

	b := w.buyer()
	shown, order, bought := w.purchase()
	w.report = func(Result) error { return errDeclined } // nobody hears of it

	if err := b.Purchase(t.Context(), order); err == nil {
		t.Fatal("it was not cut off")
	}

	order = w.order(shown.ID, shown.Fee, bought)

	order.Again = true
	try := *b
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil || bought.Reservation.ID == "" {
		t.Errorf("a dry run: %v, %+v", err, *bought)
	}

	if all, err := b.intents().All(); err != nil || len(all) != 1 || all[0].Phase != Bought {
		t.Errorf("a dry run writes: %+v, %v", all, err)
	}

	if err := b.Purchase(t.Context(), order); err != nil || bought.BoughtNow || len(w.sim.Ledger()) != 1 ||
		bought.Reservation.State != capacity.StateScheduled {
		t.Errorf("%v, %+v", err, *bought)
	}

	w.says("and was interrupted. Nothing is bought now.")

	if err := b.Purchase(t.Context(), order); err != nil || !bought.BoughtNow || len(w.sim.Ledger()) != 2 {
		t.Errorf("now it is one more: %v, %+v", err, *bought)
	}
}

// A dry run waits for no purchase, and reports waits for EC2's request limits as a purchase does.
func TestDryRunBesideAPurchase(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	unlock, err := b.intents().Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	_, order, bought := w.purchase()
	if err := b.Purchase(t.Context(), order); err == nil || !strings.Contains(err.Error(), "another purchase") ||
		len(w.sim.Ledger()) != 0 {
		t.Errorf("two at once: %v", err)
	}

	b.DryRun = true
	if err := b.Purchase(t.Context(), order); err != nil || !bought.DryRun {
		t.Errorf("a dry run: %v, %+v", err, *bought)
	}

	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityBlockOfferings",
			Effect:    awssim.FailBefore,
			Code:      "RequestLimitExceeded",
			Status:    503,
			Count:     1,
		},
	)

	const wait = "Waiting 7s for EC2's request limits in us-east-2."
	if err := b.Purchase(w.stoppedAt(wait), order); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; said: %s", err, w.said())
	}
}

// accepting confirms every fee.
type accepting struct{ *customer }

func (accepting) Show(p Preview) (capacity.Money, error) { return p.Offering.Fee, nil }

// EC2 may give an offering another id. It is found again by zone, start and end, also after a fee was typed; an order
// with the id alone is refused.
func TestABlockUnderAnotherID(t *testing.T) {
	for name, c := range map[string]struct {
		named, typed, dry bool
		looks             int
	}{
		"typed":  {named: true, typed: true, looks: 2},
		"given":  {named: true, looks: 1},
		"dry":    {named: true, typed: true, dry: true, looks: 1},
		"its id": {looks: 1},
	} {
		w := newWorld(t, func(s *awssim.Scenario) { s.NewOfferingIDs = true })
		b := w.buyer()
		b.Customer, b.DryRun = accepting{&w.customer}, c.dry
		shown := w.offering("USD")
		before := w.searches()

		terms := shown.Fee
		if c.typed {
			terms = capacity.Money{}
		}

		var bought Result

		order := w.order(shown.ID, terms, &bought)
		if c.named {
			order.Zone, order.Query.StartAfter, order.Query.EndBy = shown.AZID, shown.Start, shown.End
		}

		err := b.Purchase(t.Context(), order)
		if c.named &&
			(err != nil || bought.DryRun != c.dry || bought.BoughtNow == c.dry || bought.Intent.OrderedAs != shown.ID) {
			t.Errorf("%s: %v, %+v", name, err, bought)
		}

		if !c.named &&
			(err == nil || !strings.Contains(err.Error(), "no longer has it for sale") || len(w.sim.Ledger()) != 0) {
			t.Errorf("%s: %v, %+v", name, err, bought)
		}

		if looks := w.searches() - before; looks != c.looks {
			t.Errorf("%s: %d searches, want %d", name, looks, c.looks)
		}
	}
}

// A block that was bought is not bought again under another id.
func TestR3_OnePurchaseUnderTwoIDs(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	shown := w.offering("USD")
	was := shown
	was.ID = "cb-0e2000000000000ff"
	i := Intent{
		ID:          "buy-1",
		Kind:        BuyBlock,
		Phase:       Done,
		At:          w.aws.Now(),
		Region:      "us-east-2",
		Offering:    was,
		Reservation: dollarBlock,
	}
	write(t, b.intents(), i)

	var told Result
	if err := b.Purchase(t.Context(), w.order(shown.ID, shown.Fee, &told)); err != nil || told.BoughtNow ||
		told.Intent.ID != i.ID ||
		len(w.sim.Ledger()) != 0 {
		t.Errorf("%v, %+v", err, told)
	}
}
