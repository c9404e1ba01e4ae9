package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

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
func instancesOf(ctx context.Context, client *slurm.Client, cfg *config.Config, aws *ec2.Client,
	nodes []capacity.Node) (map[string]string, error) {
	ids, byAddress := map[string]string{}, map[string]string{}
	missing := false
	for _, n := range nodes {
		ids[n.Name] = n.InstanceID
		missing = missing || n.InstanceID == ""
	}
	if !missing {
		return ids, nil
	}
	all, err := instancesOfCluster(ctx, client, cfg, aws)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		byAddress[i.PrivateIP] = i.ID
	}
	for _, n := range nodes {
		if ids[n.Name] == "" {
			ids[n.Name] = byAddress[n.Address]
		}
	}
	return ids, nil
}

func instancesOfCluster(ctx context.Context, client *slurm.Client, cfg *config.Config,
	aws *ec2.Client) ([]capacity.Instance, error) {
	if cfg.Cluster != "" {
		cluster, err := newPCS(aws).Cluster(ctx, cfg.Cluster)
		if err != nil {
			return nil, err
		}
		return aws.InstancesByTag(ctx, map[string][]string{pcs.TagClusterID: {cluster.ID}})
	}
	running, err := client.Config(ctx)
	if err != nil {
		return nil, err
	}
	return aws.InstancesByClusterName(ctx, running.ClusterName)
}
