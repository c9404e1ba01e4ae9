package pcs

import (
	"context"
	"fmt"
	"time"
)

// settledGroup waits until PCS has finished with a node group, and reads it.
func (p Provisioner) settledGroup(ctx context.Context, cluster, name string) (NodeGroup, bool, error) {
	for {
		g, found, err := p.PCS.NodeGroup(ctx, cluster, name)
		if err != nil || !found || !g.Status.Changing() {
			return g, found, err
		}
		if err := p.wait(ctx, WhatNodeGroup, g.Name, g.Status); err != nil {
			return g, found, err
		}
	}
}

// settledQueue waits until PCS has finished with a queue, and reads it.
func (p Provisioner) settledQueue(ctx context.Context, cluster, name string) (Queue, bool, error) {
	for {
		q, found, err := p.PCS.Queue(ctx, cluster, name)
		if err != nil || !found || !q.Status.Changing() {
			return q, found, err
		}
		if err := p.wait(ctx, WhatQueue, q.Name, q.Status); err != nil {
			return q, found, err
		}
	}
}

// wait sleeps until the next look.
func (p Provisioner) wait(ctx context.Context, what, name string, status Status) error {
	if p.NoWait {
		return fmt.Errorf("%s %s is %s: %w", what, name, status, ErrAtWork)
	}
	p.tell(what, name, "wait")
	poll := p.Poll
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
