package capacity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hours is a reservation that is open from one hour after noon to another one; without
// an end if that is 0. Lead and margin are none in these tests, so that the end is the fence.
func hours(id string, from, to int) Reservation {
	r := Reservation{
		ID:           id,
		Kind:         CapacityBlock,
		State:        StateActive,
		InstanceType: "p5.48xlarge",
		AZID:         "use2-az1",
		Total:        4,
		Available:    4,
		Start:        noon.Add(time.Duration(from) * time.Hour),
	}
	if to != 0 {
		r.End = noon.Add(time.Duration(to) * time.Hour)
	} else {
		r.Kind = ODCR
	}

	return r
}

func expired(r Reservation) Reservation { r.State = StateExpired; return r }

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		reservations []Reservation // in the order of the settings
		holds        string
		want         string // ID FROM behind BEHIND
		current      string // at noon
	}{
		"one after the other, whatever the order of the settings": {
			[]Reservation{hours("b", 10, 20), hours("a", -1, 8)},
			"",
			"a -1, b 10", "a",
		},
		"without a gap": {[]Reservation{hours("a", -1, 8), hours("b", 8, 20)}, "", "a -1, b 8", "a"},
		"overlapping: the second waits until the first has ended": {
			[]Reservation{hours("b", -1, 1), hours("a", -1, 10)},
			"",
			"b -1, a 1 behind b", "b",
		},
		"overlapping, of different starts": {
			[]Reservation{hours("b", 4, 10), hours("a", -1, 5)},
			"",
			"a -1, b 5 behind a", "a",
		},
		"what holds the slot keeps it": {
			[]Reservation{hours("early", -5, 20), hours("a", -1, 10)},
			"a",
			"a -1, early 10 behind a", "a",
		},
		"over before the first has ended": {
			[]Reservation{hours("a", -1, 10), hours("b", 2, 9)},
			"",
			"a -1, b 10 behind a never", "a",
		},
		"one that never gets its turn takes none": {
			[]Reservation{hours("a", -1, 10), hours("b", 2, 9), hours("c", 8, 12)},
			"",
			"a -1, b 10 behind a never, c 10 behind a", "a",
		},
		"a chain": {
			[]Reservation{hours("a", -1, 4), hours("b", 3, 8), hours("c", 7, 12)},
			"",
			"a -1, b 4 behind a, c 8 behind b", "a",
		},
		"without an end they share": {[]Reservation{hours("d", -2, 0), hours("a", -1, 0)}, "", "d -2, a -1", "d a"},
		"without an end, after one that has one": {
			[]Reservation{hours("a", -1, 4), hours("b", -1, 0), hours("c", 1, 0)},
			"",
			"a -1, b 4 behind a, c 4 behind a", "a",
		},
		"behind one without an end": {
			[]Reservation{hours("a", -2, 0), hours("b", -1, 4)},
			"",
			"a -2, b -1 behind a never", "a",
		},
		"what has ended is in nobody's way": {
			[]Reservation{expired(hours("a", -9, -1)), hours("b", -4, 4)},
			"",
			"a -9, b -4", "b",
		},
		"nothing is open": {[]Reservation{hours("b", 10, 20), hours("a", 5, 8)}, "", "a 5, b 10", "a"},
		"none":            {nil, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			snap := &Snapshot{Reservations: c.reservations}
			slot := Slot{Occupant: c.holds}
			for _, r := range c.reservations {
				slot.ReservationIDs = append(slot.ReservationIDs, r.ID)
			}

			var turns, current []string
			for _, turn := range snap.Turns(SlotRef{Slot: &slot}) {
				text := fmt.Sprintf("%s %v", turn.Reservation.ID, turn.Window.Start.Sub(noon).Hours())
				if turn.Never {
					text = fmt.Sprintf(
						"%s %v",
						turn.Reservation.ID,
						later(turn.Window.Start, turn.Reservation.Start).Sub(noon).Hours(),
					)
				}

				if turn.Behind != "" {
					text += " behind " + turn.Behind
				}

				if turn.Never {
					text += " never"
				}

				turns = append(turns, text)
			}

			for _, turn := range snap.SlotState(SlotRef{Slot: &slot}, noon).Current {
				current = append(current, turn.Reservation.ID)
			}

			if got := strings.Join(turns, ", "); got != c.want {
				t.Errorf("turns %q, want %q", got, c.want)
			}

			if got := strings.Join(current, " "); got != c.current {
				t.Errorf("current %q, want %q", got, c.current)
			}
		})
	}
}

