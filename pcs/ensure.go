package pcs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// EC2 is the part of *ec2.Client that this package needs.
type EC2 interface {
	// LaunchTemplate reads one version; an empty version is the newest. The second
	// value is false when there is no such template.
	LaunchTemplate(ctx context.Context, idOrName, version string) (capacity.LaunchTemplate, bool, error)
	// LaunchTemplateDigest is the Digest that EnsureLaunchTemplate would write.
	LaunchTemplateDigest(ctx context.Context, spec capacity.LaunchTemplateSpec) (string, error)
	EnsureLaunchTemplate(ctx context.Context, spec capacity.LaunchTemplateSpec) (capacity.LaunchTemplate, error)
	// InstancesByTag lists instances that are not terminated.
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
}

// Provisioner brings node groups and queues to their wanted state, and waits until PCS is done. It
// looks at each thing before a change: it leaves alone things without the cluster's mark
// (ErrNotOurs), and a run that was cut off can be repeated.
type Provisioner struct {
	PCS *Client
	EC2 EC2
	// Poll is the time between two looks at a thing that PCS is changing; 0 for one that grows.
	Poll time.Duration
	// Progress, if set, is called for each step on a thing of a kind (WhatNodeGroup, WhatQueue):
	// create, update, delete, wait.
	Progress func(what, name, status string)
	// NoWait: return ErrAtWork instead of waiting for PCS.
	NoWait bool
}

// The kinds of things for Progress.
const (
	WhatNodeGroup = "compute node group"
	WhatQueue     = "queue"
)

func (p Provisioner) tell(what, name, status string) {
	if p.Progress != nil {
		p.Progress(what, name, status)
	}
}

// rounds is how often a change of a thing is tried; patience is how long it is waited for while PCS
// is changing the thing or its cluster, in looks of a fixed time.
const rounds, patience = 5, 60

// conflictTime is the patience where the time between looks grows.
const conflictTime = 5 * time.Minute

// until looks at a thing and changes it until step reports that it is done. PCS takes no change
// while it is changing the thing or its cluster: until waits for that.
func (p Provisioner) until(ctx context.Context, what, name string, step func(to *Pace) (done bool, err error)) error {
	var conflict error
	var to, busy Pace
	most := conflictTime
	if p.Poll > 0 {
		most = patience * p.Poll
	}
	for changes := 0; changes < rounds && busy.waited < most; {
		switch done, err := step(&to); {
		case inConflict(err):
			conflict = err
			if err := p.wait(ctx, &busy, what, name, Updating); err != nil {
				return err
			}
		case done || err != nil:
			return err
		default:
			if changes, to = changes+1, (Pace{}); p.NoWait {
				return fmt.Errorf("%s %s has changed: %w", what, name, ErrAtWork)
			}
		}
	}
	if conflict != nil {
		return fmt.Errorf("%s %s is still not as it should be: %w", what, name, conflict)
	}
	return fmt.Errorf("%s %s is still not as it should be; somebody else changes it too", what, name)
}

// EnsureNodeGroup creates or updates the node group of the wanted name, and waits until PCS is
// done. It makes a group of ours anew that an earlier run could not create. wanted has the
// cluster's id, and in Tags our mark and the reservation. It reports whether it changed anything. A
// missing group is an error if it may not be created. A group whose instances the change would
// replace is left alone (ErrInUse).
func (p Provisioner) EnsureNodeGroup(ctx context.Context, want NodeGroup, mayCreate bool) (g NodeGroup, changed bool, err error) {
	err = p.until(ctx, WhatNodeGroup, want.Name, func(to *Pace) (done bool, err error) {
		var found bool
		g, found, err = p.settledGroup(ctx, to, want.ClusterID, want.Name)
		switch {
		case err != nil:
			return false, err
		case !found && !mayCreate:
			return false, fmt.Errorf("the cluster has no compute node group %s", want.Name)
		case !found:
			p.tell(WhatNodeGroup, want.Name, "create")
			err = p.PCS.createGroup(ctx, want)
		case g.Tags[capacity.TagCluster] != want.Tags[capacity.TagCluster]:
			return false, fmt.Errorf("compute node group %s: %w", g.Name, ErrNotOurs)
		case g.Status == CreateFailed && (changed || !mayCreate):
			return false, fmt.Errorf("PCS could not create node group %s: %s; `pcs-capacity setup` makes it anew", g.Name, g.Failures)
		case g.Status == CreateFailed:
			if err := p.keeps(WhatNodeGroup, g.Name, g.Unknown); err != nil {
				return false, err
			}
			p.tell(WhatNodeGroup, g.Name, "delete")
			return false, unlessGone(p.PCS.deleteGroup(ctx, g))
		case g.Status == UpdateFailed && changed:
			return false, fmt.Errorf("PCS could not update node group %s: %s", g.Name, g.Failures)
		default:
			compared := g.Compare(want)
			if !compared.Changed() {
				return true, nil
			}
			if err := errors.Join(p.keeps(WhatNodeGroup, g.Name, g.LostBy(want)), p.checkUnused(ctx, g, compared.Disruptive())); err != nil {
				return false, err
			}
			p.tell(WhatNodeGroup, g.Name, "update")
			err = p.PCS.updateGroup(ctx, want, g)
		}
		changed = changed || err == nil
		return false, err
	})
	return g, changed, err
}

