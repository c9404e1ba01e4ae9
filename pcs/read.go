package pcs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Clusters lists the region's clusters, each with its id, name, ARN and status only.
func (c *Client) Clusters(ctx context.Context) ([]Cluster, error) {
	return awsconfig.All(ctx, "listing PCS clusters in "+c.region,
		pcs.NewListClustersPaginator(c.api, &pcs.ListClustersInput{}),
		func(page *pcs.ListClustersOutput) (all []Cluster) {
			for _, cluster := range page.Clusters {
				all = append(all, Cluster{
					ID:     str(cluster.Id),
					Name:   str(cluster.Name),
					ARN:    str(cluster.Arn),
					Status: Status(cluster.Status),
				})
			}

			return all
		})
}

// Cluster reads a cluster by name or id. An unknown cluster is an error with Code ResourceNotFoundException.
func (c *Client) Cluster(ctx context.Context, nameOrID string) (Cluster, error) {
	out, err := c.api.GetCluster(ctx, &pcs.GetClusterInput{ClusterIdentifier: &nameOrID})
	if err == nil && out.Cluster == nil {
		err = ErrNotDescribed
	}

	if err != nil {
		return Cluster{}, fmt.Errorf("reading PCS cluster %s in %s: %w", nameOrID, c.region, err)
	}

	a := out.Cluster
	cluster := Cluster{
		ID:     str(a.Id),
		Name:   str(a.Name),
		ARN:    str(a.Arn),
		Status: Status(a.Status),
		Size:   string(a.Size),
	}
	for _, info := range a.ErrorInfo {
		cluster.Failures = append(cluster.Failures, Failure{Code: str(info.Code), Message: str(info.Message)})
	}

	if a.Scheduler != nil {
		cluster.SlurmVersion = str(a.Scheduler.Version)
	}

	if s := a.SlurmConfiguration; s != nil {
		cluster.SlurmSettings = settingsMap(s.SlurmCustomSettings)
	}

	if a.Networking != nil {
		cluster.SubnetIDs, cluster.SecurityGroupIDs = a.Networking.SubnetIds, a.Networking.SecurityGroupIds
	}

	return cluster, nil
}

// Inventory reads a cluster, by name or id, with its node groups and queues, side by side.
func (c *Client) Inventory(ctx context.Context, cluster string) (inv Inventory, err error) {
	err = sideBySide(func() (err error) { inv.Cluster, err = c.Cluster(ctx, cluster); return err },
		func() (err error) { inv.Groups, err = c.NodeGroups(ctx, cluster); return err },
		func() (err error) { inv.Queues, err = c.Queues(ctx, cluster); return err })
	return inv, err
}

// maxConcurrent bounds the calls side by side that read things of one kind. PCS publishes no rates; a cluster has up to
// 10 of each.
const maxConcurrent = 10

// sideBySide makes reads at once, and returns the first error in their order, not in time:
// an outage has one sentence, however often it is met.
func sideBySide(reads ...func() error) error {
	var all errgroup.Group
	all.SetLimit(maxConcurrent)

	errs := make([]error, len(reads))
	for i, read := range reads {
		all.Go(func() error { errs[i] = read(); return nil })
	}

	_ = all.Wait() // the errors are in errs

	return cmp.Or(errs...)
}

// readEach reads things side by side, in the order in which they were listed. Those that are gone
// meanwhile are left out, and after an error those that could not be read.
func readEach[T any](listed []T, read func(T) (T, bool, error)) (all []T, err error) {
	things, reads := make([][]T, len(listed)), make([]func() error, len(listed))
	for i, one := range listed {
		reads[i] = func() error {
			it, found, err := read(one)
			if found && err == nil {
				things[i] = []T{it}
			}

			return err
		}
	}

	err = sideBySide(reads...)

	return slices.Concat(things...), err
}

