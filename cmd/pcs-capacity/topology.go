package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// TopologyCmd prints topology.conf.
type TopologyCmd struct{}

func (TopologyCmd) Help() string {
	return `For self-managed Slurm: prints where the reservations are in EC2's network, as lines
for topology.conf of TopologyPlugin=topology/tree, even before any node is launched.
Nodes of one reservation are behind one switch; EC2 says how near reservations are to
each other. Add the nodes of other partitions by hand. EC2 answers only for active
reservations, and for the larger instance types. Which nodes have which reservation is what
sync last saw.`
}

// Run asks EC2 and prints the lines.
func (c *TopologyCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client) error {
	snap, _, err := readSnapshot(cfg)
	if err != nil {
		return err
	}

	slots := slices.DeleteFunc(
		capacity.AllSlots(snap.Partitions),
		func(at capacity.SlotRef) bool { return !at.Partition.Provider.Launches() },
	)

	var ids []string
	for _, at := range slots {
		ids = append(ids, at.Slot.ReservationIDs...)
	}

	if len(slots) == 0 {
		return errors.New("no partition has provider ec2, and PCS has no setting for topology.conf")
	}

	progress := t.Slow("asking EC2")
	found, err := aws.ReservationTopology(ctx, ids)

	progress.Done()

	if err != nil {
		return err
	}

	var leaves []capacity.Leaf
	for _, s := range slots {
		leaf := capacity.Leaf{Nodes: slotNodes(s)}
		for _, r := range snap.SlotState(s, snap.TakenAt).Current {
			leaf.Path = found[r.Reservation.ID]
			if leaf.Path != nil {
				break
			}
		}

		if leaf.Path == nil {
			t.Say(
				"warning: EC2 does not report where the reservation of %s is in its network; its nodes get a "+
					"switch of their own",
				s.Slot.Name,
			)
		}

		leaves = append(leaves, leaf)
	}

	_, err = fmt.Fprint(t.Out, capacity.TopologyConf(leaves))

	return err
}

// slotNodes returns the hostlist of a slot, also before Slurm has its nodes.
func slotNodes(at capacity.SlotRef) string {
	return cmp.Or(at.Slot.Nodes, fmt.Sprintf("%s-[1-%d]", at.Slot.Name, at.Group.MaxNodes))
}
