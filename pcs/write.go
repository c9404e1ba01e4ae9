package pcs

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// createGroup leaves the client token to the SDK. The unique name already prevents a second group,
// and a token made from the request would return the failed group after its deletion.
func (p Provisioner) createGroup(ctx context.Context, g NodeGroup) error {
	in := &pcs.CreateComputeNodeGroupInput{ClusterIdentifier: aws.String(g.ClusterID), ComputeNodeGroupName: aws.String(
		g.Name), CustomLaunchTemplate: &types.CustomLaunchTemplate{Id: aws.String(g.TemplateID),
		Version: aws.String(g.TemplateVersion)}, IamInstanceProfileArn: aws.String(g.InstanceProfile),
		AmiId: aws.String(g.AMI), InstanceConfigs: []types.InstanceConfig{
			{InstanceType: aws.String(g.InstanceTypes[0])}}, PurchaseOption: types.PurchaseOption(
			g.PurchaseOption.PCSPurchaseOption()), ScalingConfiguration: scaling(g), SubnetIds: g.SubnetIDs, Tags: g.Tags}
	if len(g.SlurmSettings) > 0 || g.IdleSeconds != nil {
		in.SlurmConfiguration = &types.ComputeNodeGroupSlurmConfigurationRequest{SlurmCustomSettings: settingsList(g.SlurmSettings)}
		if g.IdleSeconds != nil {
			in.SlurmConfiguration.ScaleDownIdleTimeInSeconds = aws.Int32(int32(*g.IdleSeconds))
		}
	}
	return send(ctx, p, "create", WhatNodeGroup, g.Name, p.PCS.api.CreateComputeNodeGroup, in, sendActions(g.Actions))
}

// send tells of a change, and sends it. What is to be deleted may be gone.
func send[In, Out any](ctx context.Context, p Provisioner, verb, what, name string, call func(context.Context, *In, ...func(*pcs.Options)) (*Out, error), in *In, options ...func(*pcs.Options)) error {
	p.tell(what, name, verb)
	_, err := call(ctx, in, options...)
	if err == nil || verb == "delete" && NotFound(err) {
		return nil
	}
	return fmt.Errorf("%sing %s %s: %w", strings.TrimSuffix(verb, "e"), what, name, err)
}

func scaling(g NodeGroup) *types.ScalingConfigurationRequest {
	return &types.ScalingConfigurationRequest{MinInstanceCount: int32(g.Min), MaxInstanceCount: int32(g.Max)}
}

// updateGroup sends only the differences. The tag comes first: if the run is cut off, the next one
// finds the slot by its tag and goes on.
func (p Provisioner) updateGroup(ctx context.Context, want, now NodeGroup) error {
	if now.Tags[capacity.TagReservation] != want.Tags[capacity.TagReservation] {
		if err := p.PCS.Tag(ctx, now.ARN, want.Tags); err != nil {
			return err
		}
	}
	in, changed := updateGroupInput(want, now)
	var actions LifecycleActions
	if want.Actions != nil && !want.Actions.Equal(now.Actions) {
		actions = want.Actions
	}
	if !changed && actions == nil {
		p.tell(WhatNodeGroup, now.Name, "update")
		return nil
	}
	return send(ctx, p, "update", WhatNodeGroup, now.Name, p.PCS.api.UpdateComputeNodeGroup, in, sendActions(actions))
}

