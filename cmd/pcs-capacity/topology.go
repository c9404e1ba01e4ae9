package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TopologyCmd prints topology.conf, or a host file.
type TopologyCmd struct {
	Job          string `help:"Print a host file for this running job instead: its nodes, neighbours in the network next to each other." placeholder:"ID"`
	TasksPerNode int    `help:"With --job: how often each node is in it." default:"1" placeholder:"N"`
}

// Help is shown below the flags.
func (TopologyCmd) Help() string {
	return `For Slurm that you run yourself: where EC2 says that the reservations are in the network, as
lines for topology.conf of TopologyPlugin=topology/tree, also before any node is launched.
Nodes that launch into one reservation are behind one switch; EC2 says how near
reservations are to each other. Nodes of other partitions have to be added by hand.
EC2 tells of reservations that are active, and of the larger instance types only. What has
which reservation is as sync saw it last.

With --job, on PCS too, a file for SLURM_HOSTFILE, so that srun --distribution=arbitrary gives
ranks that talk most to nodes that are near each other. The nodes' instances have to run.`
}

// Run asks EC2 and prints the lines.
func (c *TopologyCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client) error {
	if c.Job != "" {
		return c.hostFile(ctx, t, cfg, aws)
	}
	if c.TasksPerNode != 1 {
		return usage("--tasks-per-node is for a host file: add --job ID")
	}
	snap, _, err := lastPass(cfg)
	if err != nil {
		return err
	}
	slots := slices.DeleteFunc(capacity.Places(snap.Partitions), func(at capacity.Place) bool { return !at.Partition.Provider.Launches() })
	var ids []string
	for _, at := range slots {
		ids = append(ids, at.Slot.ReservationIDs...)
	}
	if len(slots) == 0 {
		return errors.New("no partition has provider ec2, and PCS has no setting for topology.conf")
	}
	found, err := aws.ReservationTopology(ctx, ids)
	if err != nil {
		return err
	}
	var leaves []capacity.Leaf
	for _, s := range slots {
		leaf := capacity.Leaf{Nodes: nodesOfSlot(s)}
		for _, r := range snap.Standing(s, snap.TakenAt).Current {
			if leaf.Path = found[r.Reservation.ID]; leaf.Path != nil {
				break
			}
		}
		if leaf.Path == nil {
			t.Say(
				"warning: EC2 does not say where the reservation of %s is in the network; its nodes are behind a switch of their own",
				s.Slot.Name)
		}
		leaves = append(leaves, leaf)
	}
	_, err = fmt.Fprint(t.Out, capacity.TopologyConf(leaves))
	return err
}

// nodesOfSlot is the hostlist of a slot, also before Slurm has its nodes.
func nodesOfSlot(at capacity.Place) string {
	if at.Slot.Nodes != "" {
		return at.Slot.Nodes
	}
	var names []string
	for i := range at.Group.MaxNodes {
		names = append(names, fmt.Sprintf("%s-%d", at.Slot.Name, i+1))
	}
	return slurm.Compress(names)
}

// hostFile prints the nodes of a job in the order of the network.
func (c *TopologyCmd) hostFile(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client) error {
	if c.TasksPerNode < 1 {
		return usage("--tasks-per-node %d: it has to be at least 1", c.TasksPerNode)
	}
	client := slurm.New(cfg.Cluster)
	nodes, err := nodesOfJob(ctx, client, c.Job)
	if err != nil {
		return err
	}
	ids, err := instancesOf(ctx, client, cfg, aws, nodes)
	if err != nil {
		return err
	}
	var known []string
	for _, n := range nodes {
		if id := ids[n.Name]; id != "" {
			known = append(known, id)
		}
	}
	found, err := aws.InstanceTopology(ctx, known)
	if err != nil {
		return err
	}
	var leaves []capacity.Leaf
	var unknown []string
	for _, n := range nodes {
		leaf := capacity.Leaf{Nodes: n.Name, Path: found[ids[n.Name]]}
		if leaf.Path == nil {
			unknown = append(unknown, n.Name)
		}
		leaves = append(leaves, leaf)
	}
	if unknown != nil {
		t.Say("warning: EC2 does not say where %s is in the network; it comes last", slurm.Compress(unknown))
	}
	capacity.RankOrder(leaves)
	for _, leaf := range leaves {
		if _, err := fmt.Fprint(t.Out, strings.Repeat(leaf.Nodes+"\n", c.TasksPerNode)); err != nil {
			return err
		}
	}
	return nil
}

// nodesOfJob are the nodes of a job that runs, in the order of their names.
func nodesOfJob(ctx context.Context, client *slurm.Client, id string) ([]capacity.Node, error) {
	jobs, err := client.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		if job.Shown != id && fmt.Sprint(job.ID) != id {
			continue
		}
		if len(job.Nodes) == 0 {
			return nil, fmt.Errorf("job %s has no nodes: it is %s", id, job.State)
		}
		return client.Nodes(ctx, slurm.SortHosts(job.Nodes)...)
	}
	return nil, fmt.Errorf("no job %s waits or runs", id)
}

// instancesOf are the ids of the instances behind nodes, by node. PCS tells them Slurm; else the
// cluster's instances tell their addresses.
func instancesOf(ctx context.Context, client *slurm.Client, cfg *config.Config, aws *ec2.Client, nodes []capacity.Node) (map[string]string, error) {
	ids := map[string]string{}
	for _, n := range nodes {
		ids[n.Name] = n.InstanceID
	}
	if !slices.ContainsFunc(nodes, func(n capacity.Node) bool { return n.InstanceID == "" }) {
		return ids, nil
	}
	var all []capacity.Instance
	if cfg.Cluster != "" {
		cluster, err := newPCS(aws).Cluster(ctx, cfg.Cluster)
		if err == nil {
			all, err = aws.InstancesByTag(ctx, map[string][]string{pcs.TagClusterID: {cluster.ID}})
		}
		if err != nil {
			return nil, err
		}
	} else {
		running, err := client.Config(ctx)
		if err == nil {
			all, err = aws.InstancesByClusterName(ctx, running.ClusterName)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, n := range nodes {
		if i := slices.IndexFunc(all, func(i capacity.Instance) bool { return i.PrivateIP == n.Address }); i >= 0 && ids[n.Name] == "" {
			ids[n.Name] = all[i].ID
		}
	}
	return ids, nil
}
