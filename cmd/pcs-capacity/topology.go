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
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TopologyCmd prints topology.conf, or topology.yaml.
type TopologyCmd struct {
	Plugin string `enum:"tree,block" default:"tree" help:"The TopologyPlugin: tree; or block, for UltraServers, with Slurm 24.11 and newer."`
}

func (TopologyCmd) Help() string {
	return `For self-managed Slurm: prints where the reservations are in EC2's network, as lines
for topology.conf, even before any node is launched; with -o yaml as an entry of
topology.yaml, for Slurm 25.05 and newer. Add the nodes of other partitions by hand. Which
nodes have which reservation is what sync last saw.

For topology/tree, nodes of one reservation are behind one switch; EC2 says how near
reservations are to each other. It answers only for active reservations, and for the larger
instance types.

For topology/block, nodes that have their reservations together are a block: a reservation
of UltraServers is one UltraServer. EC2 is not asked.`
}

// Run prints the topology.
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

	topology := slurm.Topology{Name: c.Plugin, Default: true}

	var rows any
	if c.Plugin == "block" {
		topology.Block, err = newBlocks(slots)
		if err != nil {
			return err
		}

		rows = topology.Block.Blocks
	} else {
		topology.Tree, err = readTree(ctx, t, snap, aws, slots)
		if err != nil {
			return err
		}

		rows = topology.Tree.Switches
	}

	if t.Format != terminal.Table {
		return t.Show([]slurm.Topology{topology}, rows, "")
	}

	_, err = fmt.Fprint(t.Out, topology.Conf())

	return err
}

// readTree asks EC2 where the reservations of slots are in its network.
func readTree(ctx context.Context, t *terminal.Terminal, snap *capacity.Snapshot, aws *ec2.Client,
	slots []capacity.SlotRef,
) (*slurm.Tree, error) {
	var ids []string
	for _, at := range slots {
		ids = append(ids, at.Slot.ReservationIDs...)
	}

	progress := t.Slow("asking EC2")
	found, err := aws.ReservationTopology(ctx, ids)

	progress.Done()

	if err != nil {
		return nil, err
	}

	var leaves []slurm.Leaf
	for _, s := range slots {
		leaf := slurm.Leaf{Nodes: slotNodes(s)}
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

	return slurm.NewTree(leaves), nil
}

// newBlocks makes a block of each slot. Slurm 24.11 does not start if a block has fewer nodes than the base block size,
// and refuses jobs with longer segments.
func newBlocks(slots []capacity.SlotRef) (*slurm.Blocks, error) {
	blocks := &slurm.Blocks{}
	size := 0
	for _, s := range slots {
		nodes, err := hostlist.Expand(slotNodes(s))
		if err != nil {
			return nil, err
		}

		if size == 0 || len(nodes) < size {
			size = len(nodes)
		}

		blocks.Blocks = append(blocks.Blocks, slurm.Block{Name: s.Slot.Name, Nodes: slotNodes(s)})
	}

	blocks.Sizes = []int{size}

	return blocks, nil
}

// slotNodes returns the hostlist of a slot, also before Slurm has its nodes.
func slotNodes(at capacity.SlotRef) string {
	return cmp.Or(at.Slot.Nodes, fmt.Sprintf("%s-[1-%d]", at.Slot.Name, at.Group.MaxNodes))
}