// updateGroupInput has only the members that differ: PCS keeps the others, and replaces instances
// only for members that concern them. After a failed update the scaling is sent again.
func updateGroupInput(want, now NodeGroup) (in *pcs.UpdateComputeNodeGroupInput, changed bool) {
	in = &pcs.UpdateComputeNodeGroupInput{ClusterIdentifier: aws.String(now.ClusterID), ComputeNodeGroupIdentifier: aws.String(now.ID)}
	if now.TemplateID != want.TemplateID || now.TemplateVersion != want.TemplateVersion {
		in.CustomLaunchTemplate = &types.CustomLaunchTemplate{Id: aws.String(want.TemplateID), Version: aws.String(want.TemplateVersion)}
	}
	if now.AMI != want.AMI {
		in.AmiId = aws.String(want.AMI)
	}
	if now.InstanceProfile != want.InstanceProfile {
		in.IamInstanceProfileArn = aws.String(want.InstanceProfile)
	}
	if option := want.PurchaseOption.PCSPurchaseOption(); now.PurchaseOption.PCSPurchaseOption() != option {
		in.PurchaseOption = types.PurchaseOption(option)
	}
	if sorted(now.SubnetIDs) != sorted(want.SubnetIDs) {
		in.SubnetIds = want.SubnetIDs
	}
	if now.Min != want.Min || now.Max != want.Max || now.Status == UpdateFailed {
		in.ScalingConfiguration = scaling(want)
	}
	return in, in.CustomLaunchTemplate != nil || in.AmiId != nil || in.IamInstanceProfileArn != nil || in.PurchaseOption != "" || in.SubnetIds != nil || in.ScalingConfiguration != nil
}

// Tag writes tags on a node group or queue; its other tags stay.
func (c *Client) Tag(ctx context.Context, arn string, tags map[string]string) error {
	if _, err := c.api.TagResource(ctx, &pcs.TagResourceInput{ResourceArn: aws.String(arn), Tags: maps.Clone(tags)}); err != nil {
		return fmt.Errorf("tagging %s: %w", arn, err)
	}
	return nil
}

func (p Provisioner) createQueue(ctx context.Context, q Queue) error {
	in := &pcs.CreateQueueInput{ClusterIdentifier: aws.String(q.ClusterID), QueueName: aws.String(q.Name),
		ComputeNodeGroupConfigurations: groupConfigurations(q.GroupIDs), Tags: q.Tags}
	if len(q.SlurmSettings) > 0 {
		in.SlurmConfiguration = &types.QueueSlurmConfigurationRequest{SlurmCustomSettings: settingsList(q.SlurmSettings)}
	}
	return send(ctx, p, "create", WhatQueue, q.Name, p.PCS.api.CreateQueue, in)
}

// updateQueue replaces the whole list of node groups, as PCS demands, and the whole list of Slurm
// settings; nil settings stay as they are.
func (p Provisioner) updateQueue(ctx context.Context, q Queue, groups []string, settings map[string]string) error {
	if err := keeps(WhatQueue, q.Name, q.Lost(settings)); err != nil {
		return err
	}
	in := &pcs.UpdateQueueInput{ClusterIdentifier: aws.String(q.ClusterID), QueueIdentifier: aws.String(q.ID), ComputeNodeGroupConfigurations: groupConfigurations(groups)}
	if settings != nil {
		in.SlurmConfiguration = &types.UpdateQueueSlurmConfigurationRequest{SlurmCustomSettings: settingsList(settings)}
	}
	return send(ctx, p, "update", WhatQueue, q.Name, p.PCS.api.UpdateQueue, in)
}

func groupConfigurations(ids []string) []types.ComputeNodeGroupConfiguration {
	configs := []types.ComputeNodeGroupConfiguration{}
	for _, id := range ids {
		configs = append(configs, types.ComputeNodeGroupConfiguration{ComputeNodeGroupId: aws.String(id)})
	}
	return configs
}

func (p Provisioner) deleteGroup(ctx context.Context, g NodeGroup) error {
	return send(ctx, p, "delete", WhatNodeGroup, g.Name, p.PCS.api.DeleteComputeNodeGroup,
		&pcs.DeleteComputeNodeGroupInput{ClusterIdentifier: aws.String(g.ClusterID), ComputeNodeGroupIdentifier: aws.String(g.ID)})
}

func (p Provisioner) deleteQueue(ctx context.Context, q Queue) error {
	return send(ctx, p, "delete", WhatQueue, q.Name, p.PCS.api.DeleteQueue,
		&pcs.DeleteQueueInput{ClusterIdentifier: aws.String(q.ClusterID), QueueIdentifier: aws.String(q.ID)})
}
