package pcs

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
)

// ReleaseQueue removes node groups, by id, from a queue of ours, and waits until PCS is done. With
// deleteEmpty, it deletes a queue that would have none left. A missing queue is no error.
func (p Provisioner) ReleaseQueue(ctx context.Context, cluster Cluster, name string, groups []string, deleteEmpty bool) error {
	changed := false
	return p.until(ctx, WhatQueue, name, func(to *Pace) (done bool, err error) {
		q, found, err := p.settledQueue(ctx, to, cluster.ID, name)
		rest := slices.DeleteFunc(slices.Clone(q.GroupIDs), func(id string) bool { return slices.Contains(groups, id) })
		switch {
		case err != nil || !found:
			return true, err
		case !cluster.Ours(q.Tags):
			return false, fmt.Errorf("queue %s: %w", name, ErrNotOurs)
		case changed && (q.Status == UpdateFailed || q.Status == DeleteFailed):
			return false, fmt.Errorf("queue %s is %s: %s", name, q.Status, q.Failures)
		case deleteEmpty && len(rest) == 0:
			p.tell(WhatQueue, name, "delete")
			err = unlessGone(p.PCS.deleteQueue(ctx, q))
		case len(rest) == len(q.GroupIDs):
			return true, nil
		default:
			if err := p.keeps(WhatQueue, name, q.LostBy(Queue{})); err != nil {
				return false, err
			}
			p.tell(WhatQueue, name, "update")
			err = unlessGone(p.PCS.updateQueue(ctx, q, rest, nil))
		}
		changed = changed || err == nil
		return false, err
	})
}

// DeleteNodeGroup deletes a node group of ours that is in no queue, with its instances, and waits
// until it is gone. A missing group is no error.
func (p Provisioner) DeleteNodeGroup(ctx context.Context, cluster Cluster, name string) error {
	deleted := false
	return p.until(ctx, WhatNodeGroup, name, func(to *Pace) (done bool, err error) {
		g, found, err := p.settledGroup(ctx, to, cluster.ID, name)
		switch {
		case err != nil || !found:
			return true, err
		case !cluster.Ours(g.Tags):
			return false, fmt.Errorf("compute node group %s: %w", name, ErrNotOurs)
		case deleted && g.Status == DeleteFailed:
			return false, fmt.Errorf("PCS could not delete compute node group %s: %s", name, g.Failures)
		}
		p.tell(WhatNodeGroup, name, "delete")
		err = unlessGone(p.PCS.deleteGroup(ctx, g))
		deleted = deleted || err == nil
		return false, err
	})
}

// unlessGone turns the error that the thing is gone into success.
func unlessGone(err error) error {
	if NotFound(err) {
		return nil
	}
	return err
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
