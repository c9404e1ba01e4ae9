package capacity

import (
	"testing"
	"time"
)

func TestNamesOfGuards(t *testing.T) {
	for name, want := range map[string]Guard{
		"pcs-capacity-fence-gpu-a.cr-0e2000000000000a1.0123abcd":   {Kind: "fence", Slot: "gpu-a", Block: "cr-0e2000000000000a1", Owner: "0123abcd"},
		"pcs-capacity-fence-gpu-a.cr-0e2000000000000a1.0123abcd.2": {Kind: "fence", Slot: "gpu-a", Block: "cr-0e2000000000000a1", Owner: "0123abcd", Second: true},
		"pcs-capacity-wait-gpu.none.0123abcd":                      {Kind: "wait", Slot: "gpu", Owner: "0123abcd"},
		"pcs-capacity-surplus-a.b.cr-0.0123abcd":                   {Kind: "surplus", Slot: "a.b", Block: "cr-0", Owner: "0123abcd"},
	} {
		if got, ok := ParseGuard(name); !ok || got != want || got.String() != name {
			t.Errorf("%s: %+v (%t), which is written %s", name, got, ok, got)
		}
	}
	for _, name := range []string{"", "pcs-capacity-", "pcs-capacity-fence", "pcs-capacity-fence-", "pcs-capacity-other-gpu.cr-0.0123abcd", "pcs-capacity-fence-gpu-a", "gpu-a-scheduled"} {
		if g, ok := ParseGuard(name); ok {
			t.Errorf("%q is taken for %+v", name, g)
		}
	}
}

// A Slurm reservation is ours by its name, its flags and its user together, and fences what its name says.
func TestReservationsOfSlurmThatAreOurs(t *testing.T) {
	const owner = "0badcafe"
	fence := Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockA.ID, Owner: owner}
	made := func(g Guard, change func(*SlurmReservation)) SlurmReservation {
		r := SlurmReservation{Name: g.String(), Flags: []string{"MAINT", "IGNORE_JOBS", "SPEC_NODES"}, Users: []string{"root"}}
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, c := range map[string]struct {
		r            SlurmReservation
		ours, fences bool
	}{
		"a fence":                {made(fence, nil), true, true},
		"the second":             {made(Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockA.ID, Owner: owner, Second: true}, nil), true, true},
		"another block's":        {made(Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockB.ID, Owner: owner}, nil), true, false},
		"another slot's":         {made(Guard{Kind: GuardFence, Slot: "gpu-b", Block: blockA.ID, Owner: owner}, nil), true, false},
		"of another kind":        {made(Guard{Kind: GuardWait, Slot: "gpu-a", Block: blockA.ID, Owner: owner}, nil), true, false},
		"PCS's":                  {made(fence, func(r *SlurmReservation) { r.Name = "pcs-capacity-fence-gpu-scheduled" }), false, false},
		"another name":           {made(fence, func(r *SlurmReservation) { r.Name = "maintenance" }), false, false},
		"without MAINT":          {made(fence, func(r *SlurmReservation) { r.Flags = []string{"IGNORE_JOBS"} }), false, false},
		"without IGNORE_JOBS":    {made(fence, func(r *SlurmReservation) { r.Flags = []string{"MAINT"} }), false, false},
		"another user's":         {made(fence, func(r *SlurmReservation) { r.Users = []string{"alice"} }), false, false},
		"another user's as well": {made(fence, func(r *SlurmReservation) { r.Users = []string{"root", "alice"} }), false, false},
	} {
		if c.r.Ours() != c.ours || c.r.Fences("gpu-a", blockA.ID) != c.fences {
			t.Errorf("%s (%s): ours %t, fences %t", name, c.r.Name, c.r.Ours(), c.r.Fences("gpu-a", blockA.ID))
		}
	}
	second := Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockA.ID, Owner: owner, Second: true}
	if got := second.Place(); got != (Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockA.ID}) {
		t.Errorf("the place of %s is %+v", second, got)
	}
}

// The fence of a job is the earliest one of the slots that have a node of it.
func TestFenceOf(t *testing.T) {
	fenceA := noon.Add(48*time.Hour - 40*time.Minute)
	open := func(s *Snapshot) { // block B, too, and it ends a day after block A
		s.Reservations[1].State, s.Reservations[1].Start, s.Reservations[1].End = StateActive, noon.Add(-time.Hour), blockA.End.Add(24*time.Hour)
	}
	for name, c := range map[string]struct {
		change    func(*Snapshot)
		partition string
		nodes     []string
		want      time.Time
	}{
		"one slot":                {open, "gpu", []string{"gpu-a-2"}, fenceA},
		"the other":               {open, "gpu", []string{"gpu-b-8"}, fenceA.Add(24 * time.Hour)},
		"both, the later first":   {func(s *Snapshot) { open(s); largerFirst(s) }, "gpu", []string{"gpu-a-1", "gpu-b-1"}, fenceA},
		"both, the earlier first": {open, "gpu", []string{"gpu-b-1", "gpu-a-1"}, fenceA},
		"neither":                 {open, "gpu", []string{"cpu-1"}, time.Time{}},
		"another partition":       {open, "cpu", []string{"gpu-a-1"}, time.Time{}},
		"nodes are not known":     {func(s *Snapshot) { open(s); s.Partitions[0].Groups[0].Slots[0].Nodes = "" }, "gpu", []string{"gpu-b-1"}, fenceA},
		"nodes are no hostlist":   {func(s *Snapshot) { open(s); s.Partitions[0].Groups[0].Slots[0].Nodes = "gpu-a-[1-" }, "gpu", []string{"gpu-b-1"}, fenceA},
		"no end":                  {func(s *Snapshot) { s.Reservations[0].Kind, s.Reservations[0].End = ODCR, time.Time{} }, "gpu", []string{"gpu-a-1"}, time.Time{}},
	} {
		s := twoBlocks()
		if c.change != nil {
			c.change(s)
		}
		if got := s.FenceOf(c.partition, c.nodes, noon); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
