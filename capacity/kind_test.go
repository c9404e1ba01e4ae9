package capacity

import "testing"

// What each kind is to EC2 and PCS; a kind that is new to this table is noticed.
func TestKinds(t *testing.T) {
	for _, k := range PurchaseOptions {
		got := []any{k.Bought(), k.Reserved(), k.BuysBlocks(), k.Market(), k.PCSPurchaseOption()}
		want, known := map[Kind][]any{
			CapacityBlock:     {true, true, true, "capacity-block", "CAPACITY_BLOCK"},
			ODCR:              {false, true, false, "", "ONDEMAND"},
			InterruptibleODCR: {false, true, false, "interruptible-capacity-reservation", "INTERRUPTIBLE_CAPACITY_RESERVATION"},
			Mixed:             {false, true, true, "", ""},
			OnDemand:          {false, false, false, "", "ONDEMAND"},
		}[k]
		for i := range want {
			known = known && got[i] == want[i]
		}
		if !known {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
	for option, want := range map[string]Kind{"CAPACITY_BLOCK": CapacityBlock, "INTERRUPTIBLE_CAPACITY_RESERVATION": InterruptibleODCR,
		"ONDEMAND": OnDemand, "": OnDemand, "SPOT": "SPOT"} {
		if got := KindOfPCS(option); got != want {
			t.Errorf("%s of PCS: %s, want %s", option, got, want)
		}
	}
}
