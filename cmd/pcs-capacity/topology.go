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
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// TopologyCmd prints topology.conf.
type TopologyCmd struct {
	Plugin string `enum:"tree,block" default:"tree" help:"The TopologyPlugin: tree; or block, for UltraServers, with Slurm 24.11 and newer."`
}

func (TopologyCmd) Help() string {
	return `For self-managed Slurm: prints where the reservations are in EC2's network, as lines
for topology.conf, even before any node is launched. Add the nodes of other partitions by
hand. Which nodes have which reservation is what sync last saw.

For topology/tree, nodes of one reservation are behind one switch; EC2 says how near
reservations are to each other. It answers only for active reservations, and for the larger
instance types.

For topology/block, nodes that have their reservations together are a block: a reservation
of UltraServers is one UltraServer. EC2 is not asked.`
}

// Run prints the lines.
func (c *TopologyCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client) error {
	snap, _, err := readSnapshot(cfg)
	if err != nil {
		return err
	}

	slots := slices.DeleteFunc(
		capacity.AllSlots(snap.Partitions),
		func(at capacity.SlotRef) bool { return !at.Partition.Provider.Launches() },
	)

	if len(slots) == 0 {
		return errors.New("no partition has provider ec2, and PCS has no setting for topology.conf")
	}

	if c.Plugin == "block" {
		return printBlocks(t, slots)
	}

	var ids []string
	for _, at := range slots {
		ids = append(ids, at.Slot.ReservationIDs...)
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

// printBlocks prints topology.conf for topology/block. Slurm 24.11 does not start if a block has fewer nodes than
// BlockSizes says, and refuses jobs with longer segments.
func printBlocks(t *terminal.Terminal, slots []capacity.SlotRef) error {
	size := 0
	for _, s := range slots {
		nodes, err := hostlist.Expand(slotNodes(s))
		if err != nil {
			return err
		}

		if size == 0 || len(nodes) < size {
			size = len(nodes)
		}

		fmt.Fprintf(t.Out, "BlockName=%s Nodes=%s\n", s.Slot.Name, slotNodes(s))
	}

	_, err := fmt.Fprintf(t.Out, "BlockSizes=%d\n", size)

	return err
}

// slotNodes returns the hostlist of a slot, also before Slurm has its nodes.
func slotNodes(at capacity.SlotRef) string {
	return cmp.Or(at.Slot.Nodes, fmt.Sprintf("%s-[1-%d]", at.Slot.Name, at.Group.MaxNodes))
}
