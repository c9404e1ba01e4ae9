package market

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

func showLate(s *awssim.Scenario) {
	lag := awssim.Duration(20 * time.Second)
	s.Lag.Purchases = &lag
}

// People and programs copy tags: an ODCR with the tag of a purchase was not bought by it.
func TestR3_OnlyABlockIsAPurchase(t *testing.T) {
	const id, block, odcr = "buy-0000000000000001", "cr-0e2000000000000d4", "cr-0e2000000000000c3"

	tagged := awssim.ReservationScenario{
		ID:    odcr,
		Kind:  "odcr",
		Type:  "p5.48xlarge",
		Zone:  "us-east-2a",
		Count: 1,
		Tags:  map[string]string{capacity.TagPurchase: id},
	}

	bought := tagged
	bought.ID, bought.Kind = block, "capacity-block"
	if err := bought.End.UnmarshalText([]byte("+5d 11:30")); err != nil {
		t.Fatal(err)
	}

	for want, reservations := range map[string][]awssim.ReservationScenario{block: {tagged, bought}, "": {tagged}} {
		w := newWorld(t, func(s *awssim.Scenario) {
			s.Regions[0].Reservations = append(s.Regions[0].Reservations, reservations...)
		})
		d := w.deal(w.buyer())
		i := Intent{ID: id, Kind: BuyBlock, Region: "us-east-2"}
		if found, err := d.look(t.Context(), &i); err != nil || found != (want != "") || i.Reservation != want {
			t.Errorf(
				"of %d reservations with the tag: %q, %t, %v; want %q",
				len(reservations),
				i.Reservation,
				found,
				err,
				want,
			)
		}
	}
}

// "Not bought" is said only once EC2 would show a purchase.
func TestR3_NotBoughtIsSaidWhenItWouldShow(t *testing.T) {
	w := newWorld(t, nil)
	w.fault(awssim.Fault{Operation: "PurchaseCapacityBlock", Effect: awssim.CutBefore})
	o := w.offering("USD")
	began := w.sim.Clock().Now()
	b := w.buyer()

	var last Intent

	w.waiting = func(context.Context) { // a run that is killed now leaves this to the next one
		all, err := b.intents().All()
		if last = all[0]; err != nil || last.Phase != Sending ||
			last.SettledAt.After(began.Add(settleTime+settleWait)) ||
			last.Message == "" {
			t.Errorf("while it waits: %v, %+v", err, all)
		}
	}

	var block Result

	err := b.Purchase(t.Context(), w.order(o.ID, o.Fee, &block))
	if waited := w.sim.Clock().Now().Sub(began); err == nil || !strings.Contains(err.Error(), "was not bought") ||
		waited < settleTime ||
		waited > settleTime+settleWait ||
		last.ID == "" {
		t.Errorf("after %s: %v", waited, err)
	}

	if want := "so whether " + o.ID + " was bought is still unknown: "; !strings.Contains(w.said(), want) {
		t.Errorf("said: %s", w.said())
	}

	if bought := w.sim.Ledger(); len(bought) > 0 {
		t.Errorf("bought %+v", bought)
	}
}

// A payment can take 12 hours. Nobody who follows one holds the lock, so that others can buy.
func TestFollowingAPaymentHoldsNoLock(t *testing.T) {
	for kind, seller := range sellers {
		w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(20 * time.Minute) })
		for _, patience := range []time.Duration{5 * time.Minute, day} {
			w.patience = patience

			waits := 0
			w.waiting = func(context.Context) {
				waits++
				unlock, err := (Intents{w.dir}).Lock()
				if err != nil {
					t.Fatalf("%s: %v", kind, err)
				}

				unlock()
			}
			_, _, err := seller.buy(w, func() {})
			if stopped := patience < day; waits == 0 || (err == nil) == stopped || len(w.sim.Ledger()) != 1 {
				t.Errorf("%s: %v after %d waits; sold %+v", kind, err, waits, w.sim.Ledger())
			}
		}
	}
}
