package capacity

import "testing"

// What each kind is to EC2 and PCS; a kind that is new to this table is noticed.
func TestKinds(t *testing.T) {
	for _, k := range PurchaseOptions {
		got := []any{k.Bought(), k.Reserved(), k.BuysBlocks(), k.Interruptible(), k.Mixes(), k.Market(), k.PCSPurchaseOption()}
		want, known := map[Kind][]any{
			CapacityBlock:     {true, true, true, false, false, "capacity-block", "CAPACITY_BLOCK"},
			ODCR:              {false, true, false, false, false, "", "ONDEMAND"},
			InterruptibleODCR: {false, true, false, true, false, "interruptible-capacity-reservation", "INTERRUPTIBLE_CAPACITY_RESERVATION"},
			Mixed:             {false, true, true, false, true, "", ""},
			OnDemand:          {false, false, false, false, false, "", "ONDEMAND"},
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

// Idle nodes of a block stay up, unless its node group is dynamic; those of all other kinds cost money
// for nothing.
func TestNodesOfBlocksAloneStayUp(t *testing.T) {
	for _, k := range PurchaseOptions {
		for _, dynamic := range []bool{false, true} {
			if got := (GroupSettings{PurchaseOption: k, Dynamic: dynamic}).StaysUp(); got != (k == CapacityBlock && !dynamic) {
				t.Errorf("%s, dynamic %t: stays up: %t", k, dynamic, got)
			}
		}
	}
}