// listGroups lists node groups, each with its id, name, ARN and status only.
func (c *Client) listGroups(ctx context.Context, cluster string) ([]NodeGroup, error) {
	pages := pcs.NewListComputeNodeGroupsPaginator(c.api, &pcs.ListComputeNodeGroupsInput{ClusterIdentifier: &cluster})

	return awsconfig.All(ctx, "listing the compute node groups of "+cluster, pages,
		func(page *pcs.ListComputeNodeGroupsOutput) (all []NodeGroup) {
			for _, g := range page.ComputeNodeGroups {
				all = append(all,
					NodeGroup{ID: str(g.Id), Name: str(g.Name), ARN: str(g.Arn), Status: Status(g.Status)})
			}

			return all
		})
}

// NodeGroups reads all compute node groups of a cluster, by its name or id.
func (c *Client) NodeGroups(ctx context.Context, cluster string) ([]NodeGroup, error) {
	listed, err := c.listGroups(ctx, cluster)
	if err != nil {
		return nil, err
	}

	return readEach(listed, func(g NodeGroup) (NodeGroup, bool, error) { return c.NodeGroup(ctx, cluster, g.ID) })
}

// Queues reads all queues of a cluster, by its name or id.
func (c *Client) Queues(ctx context.Context, cluster string) ([]Queue, error) {
	pages := pcs.NewListQueuesPaginator(c.api, &pcs.ListQueuesInput{ClusterIdentifier: &cluster})

	listed, err := awsconfig.All(ctx, "listing the queues of "+cluster, pages,
		func(page *pcs.ListQueuesOutput) (all []Queue) {
			for _, q := range page.Queues {
				all = append(all, Queue{ID: str(q.Id)})
			}
			return all
		})
	if err != nil {
		return nil, err
	}

	return readEach(listed, func(q Queue) (Queue, bool, error) { return c.Queue(ctx, cluster, q.ID) })
}

// tags reads the tags of a thing of a kind. A thing that is gone has none.
func (c *Client) tags(ctx context.Context, what, name, arn string) (tags map[string]string, found bool, err error) {
	out, err := c.api.ListTagsForResource(ctx, &pcs.ListTagsForResourceInput{ResourceArn: &arn})
	switch {
	case IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading the tags of %s %s: %w", what, name, err)
	}

	return out.Tags, true, nil
}

// NodeGroup reads a compute node group by name or id. found is false when there is none.
func (c *Client) NodeGroup(ctx context.Context, cluster, nameOrID string) (NodeGroup, bool, error) {
	var said struct {
		NodeGroup
		InstanceConfigs                            []types.InstanceConfig
		CustomLaunchTemplate                       types.CustomLaunchTemplate
		ScalingConfiguration                       types.ScalingConfiguration
		SlurmConfiguration                         types.ComputeNodeGroupSlurmConfiguration
		CreatedAt, LaunchTemplateMode, SpotOptions any // of no use here
	}

	unknown, found, err := describe(
		ctx,
		WhatNodeGroup,
		nameOrID,
		c.api.GetComputeNodeGroup,
		&pcs.GetComputeNodeGroupInput{
			ClusterIdentifier:          &cluster,
			ComputeNodeGroupIdentifier: &nameOrID,
		},
		"computeNodeGroup",
		&said,
	)
	g := said.NodeGroup
	if !found || g.Status == Deleted {
		return NodeGroup{}, false, err
	}

	g.PurchaseOption, g.Unknown = capacity.KindOfPCS(string(g.PurchaseOption)), unknown
	for _, config := range said.InstanceConfigs {
		g.InstanceTypes = append(g.InstanceTypes, str(config.InstanceType))
	}

	g.TemplateID, g.TemplateVersion = str(said.CustomLaunchTemplate.Id), str(said.CustomLaunchTemplate.Version)
	g.Min, g.Max = int(said.ScalingConfiguration.MinInstanceCount), int(said.ScalingConfiguration.MaxInstanceCount)
	g.SlurmSettings = settingsMap(said.SlurmConfiguration.SlurmCustomSettings)
	if idle := said.SlurmConfiguration.ScaleDownIdleTimeInSeconds; idle != nil {
		g.IdleSeconds = aws.Int(int(*idle))
	}

	g.Tags, found, err = c.tags(ctx, WhatNodeGroup, g.Name, g.ARN)

	return g, found, err
}

