package lifecycle

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Event is the next thing that happens to a slot.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// SlotStatus is the state of a slot now, for people.
type SlotStatus struct {
	Partition   capacity.Partition
	Group       capacity.NodeGroup
	Slot        capacity.Slot
	Reservation capacity.Reservation // zero if none is live
	// Window is the reservation's window; if none is live, that of the one that ended last.
	Window capacity.Window
	// Unknown: EC2 did not describe the slot's reservation.
	Unknown bool
	Next    Event
}

// Slots returns the state of each slot of a snapshot.
func Slots(snap *capacity.Snapshot, now time.Time) []SlotStatus {
	var all []SlotStatus
	for _, v := range views(snap, now) {
		if v.current.ID == "" {
			v.window = v.last
		}
		all = append(all, SlotStatus{Partition: v.partition, Group: v.group, Slot: v.slot, Reservation: v.current,
			Window: v.window, Unknown: v.unknown, Next: v.event(now)})
	}
	return all
}

func (v slotView) event(now time.Time) Event {
	if v.current.ID == "" {
		return Event{}
	}
	candidates := []Event{
		{v.window.Start, "opens"}, {v.window.Fence, "fence"},
		{v.window.Reclaim, "EC2 takes instances back"}, {v.window.End, "ends"},
	}
	for _, e := range candidates {
		if e.At.After(now) {
			return e
		}
	}
	return Event{}
}

// NextBoundary is the next moment at which a reservation of the snapshot opens, warns or requeues its jobs, meets its
// fence or ends; false if there is none.
func NextBoundary(snap *capacity.Snapshot, now time.Time) (at time.Time, ok bool) {
	for _, v := range views(snap, now) {
		all := []time.Time{v.event(now).At}
		if fence := v.window.Fence; !fence.IsZero() {
			all = append(all, capacity.RequeueAt(fence, snap.KillWait.Duration))
			for _, minutes := range warnings {
				all = append(all, fence.Add(-time.Duration(minutes)*time.Minute))
			}
		}
		for _, t := range all {
			if t.After(now) && (!ok || t.Before(at)) {
				at, ok = t, true
			}
		}
	}
	return at, ok
}
