package pcs

import (
	"context"
	"encoding/json"
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
	var all []Cluster
	for page, err := range awsconfig.Pages(ctx, pcs.NewListClustersPaginator(c.api, &pcs.ListClustersInput{})) {
		if err != nil {
			return nil, fmt.Errorf("listing PCS clusters in %s: %w", c.region, err)
		}
		for _, cluster := range page.Clusters {
			all = append(all, Cluster{ID: str(cluster.Id), Name: str(cluster.Name), ARN: str(cluster.Arn), Status: Status(cluster.Status)})
		}
	}
	return all, nil
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

// Inventory reads a cluster, by name or id, with its node groups and queues, side by side.
func (c *Client) Inventory(ctx context.Context, cluster string) (inv Inventory, err error) {
	err = sideBySide(func() (err error) { inv.Cluster, err = c.Cluster(ctx, cluster); return err },
		func() (err error) { inv.Groups, err = c.NodeGroups(ctx, cluster); return err },
		func() (err error) { inv.Queues, err = c.Queues(ctx, cluster); return err })
	if err != nil {
		return Inventory{}, err
	}
	return inv, nil
}

// sideBySide makes some reads at once, and returns the first error in their order, not in time:
// an outage has one sentence, however often it is met.
func sideBySide(reads ...func() error) error {
	var all errgroup.Group
	errs := make([]error, len(reads))
	for i, read := range reads {
		all.Go(func() error { errs[i] = read(); return nil })
	}
	_ = all.Wait() // the errors are in errs
	return first(errs)
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// atOnce is how many things of one kind are read side by side. PCS publishes no rates; a cluster
// has up to 10 of each.
const atOnce = 10

// NodeGroups reads all compute node groups of a cluster, by its name or id.
func (c *Client) NodeGroups(ctx context.Context, cluster string) ([]NodeGroup, error) {
	listed, err := c.listGroups(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return readEach(ctx, listed, func(ctx context.Context, one types.ComputeNodeGroupSummary) (g NodeGroup, found bool, err error) {
		tags := map[string]string{}
		found, err = withTags(ctx, func(ctx context.Context) (found bool, err error) {
			g, found, err = c.describeGroup(ctx, cluster, str(one.Id))
			return found, err
		}, func(ctx context.Context) (err error) {
			tags, err = c.groupTags(ctx, str(one.Name), str(one.Arn))
			return err
		})
		g.Tags = tags
		return g, found, err
	})
}

func (c *Client) listGroups(ctx context.Context, cluster string) (all []types.ComputeNodeGroupSummary, err error) {
	in := &pcs.ListComputeNodeGroupsInput{ClusterIdentifier: aws.String(cluster)}
	for page, err := range awsconfig.Pages(ctx, pcs.NewListComputeNodeGroupsPaginator(c.api, in)) {
		if err != nil {
			return nil, fmt.Errorf("listing the compute node groups of %s: %w", cluster, err)
		}
		all = append(all, page.ComputeNodeGroups...)
	}
	return all, nil
}

// readEach reads things side by side, in the order in which they were listed. Those that are gone
// meanwhile are left out, and after an error those that could not be read.
func readEach[S, T any](ctx context.Context, listed []S, read func(context.Context, S) (T, bool, error)) ([]T, error) {
	things, found := make([]T, len(listed)), make([]bool, len(listed))
	var reads errgroup.Group
	reads.SetLimit(atOnce)
	errs := make([]error, len(listed))
	for i, one := range listed {
		reads.Go(func() error { things[i], found[i], errs[i] = read(ctx, one); return nil })
	}
	_ = reads.Wait() // the errors are in errs
	var all []T
	for i, thing := range things {
		if found[i] && errs[i] == nil {
			all = append(all, thing)
		}
	}
	return all, first(errs)
}

// withTags reads a thing and its tags side by side. A thing that is gone has neither.
func withTags(ctx context.Context, thing func(context.Context) (bool, error), tags func(context.Context) error) (found bool, err error) {
	err = sideBySide(func() (err error) { found, err = thing(ctx); return err }, func() error { return tags(ctx) })
	if NotFound(err) {
		return false, nil
	}
	return found && err == nil, err
}

// NodeGroup reads a compute node group by name or id. The second value is false when
// there is none.
func (c *Client) NodeGroup(ctx context.Context, cluster, nameOrID string) (NodeGroup, bool, error) {
	g, found, err := c.describeGroup(ctx, cluster, nameOrID)
	if err != nil || !found {
		return NodeGroup{}, false, err
	}
	if g.Tags, err = c.groupTags(ctx, g.Name, g.ARN); NotFound(err) {
		return NodeGroup{}, false, nil
	}
	return g, err == nil, err
}

// describeGroup reads a compute node group without its tags.
func (c *Client) describeGroup(ctx context.Context, cluster, nameOrID string) (NodeGroup, bool, error) {
	var unknown []string
	kept := map[string]json.RawMessage{lifecycleMember: nil, "securityGroupIds": nil, "sshKeyName": nil}
	out, err := c.api.GetComputeNodeGroup(ctx, &pcs.GetComputeNodeGroupInput{
		ClusterIdentifier: aws.String(cluster), ComputeNodeGroupIdentifier: aws.String(nameOrID),
	}, collectUnknown[types.ComputeNodeGroup]("computeNodeGroup", &unknown, kept))
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
	g.Unknown, g.Actions = unknown, lifecycleActions(kept[lifecycleMember])
	if g.TemplateID == "" { // the SDK has no fields for what stands on the group instead
		g.Unknown = slices.DeleteFunc(g.Unknown, func(name string) bool { return name == "launchTemplateMode" })
		_ = json.Unmarshal(kept["securityGroupIds"], &g.SecurityGroupIDs) // of another form there are none, and setup says so
		_ = json.Unmarshal(kept["sshKeyName"], &g.KeyName)
	}
	return g, g.Status != Deleted, nil
}

func (c *Client) groupTags(ctx context.Context, name, arn string) (map[string]string, error) {
	tags, err := c.tags(ctx, arn)
	if err != nil {
		return nil, fmt.Errorf("reading the tags of compute node group %s: %w", name, err)
	}
	return tags, nil
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

// Queues reads all queues of a cluster, by its name or id.
func (c *Client) Queues(ctx context.Context, cluster string) ([]Queue, error) {
	listed, err := c.listQueues(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return readEach(ctx, listed, func(ctx context.Context, one types.QueueSummary) (q Queue, found bool, err error) {
		tags := map[string]string{}
		found, err = withTags(ctx, func(ctx context.Context) (found bool, err error) {
			q, found, err = c.describeQueue(ctx, cluster, str(one.Id))
			return found, err
		}, func(ctx context.Context) (err error) {
			tags, err = c.queueTags(ctx, str(one.Name), str(one.Arn))
			return err
		})
		q.Tags = tags
		return q, found, err
	})
}

func (c *Client) listQueues(ctx context.Context, cluster string) (all []types.QueueSummary, err error) {
	in := &pcs.ListQueuesInput{ClusterIdentifier: aws.String(cluster)}
	for page, err := range awsconfig.Pages(ctx, pcs.NewListQueuesPaginator(c.api, in)) {
		if err != nil {
			return nil, fmt.Errorf("listing the queues of %s: %w", cluster, err)
		}
		all = append(all, page.Queues...)
	}
	return all, nil
}

// describeQueue reads a queue without its tags.
func (c *Client) describeQueue(ctx context.Context, cluster, nameOrID string) (Queue, bool, error) {
	var unknown []string
	out, err := c.api.GetQueue(ctx, &pcs.GetQueueInput{ClusterIdentifier: aws.String(cluster), QueueIdentifier: aws.String(nameOrID)},
		collectUnknown[types.Queue]("queue", &unknown, nil))
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
	return q, q.Status != Deleted, nil
}

func (c *Client) queueTags(ctx context.Context, name, arn string) (map[string]string, error) {
	tags, err := c.tags(ctx, arn)
	if err != nil {
		return nil, fmt.Errorf("reading the tags of queue %s: %w", name, err)
	}
	return tags, nil
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
