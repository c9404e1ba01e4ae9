package setup

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Slurm is the interface of setup and teardown to slurmctld: InSlurm, or a simulated one.
type Slurm interface {
	// Slots returns nodes, jobs and reservations of slots by name, and the number of jobs that wait
	// in a partition. nodes are nodes of a slot whose names do not show it.
	Slots(ctx context.Context, partition string,
		nodes map[string][]string) (slots map[string]SlurmSlot, waiting int, err error)
	// Drain keeps new jobs off the nodes; running jobs go on.
	Drain(ctx context.Context, nodes []string, reason string) error
	// DeleteReservation succeeds, too, if there is no reservation of this name.
	DeleteReservation(ctx context.Context, name string) error
}

// SlurmSlot is a slot in Slurm.
type SlurmSlot struct {
	Nodes []string
	// Jobs are the ids of jobs on nodes of the slot, as squeue shows them.
	Jobs []string
	// Reservations are the names of our Slurm reservations for the slot.
	Reservations []string
}

// fenced reports whether the fence for an EC2 reservation stands on the slot.
func (s SlurmSlot) fenced(reservationID string) bool {
	return slices.ContainsFunc(s.Reservations, func(name string) bool {
		g, ours := capacity.ParseGuard(name)
		return ours && g.Kind == capacity.GuardFence && g.Block == reservationID
	})
}

// InSlurm is the Slurm of a cluster.
type InSlurm struct{ *slurm.Client }

// Slots reads the slots, and counts the jobs that wait in a partition.
func (s InSlurm) Slots(ctx context.Context, partition string,
	nodes map[string][]string) (map[string]SlurmSlot, int, error) {
	// Side by side: each is a process that takes longer to start than slurmctld to answer.
	var seen SlurmSeen
	var errs [4]error
	var reads sync.WaitGroup
	reads.Go(func() { seen.Nodes, errs[0] = s.Nodes(ctx) })
	reads.Go(func() { seen.Partitions, errs[1] = s.Partitions(ctx) })
	reads.Go(func() { seen.Reservations, errs[2] = s.Reservations(ctx) })
	reads.Go(func() { seen.Jobs, errs[3] = s.Jobs(ctx) })
	reads.Wait()
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, 0, err
	}
	slots, waiting := seen.Slots(partition, nodes)
	return slots, waiting, nil
}

// DeleteReservation deletes a Slurm reservation, if it is there.
func (s InSlurm) DeleteReservation(ctx context.Context, name string) error {
	return s.DropReservation(ctx, name)
}

// SlurmSeen is the state of a cluster in Slurm.
type SlurmSeen struct {
	Nodes        []capacity.Node
	Partitions   []capacity.SlurmPartition
	Reservations []capacity.SlurmReservation
	Jobs         []capacity.Job
}

// Slots are the slots by name, each with the nodes whose names tell it, and more that do not; and
// how many jobs wait in a partition.
func (s SlurmSeen) Slots(partition string, more map[string][]string) (slots map[string]SlurmSlot, waiting int) {
	slots = map[string]SlurmSlot{}
	for name, nodes := range more {
		slot := SlurmSlot{Nodes: s.nodesOf(name, nodes)}
		for _, r := range s.Reservations {
			if r.Ours() && r.Guard().Slot == name {
				slot.Reservations = append(slot.Reservations, r.Name)
			}
		}
		for _, j := range s.Jobs {
			if j.Active() && !j.Pending() &&
				slices.ContainsFunc(j.Nodes, func(node string) bool { return slices.Contains(slot.Nodes, node) }) {
				slot.Jobs = append(slot.Jobs, j.Shown)
			}
		}
		slots[name] = slot
	}
	for _, j := range s.Jobs {
		if j.Pending() && j.Partition == partition {
			waiting++
		}
	}
	return slots, waiting
}

// nodesOf are the nodes that Slurm has of a slot: those whose names say so, since the settings may not have it any
// more, and those of more. Partitions count as well as nodes, of which Slurm may hide those that are powered down.
func (s SlurmSeen) nodesOf(slot string, more []string) (names []string) {
	add := func(name string) {
		of, named := capacity.SlotOf(name)
		if (named && of == slot || slices.Contains(more, name)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, n := range s.Nodes {
		add(n.Name)
	}
	for _, p := range s.Partitions {
		for _, name := range p.Nodes {
			add(name)
		}
	}
	return names
}
