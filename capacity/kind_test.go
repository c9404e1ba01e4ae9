package capacity

import (
	"slices"
	"testing"
)

// What AWS documents of a family is in one table, and of a new one it says that it is new.
func TestFamilies(t *testing.T) {
	for instanceType, want := range map[string][2]bool{"p5.48xlarge": {false, true}, "p6-b300.48xlarge": {false, true}, "trn2.48xlarge": {false, true}, "trn2u.48xlarge": {true, true},
		"p6e-gb200.36xlarge": {true, true}, "p7.48xlarge": {false, false}, "": {false, false}} {
		if only, known := OnlyInUltraServers(instanceType); only != want[0] || known != want[1] {
			t.Errorf("%s: only in UltraServers %t, known %t", instanceType, only, known)
		}
	}
	if got := FamiliesOfPCS(); !slices.Equal(got, []string{"p6-b300", "p6-b200", "p5en", "p5e", "p5", "p4d"}) {
		t.Errorf("of PCS: %s", got)
	}
}

// What each kind is to EC2 and PCS; a kind that is new to this table is noticed.
func TestKinds(t *testing.T) {
	for _, k := range PurchaseOptions {
		got := []any{k.Bought(), k.Reserved(), k.Market(), k.PCSPurchaseOption()}
		want, known := map[Kind][]any{
			CapacityBlock: {true, true, "capacity-block", "CAPACITY_BLOCK"},
			ODCR:          {false, true, "", "ONDEMAND"},
			OnDemand:      {false, false, "", "ONDEMAND"},
		}[k]
		for i := range want {
			known = known && got[i] == want[i]
		}
		if !known {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
	for _, k := range PurchaseOptions {
		if option := k.PCSPurchaseOption(); option != "" && KindOfPCS(option).PCSPurchaseOption() != option {
			t.Errorf("%s of PCS, the option of %s, is read as %s", option, k, KindOfPCS(option))
		}
	}
	for option, want := range map[string]Kind{"CAPACITY_BLOCK": CapacityBlock, "INTERRUPTIBLE_CAPACITY_RESERVATION": "INTERRUPTIBLE_CAPACITY_RESERVATION",
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