// Queue reads a queue by name or id. found is false when there is none.
func (c *Client) Queue(ctx context.Context, cluster, nameOrID string) (Queue, bool, error) {
	var said struct {
		Queue
		ComputeNodeGroupConfigurations []types.ComputeNodeGroupConfiguration
		SlurmConfiguration             types.QueueSlurmConfiguration
		CreatedAt, ModifiedAt          any // of no use here
	}

	unknown, found, err := describe(ctx, WhatQueue, nameOrID, c.api.GetQueue,
		&pcs.GetQueueInput{ClusterIdentifier: &cluster, QueueIdentifier: &nameOrID}, "queue", &said)
	q := said.Queue
	if !found || q.Status == Deleted {
		return Queue{}, false, err
	}

	for _, config := range said.ComputeNodeGroupConfigurations {
		q.GroupIDs = append(q.GroupIDs, str(config.ComputeNodeGroupId))
	}

	q.SlurmSettings, q.Unknown = settingsMap(said.SlurmConfiguration.SlurmCustomSettings), unknown
	q.Tags, found, err = c.tags(ctx, WhatQueue, q.Name, q.ARN)

	return q, found, err
}

// PCS writes these on the instances of a node group: the ids of its cluster and of the node group.
const (
	TagClusterID   = "aws:pcs:cluster-id"
	TagNodeGroupID = "aws:pcs:compute-node-group-id"
)

// Slots returns the compute node groups of these names that exist, each with the reservation that
// our tag says it was set up for; "" without the tag of this cluster. Those that PCS could not create, update or delete
// are in failed, with their status and PCS's reasons. It lists the cluster once, and reads the tags of each group
// found. After an error, groups may be missing.
func (c *Client) Slots(
	ctx context.Context, cluster string, names []string,
) (slots, failed map[string]string, err error) {
	if cluster == "" {
		return nil, nil, errors.New("the settings name no PCS cluster; add cluster = \"NAME\"")
	}

	var owner Cluster // our mark has its name; cluster may be its id

	var listed []NodeGroup

	err = sideBySide(func() (err error) { owner, err = c.Cluster(ctx, cluster); return err },
		func() (err error) { listed, err = c.listGroups(ctx, cluster); return err })
	if err != nil {
		return nil, nil, err
	}

	listed = slices.DeleteFunc(listed,
		func(g NodeGroup) bool { return g.Status == Deleted || !slices.Contains(names, g.Name) })
	tagged, err := readEach(listed, func(g NodeGroup) (_ NodeGroup, found bool, err error) {
		if g.Status.Failed() { // a list has no reasons
			return c.NodeGroup(ctx, cluster, g.ID)
		}

		g.Tags, found, err = c.tags(ctx, WhatNodeGroup, g.Name, g.ARN)

		return g, found, err
	})
	slots, failed = map[string]string{}, map[string]string{}
	for _, g := range tagged {
		if g.Status.Failed() {
			failed[g.Name] = fmt.Sprintf("%s: %s", g.Status, g.Failures)
		}

		slots[g.Name] = ""
		if owner.Owns(g.Tags) {
			slots[g.Name] = g.Tags[capacity.TagReservation]
		}
	}

	return slots, failed, err
}

// Busy reports whether PCS is at work on a queue, or on a compute node group. Of what is not there it is not.
func (c *Client) Busy(ctx context.Context, cluster, queue, group string) (bool, error) {
	q, _, err := c.Queue(ctx, cluster, queue)
	if err != nil || q.Status.Changing() {
		return err == nil, err
	}

	g, _, err := c.NodeGroup(ctx, cluster, group)

	return g.Status.Changing(), err
}
