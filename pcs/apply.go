package pcs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Apply does what the plan says. It looks again at each thing before it changes it,
// so that it can be killed at any point and run again: names are unique in EC2 and
// PCS, so a thing that an earlier run made is found by its name, and every change is
// compared with what is there first. A plan with mismatches is refused (*Refusal).
func (s Setup) Apply(ctx context.Context, p *Plan) error {
	if len(p.Mismatches) > 0 {
		return &Refusal{Mismatches: p.Mismatches}
	}
	template, err := s.EC2.EnsureLaunchTemplate(ctx, p.want.template)
	if err != nil {
		return err
	}
	s.tell(WhatTemplate, template.Name, "done")
	want := *p.want
	want.group.TemplateID, want.group.TemplateVersion = template.ID, template.Version
	g, _, err := s.ensureGroup(ctx, &want, true)
	if err != nil {
		return err
	}
	s.tell(WhatNodeGroup, g.Name, "done")
	if err := s.ensureQueue(ctx, &want, g); err != nil {
		return err
	}
	s.tell(WhatQueue, want.queue, "done")
	return writeFiles(&want, s.tell)
}

func (s Setup) tell(what, name, status string) {
	if s.Progress != nil {
		s.Progress(Event{What: what, Name: name, Status: status})
	}
}

// rounds is how often a thing is looked at again when PCS answers that somebody else
// is changing it.
const rounds = 5

// ensureGroup creates or updates the node group, and waits until PCS is done.
func (s Setup) ensureGroup(ctx context.Context, want *wanted, mayCreate bool) (g NodeGroup, changed bool, err error) {
	for range rounds {
		g, found, err := s.settledGroup(ctx, want)
		switch {
		case err != nil:
			return g, changed, err
		case !found && !mayCreate:
			return g, changed, fmt.Errorf("cluster %s has no compute node group %s", want.cluster.Name, want.group.Name)
		case !found:
			s.tell(WhatNodeGroup, want.group.Name, "create")
			err = s.createGroup(ctx, want)
		case want.cluster.Name != g.Tags[capacity.TagCluster]:
			return g, changed, fmt.Errorf("compute node group %s: %w", g.Name, ErrNotOurs)
		case g.Status == CreateFailed:
			return g, changed, fmt.Errorf("PCS could not create node group %s: %s; delete it and run this again", g.Name, g.Failures)
		case g.Status == UpdateFailed && changed:
			return g, changed, fmt.Errorf("PCS could not update node group %s: %s", g.Name, g.Failures)
		default:
			step, disruptive := groupStep(want, &g, g.TemplateID != want.group.TemplateID || g.TemplateVersion != want.group.TemplateVersion)
			if step.Action == Nothing {
				return g, changed, nil
			}
			if err := s.checkUnused(ctx, g, disruptive); err != nil {
				return g, changed, err
			}
			s.tell(WhatNodeGroup, g.Name, "update")
			err = s.updateGroup(ctx, want, g)
		}
		if err != nil && !inConflict(err) {
			return g, changed, err
		}
		changed = changed || err == nil
	}
	return g, changed, fmt.Errorf("compute node group %s is still not as it should be after %d changes; somebody else changes it too", want.group.Name, rounds)
}

// settledGroup reads the node group once PCS is not at work on it.
func (s Setup) settledGroup(ctx context.Context, want *wanted) (NodeGroup, bool, error) {
	for {
		g, found, err := s.PCS.NodeGroup(ctx, want.cluster.ID, want.group.Name)
		if err != nil || !found || !g.Status.Changing() {
			return g, found, err
		}
		if err := s.wait(ctx, WhatNodeGroup, g.Name, g.Status); err != nil {
			return g, found, err
		}
	}
}

