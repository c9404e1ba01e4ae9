package pcs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	FindInstances(ctx context.Context, q capacity.InstanceQuery) ([]capacity.Instance, error)
}

// Provisioner brings node groups and queues to their wanted state, and waits until PCS is done. It
// looks at each thing before a change: it leaves alone things without the cluster's mark
// (ErrNotOurs), and a run that was cut off can be repeated.
type Provisioner struct {
	PCS  *Client
	EC2  EC2
	Poll time.Duration // the time between two looks at a thing that PCS is changing; 0 for one that grows
	// Progress, if set, is called for each step on a thing of a kind (WhatNodeGroup, WhatQueue):
	// create, update, delete, wait.
	Progress func(what, name, status string)
	NoWait   bool // return ErrAtWork instead of waiting for PCS
}

// The kinds of things for Progress.
const (
	WhatNodeGroup = "compute node group"
	WhatQueue     = "queue"
	WhatCluster   = "PCS cluster"
)

func (p Provisioner) report(what, name, status string) {
	if p.Progress != nil {
		p.Progress(what, name, status)
	}
}

// maxChanges bounds how often a change of a thing is tried; patience bounds the wait for it while PCS
// is changing the thing or its cluster, in looks of a fixed time.
const maxChanges, maxLooks = 5, 60

// conflictTime is the patience where the time between looks grows.
const conflictTime = 5 * time.Minute

// converge reads a thing, when PCS has finished with it, and changes it, until step reports that it is done; changed
// tells step, and the caller, that a change was sent. PCS takes no change while it is changing the thing or its
// cluster: until waits for that. A thing that is not there is not found.
func converge[T interface{ status() Status }](
	ctx context.Context,
	p Provisioner,
	what, cluster, name string,
	read func(ctx context.Context, cluster, name string) (T, bool, error),
	step func(one T, found, changed bool) (done bool, err error),
) (one T, changed bool, err error) {
	var (
		conflict error
		to, busy Pace
	)

	most := conflictTime
	if p.Poll > 0 {
		most = maxLooks * p.Poll
	}

	for changes := 0; changes < maxChanges && busy.waited < most; {
		var found, done bool

		// Read anew each time: PCS, an administrator or another run may have changed it.
		one, found, err = read(ctx, cluster, name)
		if err == nil && found && one.status().Changing() {
			if err = p.wait(ctx, &to, what, name, one.status()); err != nil {
				return one, changed, err
			}
			continue
		}

		if err == nil {
			done, err = step(one, found, changed)
		}

		switch {
		case isConflict(err):
			// PCS is busy with another part of the cluster, and says so only when asked for a change.
			conflict = err
			if err := p.wait(ctx, &busy, what, name, Updating); err != nil {
				return one, changed, err
			}
		case done || err != nil:
			return one, changed, err
		default:
			changes++
			changed = true
			to = Pace{} // PCS is at work from now on

			if p.NoWait {
				return one, changed, fmt.Errorf("%s %s has changed: %w", what, name, ErrAtWork)
			}
		}
	}

	err = fmt.Errorf("%s %s is still not as it should be; somebody else is changing it too", what, name)
	if conflict != nil {
		err = fmt.Errorf("%s %s is still not as it should be: %w", what, name, conflict)
	}

	return one, changed, err
}

func errNotOurs(what, name string) error { return fmt.Errorf("%s %s: %w", what, name, ErrNotOurs) }

