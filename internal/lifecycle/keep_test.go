package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A slot that the settings have no more keeps its fence while its reservation is live.
func TestFormerSlots(t *testing.T) {
	live := block("cr-0", "-1h", "24h", capacity.StateActive)
	old := oneSlot("ec2", []string{"cr-0"}, live)
	old.Partitions[0].Groups[0].Slots[0].Nodes = "gpu-[1-2]"
	before := liveSlots(old, noon)
	if len(before) != 1 || before[0].Name != "gpu" || before[0].Groups[0].Slots[0].Nodes != "gpu-[1-2]" {
		t.Fatalf("live slots: %+v", before)
	}
	for name, c := range map[string]struct {
		now  *capacity.Snapshot
		want int
	}{
		"the settings have it still":   {oneSlot("ec2", []string{"cr-0"}, live), 0},
		"the partition is gone":        {&capacity.Snapshot{Reservations: []capacity.Reservation{live}}, 1},
		"another reservation is there": {oneSlot("ec2", []string{"cr-1"}, live, block("cr-1", "-1h", "24h", capacity.StateActive)), 1},
		"it has ended":                 {&capacity.Snapshot{Reservations: []capacity.Reservation{block("cr-0", "-1h", "0s", capacity.StateActive)}}, 0},
		"nothing is known of it":       {&capacity.Snapshot{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := former(before, c.now, noon); len(got) != c.want {
				t.Errorf("%+v, want %d", got, c.want)
			}
		})
	}
	old.ClockOffset.Duration = 25 * time.Hour // by AWS's clock the block has ended
	if ended := liveSlots(old, noon); len(ended) > 0 {
		t.Errorf("live by the machine's clock alone: %+v", ended)
	}
	if diff := cmp.Diff([]capacity.Partition(nil), liveSlots(nil, noon)); diff != "" {
		t.Errorf("before the first pass: %s", diff)
	}
	for name, snap := range map[string]*capacity.Snapshot{
		"without nodes":             oneSlot("ec2", []string{"cr-0"}, live),
		"with nothing that is live": oneSlot("ec2", []string{"cr-0"}, block("cr-0", "-9h", "-1h", capacity.StateExpired)),
	} {
		if name != "without nodes" {
			snap.Partitions[0].Groups[0].Slots[0].Nodes = "gpu-1"
		}
		if got := liveSlots(snap, noon); len(got) > 0 {
			t.Errorf("a slot %s is live: %+v", name, got)
		}
	}
}

// Only a fence that is there still is kept: who takes it away by hand has decided.
func TestForgetsAFormerSlotWithoutItsFence(t *testing.T) {
	live := block("cr-0", "-1h", "24h", capacity.StateActive)
	fence := reservation("pcs-capacity-fence-gpu", []string{"gpu-1"}, at("23h20m"), at("23h20m"))
	foreign := fence
	foreign.Users = []string{"alice"}
	for name, c := range map[string]struct {
		have []capacity.SlurmReservation
		kept bool
	}{
		"there": {[]capacity.SlurmReservation{fence}, true}, "taken away": {nil, false}, "somebody else's": {[]capacity.SlurmReservation{foreign}, false},
		"another slot's": {[]capacity.SlurmReservation{reservation("pcs-capacity-fence-gpu2", nil, noon, noon)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			former := oneSlot("ec2", []string{"cr-0"}, live).Partitions
			p := passOf(Sources{}, Seen{Snap: &capacity.Snapshot{Former: former, Reservations: []capacity.Reservation{live}}, Cluster: &Cluster{Reservations: c.have}})
			p.forget()
			if len(p.seen.Snap.Former) == 1 != c.kept {
				t.Errorf("former slots: %+v", p.seen.Snap.Former)
			}
			want := []string(nil)
			if c.kept {
				want = []string{"the settings no longer name reservation cr-0 for slot gpu; its fence stays until it ends at 2026-11-21 12:00 UTC, or until `scontrol delete ReservationName=pcs-capacity-fence-gpu`"}
			}
			if diff := cmp.Diff(want, p.seen.Snap.Problems); diff != "" {
				t.Error(diff)
			}
		})
	}
}
