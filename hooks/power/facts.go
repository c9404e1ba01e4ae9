package power

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// mostAsked is for how many nodes EC2 is asked by name: the values of one filter. For more,
// the list of all our instances is the smaller question.
const mostAsked = 200

// readFacts reads what launches are decided on, side by side.
func (r *Resume) readFacts(ctx context.Context, nodes []string) (*facts, error) {
	partitions, templates := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		at, _ := placeOf(r.Settings, n)
		partitions[at.partition.Name], templates[at.group.LaunchTemplate] = true, true
	}
	var ours []capacity.Instance
	var seen capacity.Seen
	f := &facts{settings: r.Settings, cluster: r.Cluster, live: map[string][]capacity.Instance{}, templates: map[string]template{},
		all: r.Last == nil || r.ByHand || len(nodes) > mostAsked}
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		ours, err = r.liveOf(readCtx, r.since(), nodes, f.all)
		return err
	})
	reads.Go(func() (err error) {
		seen, err = r.freshFacts(readCtx, partitions)
		return err
	})
	names := slices.Sorted(maps.Keys(templates))
	pinned := make([]template, len(names))
	for i, name := range names {
		reads.Go(func() error { pinned[i] = r.pin(readCtx, name); return nil })
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	f.now = r.now()
	seen.Platforms = map[string]capacity.ImagePlatform{}
	for i, name := range names {
		f.templates[name], seen.Platforms[name] = pinned[i], r.imagePlatform(pinned[i])
	}
	seen.Before, seen.Instances, seen.Now = r.Last, ours, f.now
	f.snap = capacity.Build(r.Settings, seen)
	f.snap.TakenAt = f.now
	f.see(ours)
	var err error
	if f.full, err = r.State.Full(f.now); err != nil {
		r.Log.Warn("reservations that were full are tried again", "err", err)
	}
	return f, nil
}

// pin asks for the version of a launch template, a second time if it was in vain: without it nothing
// is launched.
func (r *Resume) pin(ctx context.Context, name string) template {
	version, err := r.EC2.PinTemplate(ctx, name)
	if err != nil {
		version, err = r.EC2.PinTemplate(ctx, name)
	}
	if err != nil {
		return template{failure: failureOf(err)}
	}
	return template{version: version}
}

// imagePlatform is what the image of a launch template runs, as far as the last pass of sync
// knows it of the version that is launched now; unknown after a change of the template, or
// where sync has not run for long, since a parameter of Systems Manager may name another image
// by then. EC2 is not asked: it would cost each such power-up a call behind another. What is
// not known keeps nothing from being launched, and EC2 itself takes no launch of another
// platform into a reservation.
func (r *Resume) imagePlatform(t template) capacity.ImagePlatform {
	if t.failure != nil || r.Last == nil || r.Last.Stale(r.now()) {
		return capacity.ImagePlatform{}
	}
	return capacity.ImagePlatform{Template: t.version, Platform: r.Last.PlatformOf(t.version)}
}

// see keeps instances by their nodes.
func (f *facts) see(ours []capacity.Instance) {
	for _, i := range ours {
		if node := i.Tags[capacity.TagNode]; node != "" && !i.Ended() {
			f.live[node] = append(f.live[node], i)
		}
	}
}

// liveOf are our instances, of the nodes if not all: those that were launched alone for one
// of them, and whatever was launched since a time. What is left of an older
// launch of several nodes is not among them; see AskLeft.
func (s *Site) liveOf(ctx context.Context, since time.Time, nodes []string, all bool) ([]capacity.Instance, error) {
	mark := []string{s.Cluster}
	if all {
		found, err := s.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: mark})
		return capacity.WithNodes(found, hostlist.Expand), err
	}
	var named, recent []capacity.Instance
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		named, err = s.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: mark, capacity.TagNode: nodes})
		return err
	})
	reads.Go(func() (err error) {
		recent, err = s.EC2.InstancesSince(ctx, map[string][]string{capacity.TagCluster: mark}, since)
		return err
	})
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	for _, i := range recent {
		if !slices.ContainsFunc(named, func(n capacity.Instance) bool { return n.ID == i.ID }) {
			named = append(named, i)
		}
	}
	return capacity.WithNodes(named, hostlist.Expand), nil
}

// lookBeside asks about all our instances if a job has nodes beside those that are powered
// up: it is launched into the reservation where they are.
func (r *Resume) lookBeside(ctx context.Context, f *facts, groups []group) error {
	if f.all || !slices.ContainsFunc(groups, func(g group) bool {
		return slices.ContainsFunc(g.jobs, func(j capacity.Job) bool {
			return slices.ContainsFunc(j.Nodes, func(n string) bool { return !slices.Contains(g.nodes, n) })
		})
	}) {
		return nil
	}
	ours, err := r.liveOf(ctx, time.Time{}, nil, true)
	if err != nil {
		return err
	}
	clear(f.live)
	f.all = true
	f.see(ours)
	return nil
}

// since is the time from which on instances are of this power-up. AWS has not answered yet, so its
// clock is the one that the last pass saw.
func (r *Resume) since() time.Time {
	if r.Last == nil {
		return time.Time{}
	}
	return r.Began.Add(r.Last.ClockOffset.Duration).Add(-clockSlack)
}