func (s Setup) checkUnused(ctx context.Context, g NodeGroup, disruptive bool) error {
	if !disruptive {
		return nil
	}
	n, err := s.instances(ctx, g.ID)
	if err == nil && n > 0 {
		err = fmt.Errorf("compute node group %s has %d instances: %w", g.Name, n, ErrInUse)
	}
	return err
}

// createGroup leaves the client token to the SDK: the unique name already keeps a
// second group out, while a token made from the request would, after a failed group
// was deleted, give back the failed one.
func (s Setup) createGroup(ctx context.Context, want *wanted) error {
	g := want.group
	_, err := s.PCS.api.CreateComputeNodeGroup(ctx, &pcs.CreateComputeNodeGroupInput{
		ClusterIdentifier:     aws.String(want.cluster.ID),
		ComputeNodeGroupName:  aws.String(g.Name),
		CustomLaunchTemplate:  &types.CustomLaunchTemplate{Id: aws.String(g.TemplateID), Version: aws.String(g.TemplateVersion)},
		IamInstanceProfileArn: aws.String(g.InstanceProfile),
		AmiId:                 aws.String(g.AMI),
		InstanceConfigs:       []types.InstanceConfig{{InstanceType: aws.String(g.InstanceTypes[0])}},
		PurchaseOption:        purchaseOptions[g.PurchaseOption],
		ScalingConfiguration:  &types.ScalingConfigurationRequest{MinInstanceCount: int32(g.Min), MaxInstanceCount: int32(g.Max)},
		SubnetIds:             g.SubnetIDs,
		Tags:                  want.tags,
	})
	if err != nil {
		return fmt.Errorf("creating compute node group %s: %w", g.Name, err)
	}
	return nil
}

// updateGroup sends what differs and nothing else, since PCS replaces instances only
// for what concerns them. The tag comes first: a run that is cut off after it finds
// the slot again by the tag and goes on.
func (s Setup) updateGroup(ctx context.Context, want *wanted, now NodeGroup) error {
	if now.Tags[capacity.TagReservation] != want.tags[capacity.TagReservation] {
		if err := s.PCS.tag(ctx, now.ARN, want.tags); err != nil {
			return err
		}
	}
	g := want.group
	in := &pcs.UpdateComputeNodeGroupInput{ClusterIdentifier: aws.String(want.cluster.ID), ComputeNodeGroupIdentifier: aws.String(now.ID)}
	changed := now.Status == UpdateFailed
	if now.TemplateID != g.TemplateID || now.TemplateVersion != g.TemplateVersion {
		in.CustomLaunchTemplate = &types.CustomLaunchTemplate{Id: aws.String(g.TemplateID), Version: aws.String(g.TemplateVersion)}
	}
	if now.AMI != g.AMI {
		in.AmiId = aws.String(g.AMI)
	}
	if now.InstanceProfile != g.InstanceProfile {
		in.IamInstanceProfileArn = aws.String(g.InstanceProfile)
	}
	if purchaseOptions[now.PurchaseOption] != purchaseOptions[g.PurchaseOption] {
		in.PurchaseOption = purchaseOptions[g.PurchaseOption]
	}
	if sorted(now.SubnetIDs) != sorted(g.SubnetIDs) {
		in.SubnetIds = g.SubnetIDs
	}
	if now.Min != g.Min || now.Max != g.Max || changed {
		in.ScalingConfiguration = &types.ScalingConfigurationRequest{MinInstanceCount: int32(g.Min), MaxInstanceCount: int32(g.Max)}
	}
	changed = changed || in.CustomLaunchTemplate != nil || in.AmiId != nil || in.IamInstanceProfileArn != nil || in.PurchaseOption != "" || in.SubnetIds != nil || in.ScalingConfiguration != nil
	if !changed {
		return nil
	}
	if _, err := s.PCS.api.UpdateComputeNodeGroup(ctx, in); err != nil {
		return fmt.Errorf("updating compute node group %s: %w", g.Name, err)
	}
	return nil
}

