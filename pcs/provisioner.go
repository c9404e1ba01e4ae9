package pcs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// EC2 is the part of *ec2.Client that this package needs.
type EC2 interface {
	// LaunchTemplate reads one version; an empty version is the newest. The second
	// value is false when there is no such template.
	LaunchTemplate(ctx context.Context, idOrName, version string) (capacity.LaunchTemplate, bool, error)
	// PlannedTemplate is the version that EnsureLaunchTemplate would leave behind.
	PlannedTemplate(ctx context.Context, spec capacity.LaunchTemplateSpec) (capacity.LaunchTemplate, error)
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
	WhatCluster   = "PCS cluster"
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

// EnsureNodeGroup creates or updates the node group of the wanted name, and waits until PCS is done. It makes a group
// of ours anew that an earlier run could not create. wanted has the cluster's id, and in Tags our mark and the
// reservation. It reports whether it changed anything. A missing group is an error if it may not be created. A group
// whose instances the change would replace is left alone (ErrInUse).
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
			err = p.createGroup(ctx, want)
		case g.Tags[capacity.TagCluster] != want.Tags[capacity.TagCluster]:
			return false, fmt.Errorf("compute node group %s: %w", g.Name, ErrNotOurs)
		case g.Status == CreateFailed && (changed || !mayCreate):
			return false, fmt.Errorf("PCS could not create node group %s: %s; `pcs-capacity setup` makes it anew", g.Name, g.Failures)
		case g.Status == CreateFailed:
			if err := p.keeps(WhatNodeGroup, g.Name, g.Unknown); err != nil {
				return false, err
			}
			return false, p.deleteGroup(ctx, g)
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
			err = p.updateGroup(ctx, want, g)
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
			err = p.createQueue(ctx, want)
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
			err = p.updateQueue(ctx, q, groups, settings)
		}
		changed = changed || err == nil
		return false, err
	})
}

// AwaitNodeGroup waits until PCS has finished with the node group of the wanted name. It changes nothing.
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
			err = p.deleteQueue(ctx, q)
		case len(rest) == len(q.GroupIDs):
			return true, nil
		default:
			if err := p.keeps(WhatQueue, name, q.LostBy(Queue{})); err != nil {
				return false, err
			}
			if err = p.updateQueue(ctx, q, rest, nil); NotFound(err) {
				err = nil
			}
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
		err = p.deleteGroup(ctx, g)
		deleted = deleted || err == nil
		return false, err
	})
}

func (p Provisioner) deleteGroup(ctx context.Context, g NodeGroup) error {
	p.tell(WhatNodeGroup, g.Name, "delete")
	_, err := p.PCS.api.DeleteComputeNodeGroup(ctx, &pcs.DeleteComputeNodeGroupInput{ClusterIdentifier: aws.String(g.ClusterID), ComputeNodeGroupIdentifier: aws.String(g.ID)})
	if err != nil && !NotFound(err) {
		return fmt.Errorf("deleting compute node group %s: %w", g.Name, err)
	}
	return nil
}

func (p Provisioner) deleteQueue(ctx context.Context, q Queue) error {
	p.tell(WhatQueue, q.Name, "delete")
	_, err := p.PCS.api.DeleteQueue(ctx, &pcs.DeleteQueueInput{ClusterIdentifier: aws.String(q.ClusterID), QueueIdentifier: aws.String(q.ID)})
	if err != nil && !NotFound(err) {
		return fmt.Errorf("deleting queue %s: %w", q.Name, err)
	}
	return nil
}

// settled reads a thing of a kind until PCS has finished with it. found is false when there is none.
func settled[T any](ctx context.Context, p Provisioner, to *Pace, what, name string, read func() (T, Status, bool, error)) (one T, found bool, err error) {
	for {
		one, status, found, err := read()
		if err != nil || !found || !status.Changing() {
			return one, found, err
		}
		if err := p.wait(ctx, to, what, name, status); err != nil {
			return one, found, err
		}
	}
}

func (p Provisioner) settledGroup(ctx context.Context, to *Pace, cluster, name string) (NodeGroup, bool, error) {
	return settled(ctx, p, to, WhatNodeGroup, name, func() (NodeGroup, Status, bool, error) {
		g, found, err := p.PCS.NodeGroup(ctx, cluster, name)
		return g, g.Status, found, err
	})
}

func (p Provisioner) settledQueue(ctx context.Context, to *Pace, cluster, name string) (Queue, bool, error) {
	return settled(ctx, p, to, WhatQueue, name, func() (Queue, Status, bool, error) {
		q, found, err := p.PCS.Queue(ctx, cluster, name)
		return q, q.Status, found, err
	})
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

// NotSettled returns the reason why PCS cannot update the cluster now, and its fix: PCS takes an
// update only while the cluster and all its node groups and queues are ACTIVE (AWS PCS User Guide,
// "Updating a cluster"). Both are "" if it can.
func (i Inventory) NotSettled() (what, fix string) {
	if what, fix := i.Cluster.NotActive(); what != "" && i.Cluster.Status != UpdateFailed {
		return what, fix
	}
	var parts []string
	fix = "run this again then"
	note := func(thing string, s Status, why Failures) {
		if s == Active {
			return
		}
		part := fmt.Sprintf("%s is %s", thing, s)
		if len(why) > 0 {
			part += " (" + why.String() + ")"
		}
		if parts = append(parts, part); !s.Changing() {
			fix = "mend or delete what has failed, and run this again"
		}
	}
	for _, g := range i.Groups {
		note("node group "+g.Name, g.Status, g.Failures)
	}
	for _, q := range i.Queues {
		note("queue "+q.Name, q.Status, q.Failures)
	}
	if parts == nil {
		fix = ""
	}
	return strings.Join(parts, ", "), fix
}

// ChangeClusterSettings sets custom settings of the cluster, and removes settings whose value is
// "". PCS only takes the whole list, so ChangeClusterSettings reads it first and keeps all others.
// It returns when the cluster is ACTIVE again.
func (p Provisioner) ChangeClusterSettings(ctx context.Context, cluster string, change map[string]string) error {
	sent := false
	return p.until(ctx, WhatCluster, cluster, func(to *Pace) (done bool, err error) {
		c, _, err := settled(ctx, p, to, WhatCluster, cluster, func() (Cluster, Status, bool, error) {
			c, err := p.PCS.Cluster(ctx, cluster)
			return c, c.Status, true, err
		})
		if err != nil {
			return false, err
		}
		merged := ChangedSettings(c.SlurmSettings, change)
		switch {
		case maps.Equal(merged, c.SlurmSettings) && c.Status == Active:
			return true, nil
		case sent && c.Status != Active:
			return false, fmt.Errorf("PCS cluster %s is %s: %s", c.Name, c.Status, c.Failures)
		}
		p.tell(WhatCluster, c.Name, "update")
		_, err = p.PCS.api.UpdateCluster(ctx, &pcs.UpdateClusterInput{ClusterIdentifier: aws.String(c.ID),
			SlurmConfiguration: &types.UpdateClusterSlurmConfigurationRequest{SlurmCustomSettings: settingsList(merged)}})
		if err != nil {
			return false, fmt.Errorf("updating PCS cluster %s: %w", c.Name, err)
		}
		sent = true
		return false, nil
	})
}

// ChangedSettings are settings with a change: "" removes one.
func ChangedSettings(settings, change map[string]string) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, settings)
	maps.Copy(merged, change)
	maps.DeleteFunc(merged, func(_, value string) bool { return value == "" })
	return merged
}
