package capacity

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBuys(t *testing.T) {
	kinds := []Kind{CapacityBlock, ODCR, InterruptibleODCR}
	for option, want := range map[Kind][]Kind{CapacityBlock: {CapacityBlock}, ODCR: {ODCR}, InterruptibleODCR: {InterruptibleODCR}, Mixed: kinds, OnDemand: {ODCR}} {
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

// The members of a group are a node group's reservations, also one that EC2 does not describe;
// the snapshot knows them when nobody can be asked.
func TestBuildSelectsByGroup(t *testing.T) {
	settings := Settings{Partitions: []PartitionSettings{{Name: "gpu", Groups: []GroupSettings{{Name: "gpu", Select: &Select{Group: "nlp"}}}},
		{Name: "other", Groups: []GroupSettings{{Name: "other", PurchaseOption: OnDemand, Select: &Select{Group: "odcrs"}}, {Name: "more", Select: &Select{Group: "nlp"}}}}}}
	if got := settings.SelectedGroups(); !slices.Equal(got, []string{"nlp", "odcrs"}) {
		t.Errorf("groups %v", got)
	}
	if got := settings.SelectedGroups("gpu"); !slices.Equal(got, []string{"nlp"}) {
		t.Errorf("groups of a partition: %v", got)
	}
	r := func(id string, start time.Duration) Reservation {
		return Reservation{ID: id, State: StateActive, Start: noon.Add(start)}
	}
	members := Members{"nlp": {"late", "gone", "early"}, "odcrs": {"early"}}
	snap := Build(settings, Seen{Reservations: []Reservation{r("late", 2), r("other", 0), r("early", 1)}, Members: members})
	if got := slots(snap); got != "gpu: gone early late" && got != "gpu: early late gone" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([]string{"early"}, snap.Partitions[1].Groups[0].ReuseIDs); diff != "" {
		t.Error(diff)
	}
	if before := snap.Members(settings); len(before["nlp"]) != 3 || !slices.Equal(before["odcrs"], []string{"early"}) {
		t.Errorf("the snapshot has %v", before)
	}
	if before := (*Snapshot)(nil).Members(settings); len(before) != 0 {
		t.Errorf("no snapshot has %v", before)
	}
}

// In a mixed node group with two slots what has no end shares one, so that blocks have the other.
func TestMixedSlots(t *testing.T) {
	block := func(id string, start, end time.Duration) Reservation {
		return Reservation{ID: id, Kind: CapacityBlock, State: StateActive, Start: noon.Add(start), End: noon.Add(end)}
	}
	endless := func(id string, k Kind) Reservation {
		return Reservation{ID: id, Kind: k, State: StateActive, Start: noon.Add(-time.Hour)}
	}
	odcr, lent := endless("odcr", ODCR), endless("lent", InterruptibleODCR)
	for name, c := range map[string]struct {
		option Kind
		there  []Reservation
		want   string
	}{
		"a block that is open":      {Mixed, []Reservation{odcr, lent, block("block", -time.Hour, 48*time.Hour)}, "block never waits"},
		"a block that is to open":   {Mixed, []Reservation{odcr, lent, block("block", 24*time.Hour, 48*time.Hour)}, "block never waits"},
		"two blocks":                {Mixed, []Reservation{odcr, lent, block("block", 24*time.Hour, 48*time.Hour), block("next", 48*time.Hour, 72*time.Hour)}, "block never waits"},
		"not told that it is mixed": {ODCR, []Reservation{odcr, lent, block("block", 24*time.Hour, 48*time.Hour)}, "block waits for good"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := Settings{Partitions: []PartitionSettings{{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{
				{Name: "gpu", PurchaseOption: c.option, Slots: 2, Select: &Select{Group: "gpus"}}}}}}
			var ids []string
			for _, r := range c.there {
				ids = append(ids, r.ID)
			}
			snap := Build(settings, Seen{Reservations: c.there, Members: Members{"gpus": ids}, Now: noon})
			got := "block never waits"
			for _, p := range snap.Places() {
				if p.Never {
					got = "block waits for good"
				}
				if p.Behind != "" && p.Reservation.End.IsZero() {
					t.Errorf("%s is behind %s: %s", p.Reservation.ID, p.Behind, slots(snap))
				}
			}
			if got != c.want {
				t.Errorf("%s: %s", got, slots(snap))
			}
		})
	}
}

// What a person is told of a reservation that the node group does not buy names what to set.
func TestWrongPurchaseOptionNamesTheRightOne(t *testing.T) {
	snap := Build(Settings{Submit: Submit{Strict: true}, Partitions: []PartitionSettings{{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{
		{Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: ODCR, MaxNodes: 4, ReservationIDs: []string{"cr-a"}}}}}},
		Seen{Reservations: []Reservation{{ID: "cr-a", Kind: InterruptibleODCR, State: StateActive, InstanceType: "p5.48xlarge", Total: 4}}})
	const want = `reservation cr-a is of kind interruptible-odcr, but node group gpu buys odcr; nothing can be launched for the job: ask an administrator to set purchase_option = "interruptible-odcr"`
	if v := Admit(Request{Partitions: []string{"gpu"}, Nodes: 1}, snap, noon); v.Code != Mismatched || v.Message != want {
		t.Errorf("%s: %s", v.Code, v.Message)
	}
	p, _ := snap.Partition("gpu")
	if _, v := AdmitLaunch(Request{Partitions: []string{"gpu"}, Nodes: 1}, p, p.Groups[0], p.Groups[0].Slots[0], snap, noon); v.Code != Mismatched ||
		v.Message != `reservation cr-a is of kind interruptible-odcr, but node group gpu buys odcr; set purchase_option = "interruptible-odcr"` {
		t.Errorf("launch: %s: %s", v.Code, v.Message)
	}
}