// tag writes those of our tags that say what a thing is for now.
func (c *Client) tag(ctx context.Context, arn string, tags map[string]string) error {
	if _, err := c.api.TagResource(ctx, &pcs.TagResourceInput{ResourceArn: aws.String(arn), Tags: maps.Clone(tags)}); err != nil {
		return fmt.Errorf("tagging %s: %w", arn, err)
	}
	return nil
}

// ensureQueue creates the queue, or adds the node group to the ones that it has, and
// waits until PCS is done.
func (s Setup) ensureQueue(ctx context.Context, want *wanted, g NodeGroup) error {
	changed := false
	for range rounds {
		q, found, err := s.settledQueue(ctx, want)
		switch {
		case err != nil:
			return err
		case !found:
			s.tell(WhatQueue, want.queue, "create")
			err = s.createQueue(ctx, want, g)
		case q.Tags[capacity.TagCluster] != want.cluster.Name:
			return fmt.Errorf("queue %s: %w", q.Name, ErrNotOurs)
		case q.Status == CreateFailed || q.Status == UpdateFailed && changed:
			return fmt.Errorf("queue %s is %s: %s", q.Name, q.Status, q.Failures)
		case slices.Contains(q.GroupIDs, g.ID) && q.Status == Active:
			return nil
		default:
			s.tell(WhatQueue, want.queue, "update")
			err = s.updateQueue(ctx, want.cluster.ID, q, union(q.GroupIDs, []string{g.ID}))
		}
		if err != nil && !inConflict(err) {
			return err
		}
		changed = changed || err == nil
	}
	return fmt.Errorf("queue %s is still not as it should be after %d changes; somebody else changes it too", want.queue, rounds)
}

func (s Setup) settledQueue(ctx context.Context, want *wanted) (Queue, bool, error) {
	for {
		q, found, err := s.PCS.Queue(ctx, want.cluster.ID, want.queue)
		if err != nil || !found || !q.Status.Changing() {
			return q, found, err
		}
		if err := s.wait(ctx, WhatQueue, q.Name, q.Status); err != nil {
			return q, found, err
		}
	}
}

func (s Setup) createQueue(ctx context.Context, want *wanted, g NodeGroup) error {
	_, err := s.PCS.api.CreateQueue(ctx, &pcs.CreateQueueInput{
		ClusterIdentifier:              aws.String(want.cluster.ID),
		QueueName:                      aws.String(want.queue),
		ComputeNodeGroupConfigurations: groupConfigurations([]string{g.ID}),
		Tags:                           map[string]string{capacity.TagCluster: want.cluster.Name},
	})
	if err != nil {
		return fmt.Errorf("creating queue %s: %w", want.queue, err)
	}
	return nil
}

// updateQueue replaces the whole list of node groups, which is what PCS offers.
func (s Setup) updateQueue(ctx context.Context, cluster string, q Queue, groups []string) error {
	_, err := s.PCS.api.UpdateQueue(ctx, &pcs.UpdateQueueInput{
		ClusterIdentifier:              aws.String(cluster),
		QueueIdentifier:                aws.String(q.ID),
		ComputeNodeGroupConfigurations: groupConfigurations(groups),
	})
	if err != nil {
		return fmt.Errorf("updating queue %s: %w", q.Name, err)
	}
	return nil
}

func groupConfigurations(ids []string) []types.ComputeNodeGroupConfiguration {
	configs := []types.ComputeNodeGroupConfiguration{}
	for _, id := range ids {
		configs = append(configs, types.ComputeNodeGroupConfiguration{ComputeNodeGroupId: aws.String(id)})
	}
	return configs
}

// wait passes the time until the next look.
func (s Setup) wait(ctx context.Context, what, name string, status Status) error {
	s.tell(what, name, "wait")
	poll := s.Poll
	if poll == 0 {
		poll = 5 * time.Second
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s %s, which is %s: %w; run this again to go on", what, name, status, ctx.Err())
	}
}
