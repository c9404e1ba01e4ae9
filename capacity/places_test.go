package capacity

import "testing"

// Idle nodes of a slot are in its reservation; with several in one slot, only those count
// for one of them that cannot all be in the others.
func TestIdleIn(t *testing.T) {
	used := func(id string, n int) Reservation {
		r := hours(id, -1, 0)
		r.Available = r.Total - n
		return r
	}
	snap := &Snapshot{Reservations: []Reservation{used("a", 4), used("b", 3), used("c", 1), used("d", 4)},
		Partitions: []Partition{{Name: "gpu", Groups: []NodeGroup{{Slots: []Slot{
			{Name: "gpu-a", ReservationIDs: []string{"a", "next"}}, {Name: "gpu-b", ReservationIDs: []string{"b", "c"}}, {Name: "gpu-c", ReservationIDs: []string{"d"}}}}}}}}
	idle := snap.IdleIn(map[string]int{"gpu-a": 5, "gpu-b": 2})
	for id, want := range map[string]int{"a": 4, "next": 0, "b": 1, "c": 0, "d": 0} {
		if got, there := idle[id]; got != want || !there {
			t.Errorf("%s: %d idle, want %d", id, got, want)
		}
	}
}
