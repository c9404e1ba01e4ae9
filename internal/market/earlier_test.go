package market

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// Another machine knows from the tags what was bought: all of them count, not only the
// first, whose payment may have failed.
func TestR3_BoughtOnAnotherMachine(t *testing.T) {
	const unpaid, paid = "cr-0e2000000000000c3", "cr-0e2000000000000d4"
	for want, states := range map[string]map[string]string{
		paid: {unpaid: "payment-failed", paid: "scheduled"},
		"":   {unpaid: "payment-failed", paid: "payment-failed"},
	} {
		var offering capacity.Offering
		w := newWorld(t, nil)
		offering = w.offering("USD")
		w = newWorld(t, func(s *awssim.Scenario) {
			for id, state := range states {
				r := awssim.ReservationScenario{ID: id, Kind: "capacity-block", Type: "p5.48xlarge", Zone: "us-east-2a", Count: 4, State: state,
					Tags: map[string]string{capacity.TagOffering: offering.ID, capacity.TagPurchase: "buy-" + id, capacity.TagFee: "960.00 USD"}}
				if err := r.End.UnmarshalText([]byte("+2d 11:30")); err != nil {
					t.Fatal(err)
				}
				s.Regions[0].Reservations = append(s.Regions[0].Reservations, r)
			}
		})
		var told PurchaseResult
		if err := w.buyer().Purchase(t.Context(), w.order(offering.ID, Terms{Fee: offering.Fee}, &told)); err != nil {
			t.Fatal(err)
		}
		switch bought := w.sim.Ledger(); {
		case want == "" && (len(bought) != 1 || !told.BoughtNow):
			t.Errorf("nothing was paid, and %d bought: %+v", len(bought), told)
		case want != "" && (len(bought) != 0 || told.Reservation.ID != want || told.Intent.Fee != offering.Fee):
			t.Errorf("%s is paid, and %d bought: %+v", want, len(bought), told)
		}
	}
}
