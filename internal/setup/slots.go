package setup

import (
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Slot is a slot with everything of ours that is there: setup asks whether it is free, teardown removes it.
type Slot struct {
	Name          string                     // of the node group, and of its nodes' feature in Slurm
	Base          string                     // the node group in the settings
	Group         *pcs.NodeGroup             // nil while the slot has no node group
	ReservationID string                     // the value of our tag; "" if there is none
	Owned         bool                       // the node group has our tag
	Instances     int                        // how many the node group has
	Template      capacity.LaunchTemplate    // of the slot's name; zero if there is none
	Uses          capacity.LaunchTemplate    // that our node group launches with
	Reservations  *capacity.ReservationGroup // the Capacity Reservation group that its nodes are launched into; nil for none
	Nodes         []string                   // from the settings and from the tags of instances
	Slurm         SlurmSlot
}

// HasReservation reports whether the slot was set up for the reservation, or half of it was before a run was cut off:
// the tag is written first, the template follows.
func (s Slot) HasReservation(reservationID string) bool {
	return s.Owned && reservationID != "" && s.ReservationID == reservationID
}

// LaunchesInto reports whether the node group's launch template has the reservation. The tag alone proves nothing: a
// killed run may have written it first.
func (s Slot) LaunchesInto(reservationID string) bool {
	return s.Owned && reservationID != "" && s.Uses.ReservationID == reservationID
}

// HasFailed reports whether PCS could not create the node group in an earlier run of ours: then it is made anew.
func (s Slot) HasFailed() bool { return s.Owned && s.Group.Status == pcs.CreateFailed }

// SlurmSlot is a slot in Slurm.
type SlurmSlot struct {
	Nodes        []string
	Jobs         []string // the ids of jobs on nodes of the slot, as squeue shows them
	Reservations []string // the names of our Slurm reservations for the slot
}

// Fenced reports whether the fence for an EC2 reservation stands on the slot.
func (s SlurmSlot) Fenced(reservationID string) bool {
	return slices.ContainsFunc(s.Reservations, func(name string) bool {
		g, ours := capacity.ParseGuard(name)
		return ours && g.Kind == capacity.GuardFence && g.Block == reservationID
	})
}

// slurmState is the state of a cluster in Slurm.
type slurmState struct {
	Nodes        []capacity.Node
	Partitions   []capacity.SlurmPartition
	Reservations []capacity.SlurmReservation
	Jobs         []capacity.Job
}

// QueueJobs are the jobs of a partition: how many wait, and the ids of those that run.
type QueueJobs struct {
	Waiting int
	Running []string
}

// Slots returns the slots by name, each with the nodes whose names tell it, and more that do not; and the jobs of a
// partition. Partitions count as well as nodes, of which Slurm may hide those that are powered down.
func (s slurmState) Slots(partition string, more map[string][]string) (slots map[string]SlurmSlot, jobs QueueJobs) {
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}

	for _, p := range s.Partitions {
		names = append(names, p.Nodes...)
	}

	slots = map[string]SlurmSlot{}
	for name, nodes := range more {
		slots[name] = s.slot(name, names, nodes)
	}

	for _, j := range s.Jobs {
		switch {
		case j.Partition != partition:
		case j.Pending():
			jobs.Waiting++
		case j.Active():
			jobs.Running = append(jobs.Running, j.Shown)
		}
	}

	return slots, jobs
}

// slot returns the slot of a name: those of all nodes whose names tell it, and more that do not.
func (s slurmState) slot(name string, all, more []string) (slot SlurmSlot) {
	for _, node := range all {
		of, named := capacity.SlotOf(node)
		if (named && of == name || slices.Contains(more, node)) && !slices.Contains(slot.Nodes, node) {
			slot.Nodes = append(slot.Nodes, node)
		}
	}

	for _, r := range s.Reservations {
		if r.IsOurs() && r.Guard().Slot == name {
			slot.Reservations = append(slot.Reservations, r.Name)
		}
	}

	isOfSlot := func(node string) bool { return slices.Contains(slot.Nodes, node) }
	for _, j := range s.Jobs {
		if j.Active() && !j.Pending() && slices.ContainsFunc(j.Nodes, isOfSlot) {
			slot.Jobs = append(slot.Jobs, j.Shown)
		}
	}

	return slot
}
