package lifecycle

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file keeps jobs from being cut by a mistake: a job that a fence ends is lost, and a fence that stands where it
// was a minute longer costs nothing.

// slotStates returns the state of every slot, with the fence that this pass uses.
func (s View) slotStates() []capacity.SlotState {
	all := s.Snap.SlotStates(s.Now)
	if s.Cluster == nil {
		return all
	}

	for i := range all {
		v := &all[i]
		v.Window.Fence = s.effectiveFence(v.Slot.Name, v.Reservation.ID, v.Window.Fence)
		v.Next.Window.Fence = s.effectiveFence(v.Slot.Name, v.Next.Reservation.ID, v.Next.Window.Fence)
		v.Last.Fence = s.effectiveFence(v.Slot.Name, v.LastID, v.Last.Fence)
	}

	return all
}

// effectiveFence returns the time that this pass uses for a fence. computed follows from the settings and EC2; zero
// means none. A fence stays where it is unless EC2 has described its reservation in this pass. It moves to an earlier
// time only if the last pass computed one too, and then to the later of the two.
func (s View) effectiveFence(slot, block string, computed time.Time) time.Time {
	have, stands := s.findGuard(capacity.Guard{
		Kind:  capacity.GuardFence,
		Slot:  slot,
		Block: block,
		Owner: s.Owner,
	})
	if !stands || computed.IsZero() {
		return computed
	}

	standing := s.toAWSTime(have.Start)

	// EC2 said nothing about it: silence moves no fence (R8).
	if !s.Told[block] {
		return standing
	}

	// Later costs nothing and may be an extension, so it counts at once.
	if isNear(computed, standing) || computed.After(standing) {
		return computed
	}

	// Earlier may end jobs: it takes two passes that agree (R8).
	before, known := s.previousFence(block)
	if !known || before.After(standing) {
		return standing
	}

	// Both are earlier than the standing fence: the milder one.
	if before.After(computed) {
		return before
	}

	return computed
}

// previousFence returns the fence of a block by what the last pass read.
func (s View) previousFence(block string) (fence time.Time, known bool) {
	r, known := s.old().Reservation(block)
	if !known {
		return fence, false
	}

	fence = s.Old.Timing.Window(r).Fence

	return fence, !fence.IsZero()
}

// findGuard returns our Slurm reservation for a place; of several, the one that begins first.
func (s View) findGuard(of capacity.Guard) (first capacity.SlurmReservation, stands bool) {
	for _, r := range s.Cluster.Reservations {
		g := r.Guard()
		ours := r.IsOurs() && g.Owner == of.Owner && g.Key() == of.Key()
		if ours && (!stands || r.Start.Before(first.Start)) {
			first = r
			stands = true
		}
	}

	return first, stands
}

// keepTimes returns a wanted Slurm reservation, in Slurm's clock. It keeps the present times if EC2 has not described
// the reservation in this pass.
func (s View) keepTimes(w capacity.SlurmReservation) capacity.SlurmReservation {
	have, stands := s.findGuard(w.Guard())
	over := !have.End.IsZero() && !have.End.After(s.SlurmNow())
	if stands && !over && !s.Told[w.Guard().Block] {
		w.Start = have.Start
		w.End = have.End
	}

	return w
}

// formerSlots returns the slots of the last snapshot whose reservation is live and that the settings do not give them
// any more, each alone in a partition and with only that reservation. One whose fence somebody has removed is
// forgotten.
func formerSlots(s View) (all []capacity.Partition) {
	for _, v := range s.old().SlotStates(s.Now) {
		r, known := s.Snap.Reservation(v.Reservation.ID)
		now, _ := s.Snap.FindSlot(v.Slot.Name)
		if !known || !r.IsLiveAt(s.Now) || v.Slot.Nodes == "" ||
			now.Slot != nil && slices.Contains(now.Slot.ReservationIDs, r.ID) {
			continue
		}

		// An administrator who deletes the fence of a forgotten slot wants it gone.
		if s.Cluster != nil {
			if _, there := s.Cluster.fence(v.Slot.Name, r.ID); !there {
				continue
			}
		}

		p := *v.Partition
		g := *v.Group
		slot := *v.Slot
		slot.ReservationIDs = []string{r.ID}
		g.Slots = []capacity.Slot{slot}
		p.Groups = []capacity.NodeGroup{g}
		all = append(all, p)
	}

	return all
}

func (c *Cluster) fence(slot, block string) (fence capacity.SlurmReservation, there bool) {
	for _, r := range c.Reservations {
		if r.IsFenceFor(slot, block) {
			return r, true
		}
	}

	return fence, false
}
