package pcs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Clusters lists the names of the region's clusters.
func (c *Client) Clusters(ctx context.Context) ([]string, error) {
	var names []string
	for pages := pcs.NewListClustersPaginator(c.api, &pcs.ListClustersInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing PCS clusters in %s: %w", c.region, err)
		}
		for _, cluster := range page.Clusters {
			names = append(names, str(cluster.Name))
		}
	}
	return names, nil
}

// Cluster reads a cluster by name or id. An unknown cluster is an error with Code
// ResourceNotFoundException.
func (c *Client) Cluster(ctx context.Context, nameOrID string) (Cluster, error) {
	out, err := c.api.GetCluster(ctx, &pcs.GetClusterInput{ClusterIdentifier: aws.String(nameOrID)})
	if err == nil && out.Cluster == nil {
		err = ErrNotDescribed
	}
	if err != nil {
		return Cluster{}, fmt.Errorf("reading PCS cluster %s in %s: %w", nameOrID, c.region, err)
	}
	a := out.Cluster
	cluster := Cluster{
		ID: str(a.Id), Name: str(a.Name), ARN: str(a.Arn), Status: Status(a.Status),
		Size: string(a.Size), Failures: failures(a.ErrorInfo),
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

// Inventory reads a cluster, by name or id, with its node groups and queues.
func (c *Client) Inventory(ctx context.Context, cluster string) (Inventory, error) {
	var inv Inventory
	var err error
	if inv.Cluster, err = c.Cluster(ctx, cluster); err != nil {
		return Inventory{}, err
	}
	if inv.Groups, err = c.NodeGroups(ctx, inv.Cluster.ID); err != nil {
		return Inventory{}, err
	}
	inv.Queues, err = c.Queues(ctx, inv.Cluster.ID)
	return inv, err
}

// NodeGroups reads all compute node groups of a cluster.
func (c *Client) NodeGroups(ctx context.Context, cluster string) ([]NodeGroup, error) {
	var all []NodeGroup
	in := &pcs.ListComputeNodeGroupsInput{ClusterIdentifier: aws.String(cluster)}
	for pages := pcs.NewListComputeNodeGroupsPaginator(c.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the compute node groups of %s: %w", cluster, err)
		}
		for _, summary := range page.ComputeNodeGroups {
			g, found, err := c.NodeGroup(ctx, cluster, str(summary.Id))
			if err != nil {
				return nil, err
			}
			if found {
				all = append(all, g)
			}
		}
	}
	return all, nil
}

// NodeGroup reads a compute node group by name or id. The second value is false when
// there is none.
func (c *Client) NodeGroup(ctx context.Context, cluster, nameOrID string) (NodeGroup, bool, error) {
	var unknown []string
	out, err := c.api.GetComputeNodeGroup(ctx, &pcs.GetComputeNodeGroupInput{
		ClusterIdentifier: aws.String(cluster), ComputeNodeGroupIdentifier: aws.String(nameOrID),
	}, collectUnknown[types.ComputeNodeGroup]("computeNodeGroup", &unknown))
	if NotFound(err) {
		return NodeGroup{}, false, nil
	}
	if err == nil && out.ComputeNodeGroup == nil {
		err = ErrNotDescribed
	}
	if err != nil {
		return NodeGroup{}, false, fmt.Errorf("reading compute node group %s: %w", nameOrID, err)
	}
	g := nodeGroup(out.ComputeNodeGroup)
	g.Unknown = unknown
	if g.Tags, err = c.tags(ctx, g.ARN); err != nil && !NotFound(err) {
		return NodeGroup{}, false, fmt.Errorf("reading the tags of compute node group %s: %w", g.Name, err)
	}
	return g, err == nil && g.Status != Deleted, nil
}

func nodeGroup(a *types.ComputeNodeGroup) NodeGroup {
	g := NodeGroup{
		ID: str(a.Id), Name: str(a.Name), ARN: str(a.Arn), ClusterID: str(a.ClusterId),
		Status: Status(a.Status), Modified: aws.ToTime(a.ModifiedAt),
		PurchaseOption:  capacity.KindOfPCS(string(a.PurchaseOption)),
		SubnetIDs:       a.SubnetIds,
		AMI:             str(a.AmiId),
		InstanceProfile: str(a.IamInstanceProfileArn),
		Failures:        failures(a.ErrorInfo),
	}
	for _, config := range a.InstanceConfigs {
		g.InstanceTypes = append(g.InstanceTypes, str(config.InstanceType))
	}
	if t := a.CustomLaunchTemplate; t != nil {
		g.TemplateID, g.TemplateVersion = str(t.Id), str(t.Version)
	}
	if s := a.ScalingConfiguration; s != nil {
		g.Min, g.Max = int(s.MinInstanceCount), int(s.MaxInstanceCount)
	}
	if s := a.SlurmConfiguration; s != nil {
		g.SlurmSettings = settingsMap(s.SlurmCustomSettings)
		if s.ScaleDownIdleTimeInSeconds != nil {
			g.IdleSeconds = aws.Int(int(*s.ScaleDownIdleTimeInSeconds))
		}
	}
	return g
}

// Queues reads all queues of a cluster.
func (c *Client) Queues(ctx context.Context, cluster string) ([]Queue, error) {
	var all []Queue
	in := &pcs.ListQueuesInput{ClusterIdentifier: aws.String(cluster)}
	for pages := pcs.NewListQueuesPaginator(c.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the queues of %s: %w", cluster, err)
		}
		for _, summary := range page.Queues {
			q, found, err := c.Queue(ctx, cluster, str(summary.Id))
			if err != nil {
				return nil, err
			}
			if found {
				all = append(all, q)
			}
		}
	}
	return all, nil
}

