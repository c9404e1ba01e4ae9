package market

import (
	"context"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

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
