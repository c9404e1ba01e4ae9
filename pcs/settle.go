package pcs

import (
	"context"
	"fmt"
	"time"
)

// settledGroup waits until PCS has finished with a node group, and reads it. Its tags are read once.
func (p Provisioner) settledGroup(ctx context.Context, to *Pace, cluster, name string) (NodeGroup, bool, error) {
	for {
		g, found, err := p.PCS.describeGroup(ctx, cluster, name)
		switch {
		case err != nil || !found:
			return NodeGroup{}, false, err
		case !g.Status.Changing():
			if g.Tags, err = p.PCS.groupTags(ctx, g.Name, g.ARN); NotFound(err) {
				return NodeGroup{}, false, nil
			}
			return g, err == nil, err
		}
		if err := p.wait(ctx, to, WhatNodeGroup, g.Name, g.Status); err != nil {
			return g, found, err
		}
	}
}

// settledQueue waits until PCS has finished with a queue, and reads it. Its tags are read once.
func (p Provisioner) settledQueue(ctx context.Context, to *Pace, cluster, name string) (Queue, bool, error) {
	for {
		q, found, err := p.PCS.describeQueue(ctx, cluster, name)
		switch {
		case err != nil || !found:
			return Queue{}, false, err
		case !q.Status.Changing():
			if q.Tags, err = p.PCS.queueTags(ctx, q.Name, q.ARN); NotFound(err) {
				return Queue{}, false, nil
			}
			return q, err == nil, err
		}
		if err := p.wait(ctx, to, WhatQueue, q.Name, q.Status); err != nil {
			return q, found, err
		}
	}
}

// Looks at a thing that PCS changes follow each other in a growing time, so that the end is noticed
// within a tenth of the time that it took, and a long change takes few calls.
const (
	firstLook  = 200 * time.Millisecond
	mostBehind = 10 // one part in
	lastLook   = 10 * time.Second
)

// Pace is the time between looks at one thing that changes, and how long they have taken so far.
type Pace struct{ waited time.Duration }

// Next is the time until the next look: every, or for 0 one that grows.
func (p *Pace) Next(every time.Duration) time.Duration {
	if every == 0 {
		every = min(max(firstLook, p.waited/mostBehind), lastLook)
	}
	p.waited += every
	return every
}

// Waited is the sum of what Next has returned.
func (p *Pace) Waited() time.Duration { return p.waited }

// wait sleeps until the next look.
func (p Provisioner) wait(ctx context.Context, to *Pace, what, name string, status Status) error {
	if p.NoWait {
		return fmt.Errorf("%s %s is %s: %w", what, name, status, ErrAtWork)
	}
	p.tell(what, name, "wait")
	timer := time.NewTimer(to.Next(p.Poll))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s %s, which is %s: %w; run this again to go on", what, name, status, ctx.Err())
	}
}
