package wire

import (
	"context"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

// TeardownSlurm shows the slots in Slurm to teardown.
type TeardownSlurm struct{ SyncSlurm }

var _ setup.Slurm = TeardownSlurm{}

// Slots says what Slurm has of slots, and how many jobs wait in a partition.
func (s TeardownSlurm) Slots(ctx context.Context, partition string, nodes map[string][]string) (map[string]setup.SlurmSlot, int, error) {
	cluster, err := s.Look(ctx)
	if err != nil {
		return nil, 0, err
	}
	jobs, err := s.Client.Jobs(ctx)
	if err != nil {
		return nil, 0, err
	}
	slots := map[string]setup.SlurmSlot{}
	for name, more := range nodes {
		slot := setup.SlurmSlot{Nodes: nodesOfSlot(cluster, name, more)}
		for _, r := range cluster.Reservations {
			if of, ours := lifecycle.SlotOf(r); ours && of == name {
				slot.Reservations = append(slot.Reservations, r.Name)
			}
		}
		slots[name] = slot
	}
	waiting := 0
	for _, j := range jobs {
		if j.Pending() {
			if j.Partition == partition {
				waiting++
			}
			continue
		}
		for name, slot := range slots {
			if j.Active() && slices.ContainsFunc(j.Nodes, func(node string) bool { return slices.Contains(slot.Nodes, node) }) {
				slot.Jobs = append(slot.Jobs, j.Shown)
				slots[name] = slot
			}
		}
	}
	return slots, waiting, nil
}

// nodesOfSlot are the nodes that Slurm has of a slot: those whose names say so, since the
// settings may not have it any more, and those of more. Partitions count as well as nodes,
// of which Slurm may hide those that are powered down.
func nodesOfSlot(c *lifecycle.Cluster, slot string, more []string) []string {
	var names []string
	add := func(name string) {
		of, named := capacity.SlotOf(name)
		if (named && of == slot || slices.Contains(more, name)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, n := range c.Nodes {
		add(n.Name)
	}
	for _, p := range c.Partitions {
		for _, name := range p.Nodes {
			add(name)
		}
	}
	return names
}
