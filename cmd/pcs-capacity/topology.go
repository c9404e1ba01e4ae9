package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

For topology/tree, EC2 says where instances are, and of nodes without one where their
reservation is. It answers only for active reservations, and for the larger instance types.

For topology/block, nodes that have their reservations together are a block. Where that
reservation has several UltraServers, each of these is a block: EC2 says which nodes it has
once their instances run, and they are divided evenly before.`
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

	progress := t.Slow("asking EC2")
	seen, err := c.readNetwork(ctx, snap, aws, slots)

	progress.Done()

	if err != nil {
		return err
	}

	topology := slurm.Topology{Name: c.Plugin, Default: true}

	var rows any
	if c.Plugin == "block" {
		topology.Block, err = newBlocks(t, snap, slots, seen)
		if err != nil {
			return err
		}

		rows = topology.Block.Blocks
	} else {
		topology.Tree, err = newTree(t, snap, slots, seen)
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

// network is what EC2 says of nodes.
type network struct {
	instances map[string]capacity.Instance // by node
	paths     map[string][]string          // the network nodes above an instance or a reservation, by its id
}

// readNetwork asks EC2 for what the topology depends on: for nothing if a block is a slot.
func (c *TopologyCmd) readNetwork(ctx context.Context, snap *capacity.Snapshot, aws *ec2.Client,
	slots []capacity.SlotRef,
) (network, error) {
	seen := network{instances: map[string]capacity.Instance{}}
	ultra := func(at capacity.SlotRef) bool { return len(ultraServers(snap, at)) > 1 }
	if c.Plugin == "block" && !slices.ContainsFunc(slots, ultra) {
		return seen, nil
	}

	// Before sync has seen Slurm, no node has been launched.
	var ids []string
	if snap.SlurmCluster != "" {
		found, err := aws.FindInstances(ctx, capacity.InstanceQuery{ClusterName: snap.SlurmCluster})
		if err != nil {
			return seen, err
		}

		for _, i := range capacity.WithNodes(found) {
			if !i.Ended() {
				seen.instances[i.Tags[capacity.TagNode]] = i
				ids = append(ids, i.ID)
			}
		}
	}

	if c.Plugin == "block" {
		return seen, nil
	}

	var reservations []string
	for _, at := range slots {
		reservations = append(reservations, at.Slot.ReservationIDs...)
	}

	paths, err := aws.ReservationTopology(ctx, reservations)
	if err != nil {
		return seen, err
	}

	seen.paths = paths

	running, err := aws.InstanceTopology(ctx, ids)
	maps.Copy(seen.paths, running)

	return seen, err
}

// newTree puts each node below the switches of its instance, else of its reservation.
func newTree(
	t *terminal.Terminal,
	snap *capacity.Snapshot,
	slots []capacity.SlotRef,
	seen network,
) (*slurm.Tree, error) {
	var leaves []slurm.Leaf
	for _, s := range slots {
		nodes, err := hostlist.Expand(slotNodes(s))
		if err != nil {
			return nil, err
		}

		var path []string
		for _, r := range snap.SlotState(s, snap.TakenAt).Current {
			path = seen.paths[r.Reservation.ID]
			if len(path) > 0 {
				break
			}
		}

		var unknown []string
		for _, node := range nodes {
			leaf := slurm.Leaf{Node: node, Path: seen.paths[seen.instances[node].ID]}
			if len(leaf.Path) == 0 {
				leaf.Path = path
			}

			if len(leaf.Path) == 0 {
				unknown = append(unknown, node)
			}

			leaves = append(leaves, leaf)
		}

		if len(unknown) > 0 {
			t.Say("warning: EC2 does not report where %s will be in its network; these nodes get a switch of their own",
				hostlist.Compress(unknown))
		}
	}

	return slurm.NewTree(leaves), nil
}

// ultraServers returns the Capacity Blocks of a slot's reservation, one for each UltraServer.
func ultraServers(snap *capacity.Snapshot, at capacity.SlotRef) []string {
	return slices.Sorted(slices.Values(snap.SlotState(at, snap.TakenAt).Reservation.CapacityBlockIDs))
}

// newBlocks makes a block of each slot, or of each UltraServer in it. Slurm 24.11 does not start if a block has fewer
// nodes than the base block size, and refuses jobs with longer segments.
func newBlocks(t *terminal.Terminal, snap *capacity.Snapshot, slots []capacity.SlotRef,
	seen network,
) (*slurm.Blocks, error) {
	blocks := &slurm.Blocks{Sizes: []int{0}}
	add := func(name string, nodes []string) {
		if blocks.Sizes[0] == 0 || len(nodes) < blocks.Sizes[0] {
			blocks.Sizes[0] = len(nodes)
		}

		blocks.Blocks = append(blocks.Blocks, slurm.Block{Name: name, Nodes: hostlist.Compress(nodes)})
	}

	for _, s := range slots {
		nodes, err := hostlist.Expand(slotNodes(s))
		if err != nil {
			return nil, err
		}

		servers := ultraServers(snap, s)
		if len(servers) < 2 {
			add(s.Slot.Name, nodes)
			continue
		}

		in := map[string]string{}
		for _, node := range nodes {
			in[node] = seen.instances[node].BlockID
		}

		divided := capacity.DivideNodes(nodes, servers, in)
		for _, id := range servers {
			if len(divided[id]) > 0 {
				add(id, divided[id])
			}
		}

		guessed := slices.DeleteFunc(nodes, func(node string) bool { return slices.Contains(servers, in[node]) })
		if len(guessed) > 0 {
			t.Say(
				"warning: EC2 says which UltraServer a node is in once its instance runs; run this again when "+
					"%s are up",
				hostlist.Compress(guessed),
			)
		}
	}

	return blocks, nil
}

// slotNodes returns the hostlist of a slot, also before Slurm has its nodes.
func slotNodes(at capacity.SlotRef) string {
	return cmp.Or(at.Slot.Nodes, fmt.Sprintf("%s-[1-%d]", at.Slot.Name, at.Group.MaxNodes))
}
