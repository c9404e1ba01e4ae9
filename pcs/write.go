package pcs

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// createGroup leaves the client token to the SDK. The unique name already prevents a second group,
// and a token made from the request would return the failed group after its deletion.
func (p Provisioner) createGroup(ctx context.Context, g NodeGroup) error {
	in := &pcs.CreateComputeNodeGroupInput{
		ClusterIdentifier:     &g.ClusterID,
		ComputeNodeGroupName:  &g.Name,
		CustomLaunchTemplate:  template(g),
		IamInstanceProfileArn: &g.InstanceProfile,
		AmiId:                 &g.AMI,
		InstanceConfigs:       []types.InstanceConfig{{InstanceType: &g.InstanceTypes[0]}},
		PurchaseOption:        types.PurchaseOption(g.PurchaseOption.PCSPurchaseOption()),
		ScalingConfiguration:  scaling(g),
		SubnetIds:             g.SubnetIDs,
		Tags:                  g.Tags,
	}
	if len(g.SlurmSettings) > 0 || g.IdleSeconds != nil {
		in.SlurmConfiguration = &types.ComputeNodeGroupSlurmConfigurationRequest{
			SlurmCustomSettings: settingsList(g.SlurmSettings),
		}
		if g.IdleSeconds != nil {
			in.SlurmConfiguration.ScaleDownIdleTimeInSeconds = aws.Int32(int32(*g.IdleSeconds))
		}
	}

	return send(ctx, p, "create", WhatNodeGroup, g.Name, p.PCS.api.CreateComputeNodeGroup, in, sendActions(g.Actions))
}

// send tells of a change, and sends it. What it deletes may be gone already.
func send[In, Out any](
	ctx context.Context,
	p Provisioner,
	verb, what, name string,
	call func(context.Context, *In, ...func(*pcs.Options)) (*Out, error),
	in *In,
	options ...func(*pcs.Options),
) error {
	p.report(what, name, verb)

	_, err := call(ctx, in, options...)
	if err == nil || verb == "delete" && IsNotFound(err) {
		return nil
	}

	return fmt.Errorf("%sing %s %s: %w", strings.TrimSuffix(verb, "e"), what, name, err)
}

func template(g NodeGroup) *types.CustomLaunchTemplate {
	return &types.CustomLaunchTemplate{Id: &g.TemplateID, Version: &g.TemplateVersion}
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

	in, sends := &pcs.UpdateComputeNodeGroupInput{
		ClusterIdentifier:          &now.ClusterID,
		ComputeNodeGroupIdentifier: &now.ID,
	}, false
	for _, s := range now.Compare(want) {
		if s.Changed() && s.set != nil {
			s.set(in)

			sends = true
		}
	}

	if !sends {
		p.report(WhatNodeGroup, now.Name, "update")
		return nil
	}

	actions := want.Actions
	if reflect.DeepEqual(actions, now.Actions) {
		actions = nil
	}

	return send(ctx, p, "update", WhatNodeGroup, now.Name, p.PCS.api.UpdateComputeNodeGroup, in, sendActions(actions))
}

// Tag writes tags on a node group or queue; its other tags stay.
func (c *Client) Tag(ctx context.Context, arn string, tags map[string]string) error {
	_, err := c.api.TagResource(ctx, &pcs.TagResourceInput{ResourceArn: aws.String(arn), Tags: maps.Clone(tags)})
	if err != nil {
		return fmt.Errorf("tagging %s: %w", arn, err)
	}

	return nil
}

// updateQueue replaces the whole list of node groups, as PCS demands, and the whole list of Slurm
// settings; nil settings stay as they are.
func (p Provisioner) updateQueue(ctx context.Context, q Queue, groups []string, settings map[string]string) error {
	if err := checkLost(WhatQueue, q.Name, q.LostByUpdate(settings)); err != nil {
		return err
	}

	in := &pcs.UpdateQueueInput{
		ClusterIdentifier:              &q.ClusterID,
		QueueIdentifier:                &q.ID,
		ComputeNodeGroupConfigurations: groupConfigurations(groups),
	}
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
		&pcs.DeleteComputeNodeGroupInput{ClusterIdentifier: &g.ClusterID, ComputeNodeGroupIdentifier: &g.ID})
}
