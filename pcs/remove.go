package pcs

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
)

// ReleaseQueue takes node groups, by id, out of a queue of ours, and waits until PCS is
// done. A queue that would be left without any is deleted if deleteEmpty is set. One
// that is not there is no error.
func (p Provisioner) ReleaseQueue(ctx context.Context, cluster Cluster, name string, groups []string, deleteEmpty bool) error {
	changed := false
	for range rounds {
		q, found, err := p.settledQueue(ctx, cluster.ID, name)
		rest := slices.DeleteFunc(slices.Clone(q.GroupIDs), func(id string) bool { return slices.Contains(groups, id) })
		switch {
		case err != nil || !found:
			return err
		case !cluster.Ours(q.Tags):
			return fmt.Errorf("queue %s: %w", name, ErrNotOurs)
		case changed && (q.Status == UpdateFailed || q.Status == DeleteFailed):
			return fmt.Errorf("queue %s is %s: %s", name, q.Status, q.Failures)
		case deleteEmpty && len(rest) == 0:
			p.tell(WhatQueue, name, "delete")
			err = p.PCS.deleteQueue(ctx, q)
		case len(rest) == len(q.GroupIDs):
			return nil
		default:
			p.tell(WhatQueue, name, "update")
			err = p.PCS.updateQueue(ctx, q, rest, nil)
		}
		if err != nil && !inConflict(err) && !NotFound(err) {
			return err
		}
		changed = changed || err == nil
	}
	return fmt.Errorf("queue %s is still not as it should be after %d changes; somebody else changes it too", name, rounds)
}

// DeleteNodeGroup deletes a node group of ours, which is in no queue any more, with its
// instances, and waits until it is gone. One that is not there is no error.
func (p Provisioner) DeleteNodeGroup(ctx context.Context, cluster Cluster, name string) error {
	deleted := false
	for range rounds {
		g, found, err := p.settledGroup(ctx, cluster.ID, name)
		switch {
		case err != nil || !found:
			return err
		case !cluster.Ours(g.Tags):
			return fmt.Errorf("compute node group %s: %w", name, ErrNotOurs)
		case deleted && g.Status == DeleteFailed:
			return fmt.Errorf("PCS could not delete compute node group %s: %s", name, g.Failures)
		}
		p.tell(WhatNodeGroup, name, "delete")
		if err = p.PCS.deleteGroup(ctx, g); err != nil && !inConflict(err) && !NotFound(err) {
			return err
		}
		deleted = deleted || err == nil
	}
	return fmt.Errorf("compute node group %s is still there after %d attempts to delete it; somebody else changes it too", name, rounds)
}

func (c *Client) deleteQueue(ctx context.Context, q Queue) error {
	_, err := c.api.DeleteQueue(ctx, &pcs.DeleteQueueInput{ClusterIdentifier: aws.String(q.ClusterID), QueueIdentifier: aws.String(q.ID)})
	if err != nil {
		return fmt.Errorf("deleting queue %s: %w", q.Name, err)
	}
	return nil
}

func (c *Client) deleteGroup(ctx context.Context, g NodeGroup) error {
	_, err := c.api.DeleteComputeNodeGroup(ctx, &pcs.DeleteComputeNodeGroupInput{ClusterIdentifier: aws.String(g.ClusterID), ComputeNodeGroupIdentifier: aws.String(g.ID)})
	if err != nil {
		return fmt.Errorf("deleting compute node group %s: %w", g.Name, err)
	}
	return nil
}
