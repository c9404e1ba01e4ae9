package capacity

import (
	"testing"
)

// A compute node group may hold a reservation that the settings do not name: it keeps its slot, and no more jobs are
// admitted to it while it lives.
func TestUnnamedReservationsOfSlots(t *testing.T) {
	named, other := blockA, blockB
	for name, c := range map[string]struct {
		held     string
		provider Provider
		change   func(*Reservation)
		unnamed  bool
		holds    string
	}{
		"named":                            {held: named.ID, provider: ProviderPCS, holds: named.ID},
		"another":                          {held: other.ID, provider: ProviderPCS, holds: other.ID, unnamed: true},
		"another that ended":               {held: other.ID, provider: ProviderPCS, holds: other.ID, change: func(r *Reservation) { r.State = StateExpired }},
		"one that EC2 forgot":              {held: "cr-0", provider: ProviderPCS, holds: "cr-0"},
		"another, without PCS":             {held: other.ID, provider: ProviderEC2},
		"one that EC2 forgot, without PCS": {held: "cr-0", provider: ProviderEC2},
		"named, without PCS":               {held: named.ID, provider: ProviderEC2, holds: named.ID},
	} {
		r := other
		if c.change != nil {
			c.change(&r)
		}
		slots := fillSlots(c.provider, []string{"gpu-a", "gpu-b"}, []string{named.ID}, placement{holds: map[string]string{"gpu-b": c.held}}, &Snapshot{Reservations: []Reservation{named, r}, Timing: twoBlocks().Timing})
		if slots[1].Unnamed != c.unnamed || slots[1].Holds != c.holds || slots[0].Unnamed {
			t.Errorf("%s: %+v", name, slots)
		}
	}
}

// What Build takes from the settings as it stands there.
func TestBuildTakesTheSettings(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := Settings{Reserve: Reserve{Enabled: on}, Partitions: []PartitionSettings{{Provider: ProviderEC2, Groups: []GroupSettings{
			{Name: "a", PurchaseOption: OnDemand, Reserve: ReservePerJob}, {Name: "b", PurchaseOption: OnDemand, Reserve: "never"}}}}}
		snap := Build(s, Seen{})
		if snap.ReserveOff == on || snap.Partitions[0].Groups[0].Reserve != ReservePerJob || snap.Partitions[0].Groups[1].Reserve != "" {
			t.Errorf("enabled %t: %+v", on, snap)
		}
	}
	// An instance without our tag, or that ends, holds no slot.
	settings := Settings{Partitions: []PartitionSettings{{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "gpu", MaxNodes: 4, Slots: 2, ReservationIDs: []string{blockA.ID, blockB.ID}}}}}}
	on := func(node, reservation, state string) Instance {
		return Instance{State: state, Tags: map[string]string{TagNode: node, TagReservation: reservation}}
	}
	for name, c := range map[string]struct {
		instance Instance
		want     int
	}{
		"runs": {on("gpu-b-1", blockA.ID, "running"), 1}, "ends": {on("gpu-b-1", blockA.ID, "terminated"), 0},
		"of none": {on("gpu-b-1", "", "running"), 0}, "of another cluster": {on("cpu-1", blockA.ID, "running"), 0},
	} {
		if at := placementOf(settings, Seen{Instances: []Instance{c.instance}}, &Snapshot{}); len(at.holds) != c.want || len(at.slots) != c.want {
			t.Errorf("%s: %+v", name, at)
		}
	}
}