func TestStanding(t *testing.T) {
	slot := Slot{ReservationIDs: []string{"a", "b", "c"}}
	for name, c := range map[string]struct {
		reservations []Reservation
		at           int
		want         string // current, next, hour of the last end, unknown
	}{
		"the first": {
			[]Reservation{hours("a", -1, 4), hours("b", 5, 8), hours("c", 9, 12)},
			0,
			"a b 0 false",
		},
		"between them": {
			[]Reservation{hours("a", -1, 4), hours("b", 5, 8), hours("c", 9, 12)},
			4,
			"b c 0 false",
		},
		"all have ended": {
			[]Reservation{hours("a", -1, 4), hours("b", 5, 8), expired(hours("c", 9, 12))},
			20,
			"  12 false",
		},
		"EC2 does not describe one": {[]Reservation{hours("a", -1, 4)}, 0, "a  0 false"},
		"EC2 describes none":        {nil, 0, "  0 true"},
		"ended, and one not known":  {[]Reservation{hours("a", -1, 4)}, 5, "  4 true"},
		"what waits is next": {
			[]Reservation{hours("a", -1, 4), hours("b", -1, 8), expired(hours("c", -9, -3))},
			0,
			"a b 0 false",
		},
		"its turn has come": {
			[]Reservation{hours("a", -1, 4), hours("b", -1, 8), expired(hours("c", -9, -3))},
			4,
			"b  0 false",
		},
		"next is none that never is": {
			[]Reservation{hours("a", -1, 9), hours("b", -1, 8), hours("c", 9, 12)},
			0,
			"a c 0 false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := (&Snapshot{Reservations: c.reservations}).SlotState(
				SlotRef{Slot: &slot},
				noon.Add(time.Duration(c.at)*time.Hour),
			)
			last := "0"
			if !at.Last.End.IsZero() {
				last = fmt.Sprint(at.Last.End.Sub(noon).Hours())
			}

			if got := fmt.Sprintf("%s %s %s %t", at.Reservation.ID, at.Next.Reservation.ID, last, at.Unknown); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// world is a node group of provider ec2 and what EC2 has for it while time goes on.
type world struct {
	settings Settings
	all      []Reservation
}

func newWorld(slots int) *world {
	return &world{settings: Settings{Partitions: []PartitionSettings{{
		Name: "gpu", Provider: ProviderEC2,
		Groups: []GroupSettings{
			{Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: CapacityBlock, MaxNodes: 8, Slots: slots},
		},
	}}}}
}

func (w *world) add(r Reservation) {
	w.all = append(w.all, r)
	g := &w.settings.Partitions[0].Groups[0]
	g.ReservationIDs = append(g.ReservationIDs, r.ID)
}

// pass is what sync makes of the world at a time.
func (w *world) pass(at time.Time, before *Snapshot, instances []Instance) *Snapshot {
	facts := Facts{Before: before, Instances: instances, Now: at}
	for _, r := range w.all {
		switch {
		case !r.End.IsZero() && !r.End.After(at):
			r.State = StateExpired
		case r.Start.After(at):
			r.State = StateScheduled
		}

		facts.Reservations = append(facts.Reservations, r)
	}

	snap := Build(w.settings, facts)
	snap.TakenAt = at

	return snap
}

// current is the reservation that has each slot and has begun.
func current(snap *Snapshot) map[string]string {
	has := map[string]string{}
	for _, at := range snap.SlotStates(snap.TakenAt) {
		if at.Reservation.ID != "" && !at.Window.Start.After(snap.TakenAt) {
			has[at.Slot.Name] = at.Reservation.ID
		}
	}

	return has
}

// After the snapshot was lost, Slurm's fences say which of two blocks has the slot, and an instance says it better. A
// fence of what has ended says nothing.
func TestAFenceSaysWhichBlockHasTheSlot(t *testing.T) {
	w := newWorld(1)
	w.add(hours("cr-late", -20, 90)) // bought when the other had the slot already
	w.add(hours("cr-has", -10, 24))
	w.add(hours("cr-over", -30, -20))
	w.add(hours("cr-next", 5, 10))

	fence := func(id string, hour int) SlurmReservation {
		return SlurmReservation{
			Name:  Guard{Kind: GuardFence, Slot: "gpu", Block: id, Owner: "0123abcd"}.String(),
			Start: noon.Add(time.Duration(hour) * time.Hour),
		}
	}
	both := []SlurmReservation{fence("cr-late", 89), fence("cr-has", 23), fence("cr-over", -21), fence("cr-next", 9)}
	inLate := []Instance{{State: "running", Tags: map[string]string{TagReservation: "cr-late", TagNode: "gpu-1"}}}

	for _, c := range []struct {
		fences    []SlurmReservation
		instances []Instance
		want      string
	}{
		{nil, nil, "cr-late"},
		{both, nil, "cr-has"},
		{both[:1], nil, "cr-late"},
		{both, inLate, "cr-late"},
	} {
		snap := Build(w.settings, Facts{Reservations: w.all, Fences: c.fences, Instances: c.instances, Now: noon})
		snap.TakenAt = noon

		if got := current(snap)["gpu"]; got != c.want {
			t.Errorf("with %d fences and %d instances the slot is %s's, not %s's", len(c.fences), len(c.instances), got,
				c.want)
		}
	}
}

// An earlier block that ends does not move a later one to its slot: nodes run in it. So it
// is after the snapshot was lost, by the instances, and without any by what has ended.
func TestABlockStaysInItsSlot(t *testing.T) {
	w := newWorld(2)
	w.add(hours("a", -1, 4))
	w.add(hours("b", 1, 9))
	w.add(hours("c", 5, 20))

	at := func(h int) time.Time { return noon.Add(time.Duration(h) * time.Hour) }
	for name, c := range map[string]struct {
		before    *Snapshot
		instances []Instance
	}{
		"by the last snapshot": {before: w.pass(at(3), nil, nil)},
		"by the instances": {
			instances: []Instance{
				{State: "running", Tags: map[string]string{TagReservation: "b", TagNode: "gpu-b-2"}},
				{State: "terminated", Tags: map[string]string{TagReservation: "b", TagNode: "gpu-a-2"}},
			},
		},
		"by what has ended": {},
	} {
		t.Run(name, func(t *testing.T) {
			if got := slots(w.pass(at(6), c.before, c.instances)); got != "gpu-a: c a; gpu-b: b" {
				t.Errorf("got %q", got)
			}
		})
	}
	// What has ended is where its instances are still, behind what is open.
	instances := []Instance{{State: "running", Tags: map[string]string{TagReservation: "a", TagNode: "gpu-b-1"}}}
	if got := slots(w.pass(at(6), nil, instances)); got != "gpu-a: b; gpu-b: c a" {
		t.Errorf("with instances of what has ended: got %q", got)
	}
	// Nobody knows of a block that has ended, and no instance runs: then it may move.
	w.all, w.settings.Partitions[0].Groups[0].ReservationIDs = w.all[1:], []string{"b", "c"}
	if got := slots(w.pass(at(6), nil, nil)); got != "gpu-a: b; gpu-b: c" {
		t.Errorf("alone: got %q", got)
	}

	instances = []Instance{{State: "running", Tags: map[string]string{TagReservation: "b", TagNode: "gpu-b-2"}}}
	if got := slots(w.pass(at(6), nil, instances)); got != "gpu-a: c; gpu-b: b" {
		t.Errorf("with its nodes: got %q", got)
	}

	instances = append(
		instances,
		Instance{State: "running", Tags: map[string]string{TagNode: "gpu-b-3"}},
		Instance{State: "running", Tags: map[string]string{TagReservation: "x"}},
	)
	if got := slots(w.pass(at(6), nil, instances)); got != "gpu-a: c; gpu-b: b" {
		t.Errorf("with nodes on demand beside: got %q", got)
	}
}

// A block that jobs wait for stays where their constraint sends them, also when the settings forget the one beside it.
func TestABlockToComeStaysInItsSlot(t *testing.T) {
	w := newWorld(2)
	w.add(hours("a", -1, 4))
	w.add(hours("b", 6, 9))

	before := w.pass(noon, nil, nil)
	w.all, w.settings.Partitions[0].Groups[0].ReservationIDs = w.all[1:], []string{"b"}
	if got := slots(w.pass(noon.Add(5*time.Hour), before, nil)); got != "gpu-a:; gpu-b: b" {
		t.Errorf("got %q", got)
	}
}

// In any order of purchases, settings and ends: a reservation keeps its slot until it ends, a slot has one with an
// end at a time, and none waits while another slot is free for it.
func TestSlotsWhileTimeGoesOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	waited := 0
	for round := range 2000 {
		w := newWorld(1 + rng.IntN(2))

		w.settings.Partitions[0].Groups[0].PurchaseOption = ODCR

		var before *Snapshot

		has := map[string]string{}
		for step := range 12 {
			at := noon.Add(time.Duration(step) * time.Hour)
			for len(w.all) < 6 && rng.IntN(2) == 0 {
				from := step + rng.IntN(6) - 3
				to := from + 1 + rng.IntN(6)
				if rng.IntN(8) == 0 {
					to = 0 // no end
				}

				w.add(hours(fmt.Sprintf("cr-%d", len(w.all)), from, to))
			}

			var instances []Instance
			if rng.IntN(4) == 0 { // the snapshot was lost; nodes run in every slot
				before = nil

				for slot, id := range has {
					instances = append(
						instances,
						Instance{State: "running", Tags: map[string]string{TagReservation: id, TagNode: slot + "-1"}},
					)
				}
			}

			snap := w.pass(at, before, instances)
			has2 := current(snap)
			for slot, id := range has {
				if r, _ := snap.Reservation(id); r.IsLiveAt(at) && has2[slot] != id {
					t.Fatalf(
						"round %d, step %d: %s had slot %s, now %q has it\n%+v",
						round,
						step,
						id,
						slot,
						has2[slot],
						w.all,
					)
				}
			}

			if before != nil {
				for _, next := range before.SlotStates(at) { // what admission and launch went by until now
					slot, id := next.Slot.Name, next.Reservation.ID
					if id != "" && !next.Window.Start.After(at) && has2[slot] != id {
						t.Fatalf(
							"round %d, step %d: %s has got its turn in slot %s, now %q has it\n%+v",
							round,
							step,
							id,
							slot,
							has2[slot],
							w.all,
						)
					}
				}
			}

			free := w.settings.Partitions[0].Groups[0].SlotNames(ProviderEC2)
			for _, in := range snap.SlotStates(at) {
				slot, turns := in.Slot, snap.Turns(in.SlotRef)
				for i, one := range turns {
					for _, other := range turns[i+1:] {
						overlap := one.Window.Start.Before(other.Window.End) &&
							other.Window.Start.Before(one.Window.End)
						if !one.Never && !other.Never && one.Reservation.State.IsLive() &&
							other.Reservation.State.IsLive() &&
							overlap {
							t.Fatalf("round %d, step %d: two have slot %s at once: %+v", round, step, slot.Name, turns)
						}
					}
				}

				if in.Reservation.ID != "" {
					free = slices.DeleteFunc(free, func(name string) bool { return name == slot.Name })
				}
			}

			waiting := snap.WaitingTurns(at)
			waited += len(waiting)
			if len(waiting) > 0 && len(free) > 0 {
				t.Fatalf(
					"round %d, step %d: %s, and slot %s is free\n%+v",
					round,
					step,
					waiting[0].WaitProblem(),
					free[0],
					w.all,
				)
			}

			before, has = snap, has2
		}
	}

	if waited < 1000 {
		t.Errorf("only %d waited; the test sees too little", waited)
	}
}

func TestWaitingSaysTheWayOut(t *testing.T) {
	for want, w := range map[string]*world{
		"reservation a waits for b, which has slot gpu (until 2026-03-01 13:00 UTC); set slots = 2 for node group " +
			"gpu, or give it a node group of its own to use both at once": newWorld(1),
		"": newWorld(2),
	} {
		w.add(hours("b", -1, 1))
		w.add(hours("a", -1, 10))

		got := ""
		for _, one := range w.pass(noon, nil, nil).WaitingTurns(noon) {
			got += one.WaitProblem().Text()
		}

		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}

	w := newWorld(2)
	w.add(hours("a", -1, 9))
	w.add(hours("b", -1, 10))
	w.add(hours("c", 0, 4))

	all := w.pass(noon, nil, nil).WaitingTurns(noon)
	if len(all) != 1 ||
		all[0].WaitProblem().
			Text() !=
			"reservation c waits for a, which has slot gpu-a (it never gets its turn); give it a node group of its "+
				"own to use both at once" {
		t.Errorf("%v", all)
	}
}

// slots writes the slots of the first node group: "gpu-a: cr-1 cr-2; gpu-b: cr-3".
func slots(snap *Snapshot) string {
	var all []string
	for _, s := range snap.Partitions[0].Groups[0].Slots {
		all = append(all, strings.TrimSpace(s.Name+": "+strings.Join(s.ReservationIDs, " ")))
	}

	return strings.Join(all, "; ")
}

func TestBuildFillsTheSlots(t *testing.T) {
	r := func(id string, state State) Reservation { return Reservation{ID: id, State: state} }
	live := []Reservation{r("1", StateActive), r("2", StateScheduled), r("3", StateScheduled)}
	for name, c := range map[string]struct {
		provider Provider
		seen     Facts
		want     string
	}{
		"ec2: one slot, in the order of the settings": {ProviderEC2, Facts{Reservations: live}, "gpu: 1 2 3"},
		"pcs: in turn": {ProviderPCS, Facts{Reservations: live}, "gpu-a: 1 3; gpu-b: 2"},
		"pcs: what a slot was set up for comes first": {
			ProviderPCS,
			Facts{Reservations: live, Held: map[string]string{"gpu-a": "3"}},
			"gpu-a: 3 2; gpu-b: 1",
		},
		"pcs: a slot that was set up for none": {
			ProviderPCS,
			Facts{Reservations: live, Held: map[string]string{"gpu-a": ""}},
			"gpu-a: 1 3; gpu-b: 2",
		},
		"pcs: set up for one of no settings": {
			ProviderPCS,
			Facts{Reservations: live, Held: map[string]string{"gpu-b": "9"}},
			"gpu-a: 1 2; gpu-b: 9 3",
		},
		"pcs: those that ended come last": {
			ProviderPCS,
			Facts{Reservations: []Reservation{r("1", StateExpired), live[1], live[2]}},
			"gpu-a: 2 1; gpu-b: 3",
		},
		"pcs: what EC2 does not describe may still open": {
			ProviderPCS,
			Facts{Reservations: live[1:]},
			"gpu-a: 1 3; gpu-b: 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			settings := Settings{
				Partitions: []PartitionSettings{
					{
						Provider: c.provider,
						Groups:   []GroupSettings{{Name: "gpu", ReservationIDs: []string{"1", "2", "3"}}},
					},
				},
			}
			if got := slots(Build(settings, c.seen)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// While PCS does not answer, its node groups hold what they held; a group that it no longer has holds nothing.
func TestPCSHoldsWhatItHeld(t *testing.T) {
	settings := Settings{
		Partitions: []PartitionSettings{
			{Name: "gpu", Provider: ProviderPCS, Groups: []GroupSettings{{Name: "gpu", PurchaseOption: CapacityBlock}}},
		},
	}
	before := Build(
		settings,
		Facts{Held: map[string]string{"gpu-b": blockA.ID}, Reservations: []Reservation{blockA}, Now: noon},
	)
	for name, held := range map[string]map[string]string{blockA.ID: nil, "": {}} {
		if got := Build(settings, Facts{
			Held:         held,
			Before:       before,
			Reservations: []Reservation{blockA},
			Now:          noon,
		}).Partitions[0].Groups[0].Slots[1].Occupant; got != name {
			t.Errorf("holds %q, want %q", got, name)
		}
	}
}

// What nobody has read anew is as it was; what settings and AWS say is not.
func TestBuildKeepsWhatWasNotRead(t *testing.T) {
	settings := Settings{
		Partitions: []PartitionSettings{{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "gpu"}}}},
	}
	want := Build(settings, Facts{})
	want.DefaultPartition, want.Timing.OverTime.Duration, want.Orphans = "cpu", time.Hour, []Orphan{{Instance: "i-1"}}
	p := &want.Partitions[0]
	p.MaxTime, p.QOS, p.Groups[0].GPUs, p.Groups[0].CPUs = Minutes(60), "short", 8, 96
	p.Groups[0].Slots[0] = Slot{
		Name:      "gpu",
		Feature:   "gpu",
		Nodes:     "gpu-[1-2]",
		Count:     2,
		Out:       []NodesOut{{Nodes: "gpu-1"}},
		PoweredUp: noon,
	}

	before := *want
	before.Problems, before.Former, before.Missing = Problems{{}}, []Partition{{}}, map[string]time.Time{"cr-1": noon}
	before.Reservations = []Reservation{blockA}
	if diff := cmp.Diff(want, Build(settings, Facts{Before: &before, Now: noon})); diff != "" {
		t.Error(diff)
	}
}

func TestBuildSelectsByTags(t *testing.T) {
	r := func(id, team string, start time.Duration) Reservation {
		return Reservation{
			ID:    id,
			State: StateActive,
			Tags:  map[string]string{"team": team, "use": "train"},
			Start: noon.Add(start),
		}
	}

	facts := Facts{
		Reservations: []Reservation{
			r("late", "nlp*", 2),
			r("early", "nlp*", 1),
			r("other", "nlp1", 0),
			r("late", "nlp*", 2),
			{ID: "bare"},
		},
	}
	for want, tags := range map[string]map[string]string{
		"gpu: early late": {"team": "nlp*"}, // literal: not nlp1
		"gpu: other":      {"team": "nlp1", "use": "train"},
		"gpu:":            {"team": "nlp1", "use": "test"},
	} {
		settings := Settings{
			Partitions: []PartitionSettings{{Groups: []GroupSettings{{Name: "gpu", Select: &Select{Tags: tags}}}}},
		}
		snap := Build(settings, facts)
		if got := slots(snap); got != want {
			t.Errorf("%v: got %q, want %q", tags, got, want)
		}

		if len(snap.Reservations) != 4 {
			t.Errorf("%d reservations, want each of the 4 once", len(snap.Reservations))
		}
	}

	if (&Select{}).Matches(Reservation{}) || (*Select)(nil).Matches(Reservation{}) {
		t.Error("no tags choose everything")
	}
}

// What no other test decides.

func TestJobNames(t *testing.T) {
	for shown, names := range map[string]map[string]bool{
		"7":   {"7": true, "7_3": false, "70": false},
		"7_3": {"7": true, "7_3": true, "7_4": false},
		"7+1": {"7": true, "7+1": true, "7+2": false},
		"70":  {"7": false},
	} {
		for name, want := range names {
			if got := (Job{Shown: shown}).HasID(name); got != want {
				t.Errorf("%s is %s: %t", shown, name, got)
			}
		}
	}

	j := Job{Partition: "cpu,gpu"}
	if !j.InPartition("cpu") || !j.InPartition("gpu") || j.InPartition("gp") || len(j.Partitions()) != 2 {
		t.Errorf("in %q", j.Partitions())
	}
}

// Slurm's clock may differ from AWS's, which decides.
func TestJobByAnotherClock(t *testing.T) {
	s := twoBlocks(func(s *Snapshot) { s.ClockOffset.Duration = time.Hour })
	j := Job{Partition: "gpu", Account: "nlp", Eligible: noon}
	if r := s.Request(j); !r.Begin.Equal(noon.Add(time.Hour)) || !r.Deadline.IsZero() || !r.AccountKnown ||
		r.Account != "nlp" {
		t.Errorf("asks %+v", r)
	}

	r := SlurmReservation{Start: noon, End: noon.Add(time.Hour)}
	if got := r.ShiftTimes(time.Hour); !got.Start.Equal(noon.Add(time.Hour)) || !got.End.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("%+v", got)
	}

	if got := (SlurmReservation{Start: noon}).ShiftTimes(time.Hour); !got.End.IsZero() {
		t.Errorf("a reservation without an end: %+v", got)
	}
}

// R8: two blocks of a slot overlap. A pass that only remembers the first, and remembers a wrong end, does not give its
// nodes to the second; a pass in which EC2 shows the end does.
func TestR8_MemoryDoesNotEndATurn(t *testing.T) {
	w := newWorld(1)
	first := Reservation{
		ID: "cr-1", Kind: CapacityBlock, State: StateActive, InstanceType: "p5.48xlarge", Total: 4,
		Start: noon.Add(-24 * time.Hour), End: noon.Add(4 * time.Hour),
	}
	second := first
	second.ID = "cr-2"
	second.Start = noon.Add(-time.Hour)
	second.End = noon.Add(48 * time.Hour)

	w.add(first)
	w.add(second)

	before := w.pass(noon.Add(-2*time.Hour), nil, nil)
	before = w.pass(noon.Add(-time.Minute), before, nil)

	// An old state_dir is back, and EC2 is silent.
	old := *before
	old.Reservations = slices.Clone(before.Reservations)
	old.Reservations[0].End = noon.Add(-2 * time.Hour)
	misled := Build(w.settings, Facts{
		Before:       &old,
		Reservations: old.Reservations,
		Remembered:   map[string]bool{"cr-1": true, "cr-2": true},
		Now:          noon,
	})
	misled.TakenAt = noon

	for name, snap := range map[string]*Snapshot{
		"as EC2 said before":     before,
		"after the next answer":  w.pass(noon.Add(time.Minute), misled, nil),
		"until its end":          w.pass(noon.Add(4*time.Hour-time.Minute), misled, nil),
		"with an old state_dir":  w.pass(noon, &old, nil),
		"EC2 shows that it ends": w.pass(noon.Add(4*time.Hour), misled, nil),
	} {
		want := "cr-1"
		if name == "EC2 shows that it ends" {
			want = "cr-2"
		}

		if got := current(snap)["gpu"]; got != want {
			t.Errorf("%s: %s has the slot, want %s", name, got, want)
		}
	}
}
