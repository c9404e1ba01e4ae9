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

// mostAsked is the largest number of nodes for which EC2 is asked by name: the values of one filter. For more nodes,
// listing all our instances is the smaller call.
const mostAsked = 200

// readFacts reads the facts for deciding on launches, side by side.
func (r *Resume) readFacts(ctx context.Context, nodes []string) (*facts, error) {
	partitions, templates := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		at, _ := placeOf(r.Settings, n)
		partitions[at.partition.Name], templates[at.group.LaunchTemplate] = true, true
	}
	var ours []capacity.Instance
	var seen capacity.Seen
	f := &facts{
		settings:  r.Settings,
		cluster:   r.Cluster,
		live:      map[string][]capacity.Instance{},
		templates: map[string]template{},
		all:       r.Last == nil || r.ByHand || len(nodes) > mostAsked,
	}
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

// pin resolves a launch template to a version, with one retry: nothing is launched without it.
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

// imagePlatform is the platform of the launch template's image, if sync's last pass read it for the version that is
// launched now. It is unknown after a change of the template, and if sync has not run for long, because a Systems
// Manager parameter may name another image by then. EC2 is not asked: that would add a sequential call to each such
// power-up. An unknown platform blocks no launch, and EC2 itself refuses a launch of another platform into a
// reservation.
func (r *Resume) imagePlatform(t template) capacity.ImagePlatform {
	if t.failure != nil || r.Last == nil || r.Last.Stale(r.now()) {
		return capacity.ImagePlatform{}
	}
	return capacity.ImagePlatform{Template: t.version, Platform: r.Last.PlatformOf(t.version)}
}

// see files instances by their nodes.
func (f *facts) see(ours []capacity.Instance) {
	for _, i := range ours {
		if node := i.Tags[capacity.TagNode]; node != "" && !i.Ended() {
			f.live[node] = append(f.live[node], i)
		}
	}
}

// liveOf returns our instances, unless all only those of the nodes: instances launched alone for one of them, and
// everything launched since a time. It misses the instances of older launches of several nodes; see AskLeft.
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

// lookBeside lists all our instances if a job has nodes other than those being powered up: it must be launched into
// the reservation where they run.
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

// since is the time from which instances belong to this power-up. AWS has not answered yet, so it uses the clock
// offset of sync's last pass.
func (r *Resume) since() time.Time {
	if r.Last == nil {
		return time.Time{}
	}
	return r.Began.Add(r.Last.ClockOffset.Duration).Add(-clockSlack)
}
