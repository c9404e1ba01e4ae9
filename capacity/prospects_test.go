package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Where a job may run, in the order of opening, and what is in its way elsewhere.
func TestProspects(t *testing.T) {
	const a, b = "gpu/gpu-a fits, needs 2 of 4", "gpu/gpu-b fits, needs 2 of 8"

	gpu := []string{"gpu"}
	limited := Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(60)}
	toFenceA := Minutes(47*60 + 20)
	for name, c := range map[string]struct {
		req    Request
		change func(*Snapshot)
		want   string
		passed int
	}{
		"two blocks":     {req: limited, want: a + "; " + b},
		"in their order": {req: limited, change: largerFirst, want: a + "; " + b},
		"behind another's": {
			req:  Request{Partitions: []string{"cpu", "gpu"}, Nodes: 2, TimeLimit: Minutes(60)},
			want: a + "; " + b,
		},
		"to the fence": {req: Request{Partitions: gpu, Nodes: 2, TimeLimit: toFenceA}, change: onlyA, want: a},
		"past the fence": {
			req:    Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(toFenceA.Minutes + 1)},
			change: onlyA,
			want:   strings.Replace(a, "fits", "too short", 1),
		},
		"its least": {
			req:    Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(99999), TimeMin: toFenceA},
			change: onlyA,
			want:   a,
		},
		"least of no limit": {
			req:    Request{Partitions: gpu, Nodes: 2, TimeLimit: NoLimit, TimeMin: toFenceA},
			change: onlyA,
			want:   a,
		},
		"more than its limit": {
			req:    Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(60), TimeMin: Minutes(99999)},
			change: onlyA,
			want:   a,
		},
		"no limit": {req: Request{Partitions: gpu, Nodes: 2}, change: onlyA, want: a},
		"no limit, no floor": {
			req:    Request{Partitions: gpu, Nodes: 2},
			change: func(s *Snapshot) { onlyA(s); s.Partitions[0].MinTime = Duration{72 * time.Hour} },
			want:   strings.Replace(a, "fits", "too short", 1),
		},
		"unlimited": {
			req:    Request{Partitions: gpu, Nodes: 2, TimeLimit: NoLimit},
			change: onlyA,
			want:   strings.Replace(a, "fits", "too short", 1),
		},
		"too many nodes": {
			req:  Request{Partitions: gpu, Nodes: 5, TimeLimit: Minutes(60)},
			want: strings.Replace(b, "needs 2", "needs 5", 1),
		},
		"a failed host": {
			req:    limited,
			change: func(s *Snapshot) { onlyA(s); s.Reservations[0].Unhealthy = 3 },
			want:   strings.Replace(a, "of 4", "of 1", 1),
		},
		"another account": {
			req:    Request{Partitions: gpu, Account: "cv", AccountKnown: true, Nodes: 2, TimeLimit: Minutes(60)},
			change: forNLP,
			want:   "",
		},
		"EC2 forgot the first": {
			req:    limited,
			change: func(s *Snapshot) { s.Reservations = s.Reservations[1:] },
			want:   b,
		},
		"the first has ended": {
			req:    limited,
			change: func(s *Snapshot) { s.Reservations[0].State = StateExpired },
			want:   b,
		},
		"the first is no match": {
			req:    limited,
			change: func(s *Snapshot) { s.Reservations[0].InstanceType = "p4d.24xlarge" },
			want:   b,
			passed: 1,
		},
		"neither is a match": {req: limited, change: func(s *Snapshot) {
			s.Reservations[0].InstanceType, s.Reservations[1].InstanceType = "p4d.24xlarge", "p4d.24xlarge"
		}, passed: 2},
		"no match, and has ended": {req: limited, change: func(s *Snapshot) {
			s.Reservations[0].InstanceType, s.Reservations[0].State = "p4d.24xlarge", StateExpired
		}, want: b},
		"one never has its turn": {req: limited, change: func(s *Snapshot) {
			onlyA(s)
			slot := &s.Partitions[0].Groups[0].Slots[0]
			slot.ReservationIDs, slot.Occupant = []string{blockA.ID, blockB.ID}, blockA.ID
			s.Reservations[1].Start, s.Reservations[1].End, s.Reservations[1].InstanceType = noon, noon.Add(24*time.Hour), "p4d.24xlarge"
		}, want: a},
	} {
		s := twoBlocks()
		if c.change != nil {
			c.change(s)
		}

		var got []string
		for _, p := range Prospects(c.req, s, noon) {
			fits := map[bool]string{true: "fits", false: "too short"}[p.Fits]
			got = append(
				got,
				fmt.Sprintf("%s/%s %s, needs %d of %d", p.Partition.Name, p.Slot.Name, fits, p.Needs, p.Usable),
			)
		}

		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}

		if passed := MismatchProblems(c.req, s, noon); len(passed) != c.passed {
			t.Errorf("%s: passed over %v", name, passed)
		}
	}

	if passed := MismatchProblems(Request{
		Partitions: []string{"cpu", "gpu"},
	}, twoBlocks(func(s *Snapshot) { s.Reservations[0].InstanceType = "p4d.24xlarge" }), noon); len(
		passed,
	) != 1 {
		t.Errorf("behind an unmanaged partition: %v", passed)
	}
}

