package capacity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTimeline(t *testing.T) {
	snap := twoBlocks()
	loose := Reservation{ID: "cr-eeeeeeeeeeeeeeeee", Kind: CapacityBlock, State: StateScheduled, Start: noon, End: noon.Add(24 * time.Hour)}
	old := Reservation{ID: "cr-00000000000000000", Kind: CapacityBlock, State: StateExpired, Start: noon.Add(-99 * time.Hour), End: noon.Add(-49 * time.Hour)}
	snap.Reservations = []Reservation{blockB, loose, old, blockA}
	lanes := Timeline(snap, nil, noon.Add(-48*time.Hour), noon)
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
	if diff := cmp.Diff([]Period{{noon, blockB.Start}}, Timeline(snap, nil, noon, noon)[0].Gaps); diff != "" {
		t.Error("before the first block: ", diff)
	}
	// What waits for its slot begins with its turn.
	overlapping := blockB
	overlapping.Start = blockA.Start.Add(time.Hour)
	snap.Reservations = []Reservation{blockA, overlapping}
	g := &snap.Partitions[0].Groups[0]
	slots := g.Slots
	g.Slots = []Slot{{Name: "gpu", ReservationIDs: []string{blockA.ID, blockB.ID}}}
	if got := Timeline(snap, nil, noon, noon)[0].Blocks; len(got) != 2 || !got[1].Window.Start.Equal(blockA.End) {
		t.Errorf("overlapping: %+v", got)
	}
	g.Slots = slots
	open := blockA
	open.End = time.Time{}
	snap.Reservations = []Reservation{open, blockB}
	if got := Timeline(snap, nil, noon, noon)[0].Gaps; len(got) != 0 {
		t.Errorf("an open window has gaps %v", got)
	}
}
