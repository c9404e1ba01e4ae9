package capacity

import (
	"fmt"
	"slices"
)

// onDemand: the candidate has no reservation.
func (c candidate) onDemand() bool { return c.reservation.ID == "" }

// types are the instance types that the candidate can give a job.
func (c candidate) types() []string {
	if !c.group.PurchaseOption.Reserved() && !c.onDemand() && !c.unknown {
		return []string{c.reservation.InstanceType}
	}
	return c.group.Types()
}

// reused returns the reservations that an on-demand group uses up first. Their ends do not end jobs: when its ODCR
// ends, an instance continues on demand.
func reused(g NodeGroup, s Slot, boots bool, snap *Snapshot) []candidate {
	var all []candidate
	for _, id := range g.ReuseIDs {
		r, known := snap.Reservation(id)
		if !known {
			r = Reservation{ID: id}
		}
		all = append(all,
			candidate{group: g, slot: s, boots: boots, reservation: r, window: Window{Start: r.Start}, unknown: !known})
	}
	return all
}

// refuseHold refuses a job that asks for an ODCR where none may be created; nil for other jobs.
func (p Partition) refuseHold(w Wish, snap *Snapshot) *Verdict {
	if w.Capacity != ReserveCapacity {
		return nil
	}
	holds := p.Provider.Launches() &&
		slices.ContainsFunc(p.Groups, func(g NodeGroup) bool { return !g.PurchaseOption.Reserved() })
	if holds && !snap.ReserveOff {
		return nil
	}
	why := "its nodes are not launched on demand"
	if holds {
		why = "that is switched off here"
	}
	v := refuse(CannotHold,
		fmt.Sprintf("partition %s holds no capacity for jobs: %s; leave capacity=reserve out", p.Name, why))
	return &v
}

// Holds reports whether an ODCR is created for a job that launches on demand in the group.
func (g NodeGroup) Holds(wishes []Wish, snap *Snapshot) bool {
	if snap.ReserveOff || g.PurchaseOption.Reserved() {
		return false
	}
	return g.Reserve == ReservePerJob && len(wishes) > 0 ||
		slices.ContainsFunc(wishes, func(w Wish) bool { return w.Capacity == ReserveCapacity })
}