// Where an ODCR is created for a job, and where a job that asks for one is refused.
func TestWhereCapacityIsHeld(t *testing.T) {
	onDemand, block := NodeGroup{PurchaseOption: OnDemand}, NodeGroup{PurchaseOption: CapacityBlock}

	always := NodeGroup{PurchaseOption: OnDemand, Reserve: ReservePerJob}
	asks := []Wish{{}, {Capacity: ReserveCapacity}}
	prefers := []Wish{{Capacity: PreferCapacity}}
	for name, c := range map[string]struct {
		group  NodeGroup
		wishes []Wish
		off    bool
		held   bool
		strict bool
	}{
		"for every job":              {always, []Wish{{}}, false, true, true},
		"for no job":                 {always, nil, false, false, false},
		"switched off":               {always, asks, true, false, false},
		"as asked":                   {onDemand, asks, false, true, true},
		"not asked":                  {onDemand, []Wish{{}}, false, false, false},
		"in a block":                 {block, asks, false, false, false},
		"preferred":                  {onDemand, prefers, false, true, false},
		"preferred to the settings":  {always, prefers, false, true, false},
		"preferred beside any":       {onDemand, append(prefers, Wish{}), false, true, false},
		"preferred beside a need":    {onDemand, append(prefers, asks...), false, true, true},
		"preferred beside a default": {always, append(prefers, Wish{}), false, true, true},
		"preferred in a block":       {block, prefers, false, false, false},
		"preferred, switched off":    {onDemand, prefers, true, false, false},
	} {
		held, strict := c.group.Holds(c.wishes, &Snapshot{ReserveOff: c.off})
		if held != c.held || strict != c.strict {
			t.Errorf("%s: held %t, strict %t", name, held, strict)
		}
	}

	for name, c := range map[string]struct {
		provider Provider
		group    NodeGroup
		off      bool
		holds    bool
	}{
		"on demand": {ProviderEC2, onDemand, false, true}, "switched off": {ProviderEC2, onDemand, true, false},
		"of blocks": {ProviderEC2, block, false, false}, "on PCS": {ProviderPCS, onDemand, false, false},
	} {
		turn := Turn{SlotRef: SlotRef{Partition: &Partition{Provider: c.provider}, Group: &c.group}}
		if s := (&Snapshot{ReserveOff: c.off}); turn.matchesWish(Wish{Capacity: ReserveCapacity}, s) != c.holds ||
			!turn.matchesWish(Wish{}, s) || !turn.matchesWish(prefers[0], s) {
			t.Errorf("%s: not %t", name, c.holds)
		}
	}

	g := NodeGroup{
		InstanceType:   "g6.xlarge",
		OtherTypes:     []string{"g5.xlarge"},
		PurchaseOption: OnDemand,
		ReuseIDs:       []string{"cr-1", "cr-2"},
	}
	s := &Snapshot{Reservations: []Reservation{{ID: "cr-1", InstanceType: "g5.xlarge"}}}
	all := reusedTurns(SlotRef{Group: &g}, s)
	for i, want := range []string{"g5.xlarge", "g6.xlarge g5.xlarge"} { // nobody knows the type of the second
		if got := strings.Join(all[i].types(), " "); got != want || all[i].Unknown != (i == 1) ||
			all[i].Reservation.ID != g.ReuseIDs[i] {
			t.Errorf("%s has %s: %+v", g.ReuseIDs[i], got, all[i])
		}
	}

	if got := (Turn{SlotRef: SlotRef{Group: &g}}).types(); len(got) != 2 {
		t.Errorf("on demand: %v", got)
	}

	of := SlotRef{Group: &NodeGroup{InstanceType: "a", PurchaseOption: CapacityBlock}}
	if got := (Turn{SlotRef: of, Reservation: Reservation{ID: "cr-1", InstanceType: "b"}}).types(); got[0] != "a" {
		t.Errorf("a block: %v", got)
	}
}

