package market

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// A fee is recorded for a block that was bought elsewhere, and for nothing else.
func TestRecordFee(t *testing.T) {
	const odcr = "cr-0e2000000000000c3"
	w := newWorld(t, func(s *awssim.Scenario) {
		s.Regions[0].Reservations = append(s.Regions[0].Reservations, awssim.ReservationScenario{ID: odcr, Kind: "odcr", Type: "g6.12xlarge", Zone: "us-east-2b", Count: 1})
	})
	b := w.buyer()
	i, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "100"))
	if err != nil || i.Kind != RecordedFee || i.Phase != Done || i.Reservation != dollarBlock || i.Fee != usd(t, "100") || i.At.Sub(opening).Abs() > time.Minute || strings.Contains(w.said(), "replaced") {
		t.Fatalf("%v, %+v; said: %s", err, i, w.said())
	}
	if _, err := b.RecordFee(t.Context(), yuanBlock, money(t, "7", "CNY")); err != nil || strings.Contains(w.said(), "replaced") {
		t.Errorf("of another block: %v; said: %s", err, w.said())
	}
	if _, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "200")); err != nil || !strings.Contains(w.said(), "Before, 100.00 USD was recorded at ") {
		t.Errorf("%v; said: %s", err, w.said())
	}
	w.sim.Clock().Advance(time.Minute)
	if _, err := w.aws.Reservation(t.Context(), yuanBlock); err != nil { // tells the time
		t.Fatal(err)
	}
	if _, err := b.RecordFee(t.Context(), yuanBlock, money(t, "8", "CNY")); err != nil || !strings.Contains(w.said(), "Before, 7.00 CNY was recorded at ") {
		t.Errorf("%v; said: %s", err, w.said())
	}
	if _, err := b.RecordFee(t.Context(), yuanBlock, money(t, "9", "CNY")); err != nil || !strings.Contains(w.said(), "Before, 8.00 CNY was recorded at ") {
		t.Errorf("of the newer one: %v; said: %s", err, w.said())
	}
	all, err := b.intents().All()
	if err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	for phase, recorded := range map[Phase]bool{Bought: false, Done: false, Failed: true} {
		if err := b.intents().Write(Intent{ID: "buy-1", Kind: BuyBlock, Phase: phase, Reservation: dollarBlock, Fee: usd(t, "960")}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "200")); (err == nil) != recorded || err != nil && !strings.Contains(err.Error(), "for 960.00 USD, which is recorded already") {
			t.Errorf("bought here, %s: %v", phase, err)
		}
	}
	if err := b.intents().Write(Intent{ID: "buy-1", Kind: ExtendBlock, Phase: Done, Reservation: dollarBlock}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "200")); err != nil {
		t.Errorf("an extension is no purchase: %v", err)
	}
	if _, err := b.RecordFee(t.Context(), odcr, usd(t, "1")); err == nil || !strings.Contains(err.Error(), "billed by the hour") {
		t.Errorf("an ODCR: %v", err)
	}
	if _, err := b.RecordFee(t.Context(), "cr-0ffffffffffffffff", usd(t, "1")); ec2.Code(err) != reservationNotFound || !strings.Contains(err.Error(), "nothing was recorded") {
		t.Errorf("nothing of that id: %v", err)
	}
	unlock, err := b.intents().Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "200")); err == nil || !strings.Contains(err.Error(), "the fee is recorded in state_dir") {
		t.Errorf("while somebody buys: %v", err)
	}
}
