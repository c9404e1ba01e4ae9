package capacity

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// What values say of themselves, which is a condition or a sum each.
func TestValues(t *testing.T) {
	amount := func(text string) Money { return money(t, text, USD) }
	big := Money{micros: 1 << 62, currency: USD}
	part := func(m Money, n, total int64) string {
		text, _ := m.Part(n, total).MarshalText()
		return string(text)
	}
	later := Reservation{Kind: ODCR, State: StateScheduled, Created: noon, Start: noon.Add(time.Hour)}
	reservation := func(change func(*Reservation)) bool { r := later; change(&r); return r.FutureODCR() }
	var day Duration
	if err := day.UnmarshalText([]byte("1d")); err != nil {
		t.Error(err)
	}
	name, id := CutClusterMark("linux/0123")
	plain, none := CutClusterMark("ml")
	said := Said{}
	said.Add(Problem{Sentence: "a"})
	prices := Reserve{Prices: map[string]Money{"p5.48xlarge": amount("10")}, MaxPerHour: amount("100"), MaxInstances: 9}
	cost, known := prices.Cost("p5.48xlarge", 2, 30*time.Minute)
	_, unknown := prices.Cost("p4d.24xlarge", 2, time.Hour)
	for what, c := range map[string]struct{ got, want any }{
		"a third of 1 USD":            {part(amount("1"), 1, 3), "0.33 USD"},
		"two thirds":                  {part(amount("1"), 2, 3), "0.67 USD"},
		"none of it":                  {part(amount("1"), 0, 3), "0.00 USD"},
		"all of one":                  {part(amount("1"), 1, 1), "1.00 USD"},
		"less than none":              {part(amount("1"), -1, 3), ""},
		"of nothing":                  {part(amount("1"), 1, 0), ""},
		"too much":                    {part(big, 1<<40, 1), ""},
		"its cost":                    {cost, amount("10")},
		"its price is known":          {known, true},
		"no price is known":           {unknown, false},
		"booting":                     {Node{State: "IDLE+CLOUD+POWERING_UP"}.Boots(), true},
		"booting and sent down":       {Node{State: "IDLE+CLOUD+POWERING_UP+POWERING_DOWN"}.Boots(), false},
		"going down":                  {Node{State: "IDLE+CLOUD+POWERING_DOWN"}.Boots(), false},
		"up":                          {Node{State: "IDLE+CLOUD"}.Boots(), false},
		"a future ODCR":               {later.FutureODCR(), true},
		"a block to come":             {reservation(func(r *Reservation) { r.Kind = CapacityBlock }), false},
		"an ODCR that is open":        {reservation(func(r *Reservation) { r.State = StateActive }), false},
		"an ODCR that opens at once":  {reservation(func(r *Reservation) { r.Start = r.Created }), false},
		"requeue in front of a fence": {RequeueAt(noon, 30*time.Second), noon.Add(-90 * time.Second)},
		"nodes that are out":          {NodesOut{Nodes: "gpu-1", State: "DOWN", Reason: "x"}.String(), "gpu-1 DOWN (x)"},
		"out for no reason":           {NodesOut{Nodes: "gpu-1", State: "DOWN"}.String(), "gpu-1 DOWN"},
		"the name in a mark":          {name + " " + id, "linux 0123"},
		"a mark of a PCS cluster":     {plain + none, "ml"},
		"slurmd asks a server":        {LaunchTemplate{UserData: []byte("slurmd --conf-server ctl")}.AsksConfServer(), true},
		"slurmd has its file":         {LaunchTemplate{UserData: []byte("slurmd")}.AsksConfServer(), false},
		"a day":                       {day.Duration, 24 * time.Hour},
		"names a reservation":         {Wish{ReservationID: "cr-1"}.Names(), true},
		"names a type":                {Wish{InstanceType: "p5.48xlarge"}.Names(), true},
		"names a subnet":              {Wish{SubnetID: "subnet-1"}.Names(), true},
		"names nothing":               {Wish{Capacity: AnyCapacity}.Names(), false},
		"any is known":                {AnyCapacity.Known() && ReuseCapacity.Known() && ReserveCapacity.Known(), true},
		"some is not":                 {CapacityWish("some").Known(), false},
		"what will be":                {Will.Verb("send", "sent"), "send"},
		"what was":                    {Did.Verb("send", "sent"), "sent"},
		"an offering":                 {IsOfferingID("cb-0123456789abcdef0"), true},
		"no offering":                 {IsOfferingID("cr-0123456789abcdef0"), false},
		"a copy of what is said":      {len(said.Copy().Problems), 1},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	if err := prices.Allows(Held{InstanceType: "p5.48xlarge", Count: 6}, []Held{{InstanceType: "p5.48xlarge", Count: 5}}); err == nil || !strings.Contains(err.Error(), "110.00 USD an hour") && !strings.Contains(err.Error(), "11 instances") {
		t.Errorf("more than may be held: %v", err)
	}
	free := Reserve{MaxInstances: 9}
	if err := free.Allows(Held{Count: 6}, []Held{{Count: 4}}); err == nil || !strings.Contains(err.Error(), "10 instances") {
		t.Errorf("more instances than may be held: %v", err)
	}
	var year Duration
	if err := year.UnmarshalText([]byte("soon")); err == nil || bytes.Equal([]byte(year.String()), []byte("1d")) {
		t.Errorf("soon is %s, %v", year, err)
	}
}

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
