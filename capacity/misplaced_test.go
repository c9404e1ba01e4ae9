package capacity

import (
	"testing"
	"time"
)

func TestMisplaced(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	block := func(id, az string, from, until time.Duration) Reservation {
		return Reservation{ID: id, Kind: CapacityBlock, State: StateActive, InstanceType: "p5.48xlarge", AZID: az, Start: noon.Add(from), End: noon.Add(until)}
	}
	odcr := func(id, az string) Reservation {
		return Reservation{ID: id, Kind: ODCR, State: StateActive, InstanceType: "p5.48xlarge", AZID: az, Start: noon.Add(-time.Hour)}
	}
	past := block("cr-past", "use2-az3", -48*time.Hour, -time.Hour)
	past.State = StateExpired
	unplaced := block("cr-unplaced", "", -time.Hour, time.Hour)
	right := Metadata{InstanceID: "i-1", InstanceType: "p5.48xlarge", AZID: "use2-az1"}
	with := func(change func(*Metadata)) Metadata {
		m := right
		change(&m)
		return m
	}
	now := block("cr-now", "use2-az1", -time.Hour, 10*time.Hour)
	next := block("cr-next", "use2-az2", 11*time.Hour, 30*time.Hour)
	for name, c := range map[string]struct {
		has  []Reservation
		ids  []string // if others than of has
		m    Metadata
		want string
	}{
		"the same":              {[]Reservation{now}, nil, right, ""},
		"its own tag":           {[]Reservation{now}, nil, with(func(m *Metadata) { m.ReservationID = "cr-now" }), ""},
		"another type":          {[]Reservation{now}, nil, with(func(m *Metadata) { m.InstanceType = "g5.xlarge" }), "its instance i-1 is a g5.xlarge, but reservation cr-now is for p5.48xlarge"},
		"another zone":          {[]Reservation{now}, nil, with(func(m *Metadata) { m.AZID = "use2-az2" }), "its instance i-1 is in use2-az2, but reservation cr-now is in use2-az1"},
		"another reservation":   {[]Reservation{now}, nil, with(func(m *Metadata) { m.ReservationID = "cr-past" }), "its instance i-1 was launched into cr-past, but reservation cr-now has the slot"},
		"nothing is said":       {[]Reservation{now}, nil, Metadata{InstanceID: "i-1"}, ""},
		"zone not known yet":    {[]Reservation{unplaced}, nil, right, ""},
		"what comes next":       {[]Reservation{now, next}, nil, with(func(m *Metadata) { m.AZID = "use2-az2" }), "its instance i-1 is in use2-az2, but reservation cr-now is in use2-az1"},
		"no reservation":        {nil, nil, with(func(m *Metadata) { m.InstanceType = "g5.xlarge" }), ""},
		"all have ended":        {[]Reservation{past}, nil, right, ""},
		"EC2 does not know one": {[]Reservation{now}, []string{"cr-now", "cr-lost"}, with(func(m *Metadata) { m.ReservationID = "cr-lost" }), ""},
		"one of several":        {[]Reservation{odcr("cr-a", "use2-az2"), odcr("cr-b", "use2-az1")}, nil, right, ""},
		"none of several": {[]Reservation{odcr("cr-a", "use2-az2"), odcr("cr-b", "use2-az1")}, nil, with(func(m *Metadata) { m.InstanceType = "g5.xlarge" }),
			"its instance i-1 is a g5.xlarge, but reservation cr-b is for p5.48xlarge"},
		"none of several, and none is nearer": {[]Reservation{odcr("cr-a", "use2-az2"), odcr("cr-b", "use2-az3")}, nil, right,
			"its instance i-1 is in use2-az1, but reservation cr-a is in use2-az2"},
		"two things": {[]Reservation{now}, nil, Metadata{"i-1", "g5.xlarge", "use2-az3", ""},
			"its instance i-1 is a g5.xlarge, but reservation cr-now is for p5.48xlarge; it is in use2-az3, but reservation cr-now is in use2-az1"},
	} {
		t.Run(name, func(t *testing.T) {
			slot := Slot{Name: "gpu", ReservationIDs: c.ids}
			if c.ids == nil {
				for _, r := range c.has {
					slot.ReservationIDs = append(slot.ReservationIDs, r.ID)
				}
			}
			snap := &Snapshot{Reservations: c.has, Partitions: []Partition{{Groups: []NodeGroup{{Slots: []Slot{{Name: "other"}}}, {Slots: []Slot{{Name: "x"}, slot}}}}}}
			found, ok := snap.Slot("gpu")
			if !ok {
				t.Fatal("the slot is not found")
			}
			if first, ok := snap.Slot("other"); !ok || first.Name != "other" {
				t.Errorf("the first slot of a node group is found as %q", first.Name)
			}
			if got := snap.Misplaced(found, c.m, noon); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	if _, ok := (&Snapshot{}).Slot("gpu"); ok {
		t.Error("a slot that is not there is found")
	}
}