func (p Provisioner) checkUnused(ctx context.Context, g NodeGroup, disruptive bool) error {
	if !disruptive {
		return nil
	}
	left, err := p.EC2.InstancesByTag(ctx, map[string][]string{TagNodeGroupID: {g.ID}})
	switch {
	case err != nil:
		return fmt.Errorf("looking for instances of node group %s: %w", g.Name, err)
	case len(left) > 0:
		return fmt.Errorf("compute node group %s has %d instances: %w", g.Name, len(left), ErrInUse)
	}
	return nil
}

// EnsureQueue creates the queue of the wanted name, or adds the wanted node groups and Slurm
// settings to it, and waits until PCS is done.
func (p Provisioner) EnsureQueue(ctx context.Context, want Queue) error {
	changed := false
	return p.until(ctx, WhatQueue, want.Name, func(to *Pace) (done bool, err error) {
		q, found, err := p.settledQueue(ctx, to, want.ClusterID, want.Name)
		groups := slices.Clone(q.GroupIDs)
		for _, id := range want.GroupIDs {
			if !slices.Contains(groups, id) {
				groups = append(groups, id)
			}
		}
		settings := q.withSettings(want.SlurmSettings)
		switch {
		case err != nil:
			return false, err
		case !found:
			p.tell(WhatQueue, want.Name, "create")
			err = p.PCS.createQueue(ctx, want)
		case q.Tags[capacity.TagCluster] != want.Tags[capacity.TagCluster]:
			return false, fmt.Errorf("queue %s: %w", q.Name, ErrNotOurs)
		case q.Status == CreateFailed || q.Status == UpdateFailed && changed:
			return false, fmt.Errorf("queue %s is %s: %s", q.Name, q.Status, q.Failures)
		case len(groups) == len(q.GroupIDs) && settings == nil && q.Status == Active:
			return true, nil
		default:
			if err := p.keeps(WhatQueue, q.Name, q.LostBy(want)); err != nil {
				return false, err
			}
			p.tell(WhatQueue, want.Name, "update")
			err = p.PCS.updateQueue(ctx, q, groups, settings)
		}
		changed = changed || err == nil
		return false, err
	})
}

// AwaitNodeGroup waits until PCS has finished with the node group of the wanted name. It changes
// nothing.
func (p Provisioner) AwaitNodeGroup(ctx context.Context, want NodeGroup) (NodeGroup, error) {
	g, found, err := p.settledGroup(ctx, &Pace{}, want.ClusterID, want.Name)
	switch {
	case err != nil:
	case !found:
		err = fmt.Errorf("the cluster has no compute node group %s any more", want.Name)
	case g.Tags[capacity.TagCluster] != want.Tags[capacity.TagCluster]:
		err = fmt.Errorf("compute node group %s: %w", g.Name, ErrNotOurs)
	case g.Status == CreateFailed || g.Status == UpdateFailed:
		err = fmt.Errorf("compute node group %s is %s: %s", g.Name, g.Status, g.Failures)
	}
	return g, err
}
