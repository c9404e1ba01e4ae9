package market

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// An extension that is paid is not reported before EC2 shows the end that was bought.
func TestExtensionIsReportedWhenTheEndHasMoved(t *testing.T) {
	w := newWorld(t, nil)
	var bought ExtensionResult
	if err := w.buyer().Extend(t.Context(), w.extension(dollarBlock, Terms{Fee: usd(t, "960")}, &bought)); err != nil {
		t.Fatal(err)
	}
	for later, moved := range map[time.Duration]bool{0: true, time.Second: false} {
		w.patience = w.sim.Clock().Now().Sub(opening) + 5*time.Minute
		d, i := &deal{Buyer: w.buyer()}, bought.Intent
		i.NewEnd = i.NewEnd.Add(later)
		e, r, err := d.followExtension(t.Context(), i)
		if moved && (err != nil || r.ID != dollarBlock || e.State != capacity.ExtensionPaid) {
			t.Errorf("the end has moved: %v, %+v, %+v", err, e, r)
		}
		if !moved && (err == nil || !strings.Contains(err.Error(), "is bought, and its payment is no longer followed") || r.ID != "" ||
			!strings.Contains(w.said(), "paid; waiting for EC2 to show the new end")) {
			t.Errorf("the end is before the one that was bought: %v, %+v", err, r)
		}
	}
}

// A payment takes up to 12 hours, in which others may buy: nobody who follows one has the lock,
// neither who bought nor who takes it up.
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