// EnsureNodeGroup creates or updates the node group of the wanted name, and waits until PCS is done. It makes a group
// of ours anew that an earlier run could not create. wanted has the cluster's id, and in Tags our mark and the
// reservation. It reports whether it changed anything. A missing group is an error if it may not be created. A group
// whose instances the change would replace is left alone (ErrInUse).
func (p Provisioner) EnsureNodeGroup(ctx context.Context, want NodeGroup, mayCreate bool) (NodeGroup, bool, error) {
	made := false

	return converge(ctx, p, WhatNodeGroup, want.ClusterID, want.Name, p.PCS.NodeGroup,
		func(g NodeGroup, found, changed bool) (done bool, err error) {
			compared := g.Compare(want)
			switch {
			case !found && !mayCreate:
				return false, fmt.Errorf("the cluster has no compute node group %s", want.Name)
			case !found:
				made = true
				return false, p.createGroup(ctx, want)
			case g.Tags[capacity.TagCluster] != want.Tags[capacity.TagCluster]:
				return false, errNotOurs(WhatNodeGroup, g.Name)
			case g.Status == CreateFailed && (made || !mayCreate):
				return false, fmt.Errorf(
					"PCS could not create node group %s: %s; `pcs-capacity setup` creates it again",
					g.Name,
					g.Failures,
				)
			case g.Status == CreateFailed:
				if err := checkLost(WhatNodeGroup, g.Name, g.Unknown); err != nil {
					return false, err
				}
				return false, p.deleteGroup(ctx, g)
			case g.Status == UpdateFailed && changed:
				return false, fmt.Errorf("PCS could not update node group %s: %s", g.Name, g.Failures)
			case !compared.Changed():
				return true, nil
			}

			err = errors.Join(checkLost(WhatNodeGroup, g.Name, g.LostByUpdate()),
				p.checkUnused(ctx, g, compared.Disruptive()))
			if err != nil {
				return false, err
			}

			return false, p.updateGroup(ctx, want, g)
		})
}

func (p Provisioner) checkUnused(ctx context.Context, g NodeGroup, disruptive bool) error {
	if !disruptive {
		return nil
	}

	left, err := p.EC2.FindInstances(ctx, capacity.InstanceQuery{Tags: map[string][]string{TagNodeGroupID: {g.ID}}})
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
	_, _, err := converge(ctx, p, WhatQueue, want.ClusterID, want.Name, p.PCS.Queue,
		func(q Queue, found, changed bool) (done bool, err error) {
			// Node groups are added and none is removed: the queue may have others of the site.
			more := slices.DeleteFunc(slices.Clone(want.GroupIDs),
				func(id string) bool { return slices.Contains(q.GroupIDs, id) })
			settings := q.withSettings(want.SlurmSettings)
			switch {
			case !found:
				in := &pcs.CreateQueueInput{
					ClusterIdentifier:              &want.ClusterID,
					QueueName:                      &want.Name,
					ComputeNodeGroupConfigurations: groupConfigurations(want.GroupIDs),
					Tags:                           want.Tags,
				}
				if len(want.SlurmSettings) > 0 {
					in.SlurmConfiguration = &types.QueueSlurmConfigurationRequest{
						SlurmCustomSettings: settingsList(want.SlurmSettings),
					}
				}

				return false, send(ctx, p, "create", WhatQueue, want.Name, p.PCS.api.CreateQueue, in)
			case q.Tags[capacity.TagCluster] != want.Tags[capacity.TagCluster]:
				return false, errNotOurs(WhatQueue, q.Name)
			case q.Status == CreateFailed || q.Status == UpdateFailed && changed:
				return false, fmt.Errorf("queue %s is %s: %s", q.Name, q.Status, q.Failures)
			case len(more) == 0 && settings == nil && q.Status == Active:
				return true, nil
			}

			return false, p.updateQueue(ctx, q, slices.Concat(q.GroupIDs, more), settings)
		})

	return err
}

// ReleaseQueue removes node groups, by id, from a queue of ours, and waits until PCS is done. With
// deleteEmpty, it deletes a queue that would have none left. A missing queue is no error.
func (p Provisioner) ReleaseQueue(
	ctx context.Context, cluster Cluster, name string, groups []string, deleteEmpty bool,
) error {
	_, _, err := converge(ctx, p, WhatQueue, cluster.ID, name, p.PCS.Queue,
		func(q Queue, found, changed bool) (done bool, err error) {
			rest := slices.DeleteFunc(slices.Clone(q.GroupIDs),
				func(id string) bool { return slices.Contains(groups, id) })
			switch {
			case !found:
				return true, nil
			case !cluster.Owns(q.Tags):
				return false, errNotOurs(WhatQueue, name)
			case changed && (q.Status == UpdateFailed || q.Status == DeleteFailed):
				return false, fmt.Errorf("queue %s is %s: %s", name, q.Status, q.Failures)
			case deleteEmpty && len(rest) == 0:
				return false, send(ctx, p, "delete", WhatQueue, name, p.PCS.api.DeleteQueue,
					&pcs.DeleteQueueInput{ClusterIdentifier: &q.ClusterID, QueueIdentifier: &q.ID})
			case len(rest) == len(q.GroupIDs):
				return true, nil
			}

			if err = p.updateQueue(ctx, q, rest, nil); IsNotFound(err) {
				err = nil
			}

			return false, err
		})

	return err
}

