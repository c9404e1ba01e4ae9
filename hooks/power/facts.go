package power

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// facts is what all launches of a run are decided on.
type facts struct {
	snap *capacity.Snapshot
	now  time.Time
	// live are our instances by the node that they were launched for: see liveOf.
	live map[string][]capacity.Instance
	// all: live has those of every node.
	all bool
	// taken are places in reservations that launches of this run are meant for.
	taken map[string]int
	// full are reservations that were full a short while ago: see passOver.
	full map[string]int
	// admitted are AdmitLaunch's answers: see admit.
	admitted map[asked]admitted
	// reserve is what may be held, and in which order types are tried.
	reserve capacity.Reserve
}

// mostAsked is for how many nodes EC2 is asked by name: the values of one filter. For more,
// the list of all our instances is the smaller question.
const mostAsked = 200

// readFacts reads what launches are decided on, side by side.
func (r *Resume) readFacts(ctx context.Context, nodes []string) (*facts, error) {
	partitions, templates := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		at, _ := r.placeOf(n)
		partitions[at.partition.Name], templates[at.group.LaunchTemplate] = true, true
	}
	var ours []capacity.Instance
	var seen capacity.Seen
	f := &facts{live: map[string][]capacity.Instance{}, taken: map[string]int{}, reserve: r.Settings.Reserve, all: r.Last == nil || r.ByHand || len(nodes) > mostAsked}
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		ours, err = r.liveOf(readCtx, nodes, f.all)
		return err
	})
	reads.Go(func() (err error) {
		seen, err = r.freshFacts(readCtx, partitions)
		return err
	})
	images := make([]capacity.ImagePlatform, len(templates))
	names := slices.Sorted(maps.Keys(templates))
	for i, t := range names {
		reads.Go(func() error { images[i] = r.imagePlatform(readCtx, t); return nil })
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	f.now = r.now()
	seen.Platforms = map[string]capacity.ImagePlatform{}
	for i, t := range names {
		seen.Platforms[t] = images[i]
	}
	seen.Before, seen.Instances, seen.Now = r.Last, ours, f.now
	f.snap = capacity.Build(r.Settings, seen)
	f.snap.TakenAt = f.now
	f.see(ours)
	var err error
	if f.full, err = r.Held.Full(f.now); err != nil {
		r.Log.Warn("reservations that were full are tried again", "err", err)
	}
	return f, nil
}

// imagePlatform is what the image of a launch template runs, as far as the last pass of sync
// knows it of the version that is launched now; unknown after a change of the template, or
// where sync has not run for long, since a parameter of Systems Manager may name another image
// by then. EC2 is not asked: it would cost each such power-up a call behind another. What is
// not known keeps nothing from being launched, and EC2 itself takes no launch of another
// platform into a reservation.
func (r *Resume) imagePlatform(ctx context.Context, template string) capacity.ImagePlatform {
	// The launch asks for the version again, if this was in vain, and says what is wrong.
	version, err := r.EC2.PinTemplate(ctx, template)
	if err != nil || r.Last == nil || r.Last.Stale(r.now()) {
		return capacity.ImagePlatform{}
	}
	return capacity.ImagePlatform{Template: version, Platform: r.Last.PlatformOf(version)}
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
// of them, and whatever was launched since this power-up began. What is left of an older
// launch of several nodes is not among them; see endLeft.
func (r *Resume) liveOf(ctx context.Context, nodes []string, all bool) ([]capacity.Instance, error) {
	mark := []string{r.Cluster}
	if all {
		found, err := r.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: mark})
		return capacity.WithNodes(found, r.Slurm.Expand), err
	}
	var named, recent []capacity.Instance
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		named, err = r.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: mark, capacity.TagNode: nodes})
		return err
	})
	reads.Go(func() (err error) {
		// AWS has not answered yet, so its clock is the one that the last pass saw.
		recent, err = r.EC2.InstancesSince(ctx, map[string][]string{capacity.TagCluster: mark}, r.Began.Add(r.Last.ClockOffset.Duration).Add(-clockSlack))
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
	return capacity.WithNodes(named, r.Slurm.Expand), nil
}

// lookBeside asks about all our instances if a job has nodes beside those that are powered
// up: it is launched into the reservation where they are.
func (u *powerUp) lookBeside(groups []group) error {
	if u.facts.all || !slices.ContainsFunc(groups, func(g group) bool {
		return slices.ContainsFunc(g.jobs, func(j capacity.Job) bool {
			return slices.ContainsFunc(j.Nodes, func(n string) bool { return !slices.Contains(g.nodes, n) })
		})
	}) {
		return nil
	}
	ours, err := u.liveOf(u.work, nil, true)
	if err != nil {
		return err
	}
	clear(u.facts.live)
	u.facts.all = true
	u.facts.see(ours)
	return nil
}

// endLeft ends what older launches of several nodes have left of nodes for which there is no
// room: it may be what keeps them out.
func (u *powerUp) endLeft(nodes []string) {
	if u.facts.all {
		return // adopt has ended it
	}
	ours, err := u.everything()
	if err != nil {
		u.Log.Warn("looking for instances of older launches", "err", err)
		return
	}
	began := u.Began.Add(u.EC2.Offset()).Add(-clockSlack)
	var stale []string
	for _, i := range ours {
		if slices.Contains(nodes, i.Tags[capacity.TagNode]) && !i.Ended() && i.Launched.Before(began) {
			stale = append(stale, i.ID)
		}
	}
	if len(stale) == 0 {
		return
	}
	u.Log.Warn("terminating instances of older launches", "nodes", u.Slurm.Hostlist(nodes), "instances", stale)
	if err := u.EC2.Terminate(u.finish, stale); err != nil {
		u.Log.Error("terminating instances of older launches", "err", err)
	}
}
