package market

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// A fee that was typed is good for this fee only, whatever id the block has by then.
func TestR3_AnotherFeeAfterTyping(t *testing.T) {
	w := newWorld(t, 0, func(s *awssim.Scenario) { s.NewOfferingIDs = true })
	shown := w.offering("USD")
	query := ec2.OfferingQuery{InstanceType: shown.InstanceType, Count: shown.Count, Duration: day}
	d := &deal{Buyer: w.buyer(), aws: w.aws, unlock: func() {}}
	now, err := d.afterTyping(t.Context(), query, shown)
	if err != nil || now.ID == shown.ID || !sameBlock(now, shown) || now.Fee != shown.Fee {
		t.Fatalf("%+v became %+v: %v", shown, now, err)
	}
	typed := shown
	typed.Fee = usd(t, "1.00")
	if _, err := d.afterTyping(t.Context(), query, typed); err == nil || !strings.Contains(err.Error(), "not the 1.00 USD that you typed; nothing was bought") {
		t.Errorf("typed for another fee: %v", err)
	}
}