// DeleteNodeGroup deletes a node group of ours that is in no queue, with its instances, and waits
// until it is gone. A missing group is no error.
func (p Provisioner) DeleteNodeGroup(ctx context.Context, cluster Cluster, name string) error {
	_, _, err := converge(ctx, p, WhatNodeGroup, cluster.ID, name, p.PCS.NodeGroup,
		func(g NodeGroup, found, changed bool) (done bool, err error) {
			switch {
			case !found:
				return true, nil
			case !cluster.Owns(g.Tags):
				return false, errNotOurs(WhatNodeGroup, name)
			case changed && g.Status == DeleteFailed:
				return false, fmt.Errorf("PCS could not delete compute node group %s: %s", name, g.Failures)
			}

			return false, p.deleteGroup(ctx, g)
		})

	return err
}

// Looks at a thing that PCS changes follow each other in a growing time, so that the end is noticed
// within a tenth of the time that it took, and a long change takes few calls.
const (
	minPoll   = 200 * time.Millisecond
	pollShare = 10 // one part in
	maxPoll   = 10 * time.Second
)

// Pace is the time between looks at one thing that changes, and how long they have taken so far.
type Pace struct{ waited time.Duration }

// Next returns the time until the next look: every, or for 0 one that grows.
func (p *Pace) Next(every time.Duration) time.Duration {
	if every == 0 {
		every = min(max(minPoll, p.waited/pollShare), maxPoll)
	}

	p.waited += every

	return every
}

// Waited returns how long all looks have waited so far.
func (p *Pace) Waited() time.Duration { return p.waited }

// Pause sleeps until the next look; with NoWait there is none.
func (p Provisioner) Pause(ctx context.Context, to *Pace) error {
	if p.NoWait {
		return ErrAtWork
	}

	select {
	case <-time.After(to.Next(p.Poll)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait pauses while PCS changes a thing, and reports that it waits.
func (p Provisioner) wait(ctx context.Context, to *Pace, what, name string, status Status) error {
	if p.NoWait {
		return fmt.Errorf("%s %s is %s: %w", what, name, status, ErrAtWork)
	}

	p.report(what, name, "wait")

	if err := p.Pause(ctx, to); err != nil {
		return fmt.Errorf("waiting for %s %s, which is %s: %w; run this again to continue", what, name, status, err)
	}

	return nil
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

		parts = append(parts, part)

		if !s.Changing() {
			fix = "fix or delete what has failed, and run this again"
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
	_, _, err := converge(
		ctx,
		p,
		WhatCluster,
		"",
		cluster,
		func(ctx context.Context, _, name string) (Cluster, bool, error) {
			c, err := p.PCS.Cluster(ctx, name)
			return c, true, err
		},
		func(c Cluster, _, changed bool) (done bool, err error) {
			merged := ChangedSettings(c.SlurmSettings, change)
			switch {
			case maps.Equal(merged, c.SlurmSettings) && c.Status == Active:
				return true, nil
			case changed && c.Status != Active:
				return false, fmt.Errorf("PCS cluster %s is %s: %s", c.Name, c.Status, c.Failures)
			}

			return false, send(ctx, p, "update", WhatCluster, c.Name, p.PCS.api.UpdateCluster, &pcs.UpdateClusterInput{
				ClusterIdentifier: &c.ID,
				SlurmConfiguration: &types.UpdateClusterSlurmConfigurationRequest{
					SlurmCustomSettings: settingsList(merged),
				},
			})
		},
	)

	return err
}

// ChangedSettings returns settings with a change: "" removes one.
func ChangedSettings(settings, change map[string]string) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, settings)
	maps.Copy(merged, change)
	maps.DeleteFunc(merged, func(_, value string) bool { return value == "" })

	return merged
}
