package capacity

import (
	"slices"
	"testing"
)

func TestBuys(t *testing.T) {
	kinds := []Kind{CapacityBlock, ODCR, InterruptibleODCR}
	for option, want := range map[Kind][]Kind{CapacityBlock: {CapacityBlock}, ODCR: {ODCR}, OnDemand: {ODCR}} {
		var got []Kind
		for _, k := range kinds {
			if option.Buys(k) {
				got = append(got, k)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s buys %v, want %v", option, got, want)
		}
	}
}

// What a person is told of a reservation that the node group does not buy names what to set.
func TestWrongPurchaseOptionNamesTheRightOne(t *testing.T) {
	snap := Build(Settings{Submit: Submit{Strict: true}, Partitions: []PartitionSettings{{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{
		{Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: ODCR, MaxNodes: 4, ReservationIDs: []string{"cr-a"}}}}}},
		Seen{Reservations: []Reservation{{ID: "cr-a", Kind: InterruptibleODCR, State: StateActive, InstanceType: "p5.48xlarge", Total: 4}}})
	const want = `reservation cr-a is of kind interruptible-odcr, but node group gpu buys odcr; nothing can be launched for the job: ask an administrator to use a Capacity Block or an ODCR`
	if v := Admit(Request{Partitions: []string{"gpu"}, Nodes: 1}, snap, noon); v.Code != Mismatched || v.Message != want {
		t.Errorf("%s: %s", v.Code, v.Message)
	}
	p, _ := snap.Partition("gpu")
	if _, v := AdmitLaunch(Request{Partitions: []string{"gpu"}, Nodes: 1}, p, p.Groups[0], p.Groups[0].Slots[0], snap, noon); v.Code != Mismatched ||
		v.Message != `reservation cr-a is of kind interruptible-odcr, but node group gpu buys odcr; use a Capacity Block or an ODCR` {
		t.Errorf("launch: %s: %s", v.Code, v.Message)
	}
}