// Idle nodes of a slot are in its reservation; with several in one slot, only those count
// for one of them that cannot all be in the others.
func TestIdleIn(t *testing.T) {
	used := func(id string, n int) Reservation {
		r := hours(id, -1, 0)
		r.Available = r.Total - n
		return r
	}
	snap := &Snapshot{
		Reservations: []Reservation{used("a", 4), used("b", 3), used("c", 1), used("d", 4)},
		Partitions: []Partition{{Name: "gpu", Groups: []NodeGroup{{Slots: []Slot{
			{
				Name:           "gpu-a",
				ReservationIDs: []string{"a", "next"},
			}, {Name: "gpu-b", ReservationIDs: []string{"b", "c"}}, {Name: "gpu-c", ReservationIDs: []string{"d"}},
		}}}}},
	}

	idle := snap.IdleByReservation(map[string]int{"gpu-a": 5, "gpu-b": 2})
	for id, want := range map[string]int{"a": 4, "next": 0, "b": 1, "c": 0, "d": 0} {
		if got, there := idle[id]; got != want || !there {
			t.Errorf("%s: %d idle, want %d", id, got, want)
		}
	}
}

func TestTimeline(t *testing.T) {
	snap := twoBlocks()
	loose := Reservation{
		ID:    "cr-eeeeeeeeeeeeeeeee",
		Kind:  CapacityBlock,
		State: StateScheduled,
		Start: noon,
		End:   noon.Add(24 * time.Hour),
	}
	old := Reservation{
		ID:    "cr-00000000000000000",
		Kind:  CapacityBlock,
		State: StateExpired,
		Start: noon.Add(-99 * time.Hour),
		End:   noon.Add(-49 * time.Hour),
	}
	snap.Reservations = []Reservation{blockB, loose, old, blockA}

	lanes := Timeline(snap, noon.Add(-48*time.Hour), noon)
	if len(lanes) != 2 || lanes[0].Partition != "gpu" || lanes[1].Partition != "" {
		t.Fatalf("lanes %+v, want gpu and the blocks of no partition", lanes)
	}

	var order []string
	for _, b := range append(lanes[0].Blocks, lanes[1].Blocks...) {
		order = append(order, b.Reservation.ID)
	}

	if diff := cmp.Diff([]string{blockA.ID, blockB.ID, loose.ID}, order); diff != "" {
		t.Error(diff)
	}
	// Block A is usable until 40 minutes before its end; then nothing until B starts.
	want := []Period{{blockA.End.Add(-40 * time.Minute), blockB.Start}}
	if diff := cmp.Diff(want, lanes[0].Gaps); diff != "" {
		t.Error(diff)
	}

	snap.Reservations = []Reservation{blockB}
	if diff := cmp.Diff([]Period{{noon, blockB.Start}}, Timeline(snap, noon, noon)[0].Gaps); diff != "" {
		t.Error("before the first block: ", diff)
	}
	// A reservation that waits for its slot begins with its turn.
	overlapping := blockB
	overlapping.Start = blockA.Start.Add(time.Hour)
	snap.Reservations = []Reservation{blockA, overlapping}
	g := &snap.Partitions[0].Groups[0]
	slots := g.Slots

	g.Slots = []Slot{{Name: "gpu", ReservationIDs: []string{blockA.ID, blockB.ID}}}
	if got := Timeline(snap, noon, noon)[0].Blocks; len(got) != 2 || !got[1].Window.Start.Equal(blockA.End) {
		t.Errorf("overlapping: %+v", got)
	}

	g.Slots = slots
	open := blockA
	open.End = time.Time{}

	snap.Reservations = []Reservation{open, blockB}
	if got := Timeline(snap, noon, noon)[0].Gaps; len(got) != 0 {
		t.Errorf("an open window has gaps %v", got)
	}
}