// Queue reads a queue by name or id. The second value is false when there is none.
func (c *Client) Queue(ctx context.Context, cluster, nameOrID string) (Queue, bool, error) {
	var unknown []string
	out, err := c.api.GetQueue(ctx, &pcs.GetQueueInput{ClusterIdentifier: aws.String(cluster), QueueIdentifier: aws.String(nameOrID)},
		collectUnknown[types.Queue]("queue", &unknown))
	if NotFound(err) {
		return Queue{}, false, nil
	}
	if err == nil && out.Queue == nil {
		err = ErrNotDescribed
	}
	if err != nil {
		return Queue{}, false, fmt.Errorf("reading queue %s: %w", nameOrID, err)
	}
	a := out.Queue
	q := Queue{ID: str(a.Id), Name: str(a.Name), ClusterID: str(a.ClusterId), ARN: str(a.Arn), Status: Status(a.Status),
		Modified: aws.ToTime(a.ModifiedAt), Failures: failures(a.ErrorInfo), Unknown: unknown}
	for _, config := range a.ComputeNodeGroupConfigurations {
		q.GroupIDs = append(q.GroupIDs, str(config.ComputeNodeGroupId))
	}
	if s := a.SlurmConfiguration; s != nil {
		q.SlurmSettings = settingsMap(s.SlurmCustomSettings)
	}
	if q.Tags, err = c.tags(ctx, q.ARN); err != nil && !NotFound(err) {
		return Queue{}, false, fmt.Errorf("reading the tags of queue %s: %w", q.Name, err)
	}
	return q, err == nil && q.Status != Deleted, nil
}

func (c *Client) tags(ctx context.Context, arn string) (map[string]string, error) {
	out, err := c.api.ListTagsForResource(ctx, &pcs.ListTagsForResourceInput{ResourceArn: aws.String(arn)})
	if err != nil {
		return nil, err
	}
	return out.Tags, nil
}

func failures(infos []types.ErrorInfo) Failures {
	var all Failures
	for _, info := range infos {
		all = append(all, Failure{Code: str(info.Code), Message: str(info.Message)})
	}
	return all
}
