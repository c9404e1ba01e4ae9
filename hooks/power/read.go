package power

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// headStart is how long only squeue runs next to the calls to AWS. Slurm's other programs would delay them by more,
// and AWS's answers take longest. Measured on two cores.
const headStart = 4 * time.Millisecond

// waits are the jobs and nodes of SLURM_RESUME_FILE, which is there only for a while. Without it, as in a run by hand,
// the jobs are those that squeue shows on the nodes.
func (j *journal) waits() (waits []wait, byHand bool) {
	path := os.Getenv("SLURM_RESUME_FILE")
	if path == "" {
		return nil, true
	}
	file, err := slurm.ReadResumeFile(path)
	if err != nil {
		j.Warn("going on with what squeue says", "err", err)
	}
	for _, job := range file.Jobs {
		nodes, err := hostlist.Expand(job.ResumeNodes)
		if err != nil {
			j.Warn("going on with what squeue says", "job", job.ID, "err", err)
			continue
		}
		waits = append(waits, wait{job.ID, nodes})
	}
	return waits, false
}

// read reads what a power-up needs, all side by side: it waits only for the slowest answer. The error is for a cluster
// that is unknown: then nothing can be launched.
func (s *site) read(ctx context.Context, nodes []string, last *capacity.Snapshot, byHand bool) (*call, error) {
	c := &call{journal: s.journal, nodes: nodes}
	began, guess := time.Now(), s.known()
	since := s.began // the power-up cannot have begun before
	ctx, stop := context.WithTimeout(ctx, mostBudget*2/3)
	defer stop()
	var cluster string
	var timeout time.Duration
	var unknown error
	var reads sync.WaitGroup
	reads.Go(func() { c.jobs, c.jobsErr = s.BriefJobs(ctx) }) // of many jobs it takes longest
	if guess != "" {
		reads.Go(func() { c.facts, c.factsErr = s.readFacts(ctx, guess, nodes, last) })
		time.Sleep(headStart)
	}
	reads.Go(func() {
		cluster, timeout, unknown = s.ask(ctx)
		c.budget = resumeBudget(timeout)
		time.AfterFunc(c.budget*2/3-time.Since(began), stop)
	})
	reads.Go(func() { c.shown, c.shownErr = s.NodeStates(ctx, nodes...) })
	reads.Wait()
	if unknown != nil {
		return nil, unknown
	}
	if cluster != guess { // the facts are about another cluster's instances
		c.facts, c.factsErr = s.readFacts(ctx, cluster, nodes, last)
	}
	if byHand { // Slurm may have waited for the nodes as long
		since = since.Add(-timeout)
	}
	c.since = since.Add(s.Offset()).Add(-clockSlack)
	return c, nil
}

// readFacts reads what launches are decided on, side by side. last is the last snapshot; nil if there is none. With an
// error the facts have the settings alone.
func (s *site) readFacts(ctx context.Context, cluster string, nodes []string, last *capacity.Snapshot) (*facts, error) {
	partitions, templates := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		at, _ := placeOf(s.settings, n)
		partitions[at.partition.Name], templates[at.group.LaunchTemplate] = true, true
	}
	f := &facts{settings: s.settings, cluster: cluster, live: map[string][]capacity.Instance{},
		templates: map[string]template{}, taken: map[string]int{}, admitted: map[asked]admitted{}}
	var ours []capacity.Instance
	var seen capacity.Seen
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		ours, err = ourInstances(readCtx, s, cluster)
		return err
	})
	reads.Go(func() (err error) {
		seen, err = s.freshFacts(readCtx, partitions, last)
		return err
	})
	names := slices.Sorted(maps.Keys(templates))
	pinned := make([]template, len(names))
	for i, name := range names {
		reads.Go(func() error { pinned[i] = s.pin(readCtx, name); return nil })
	}
	if err := reads.Wait(); err != nil {
		return f, err
	}
	f.now = s.Now()
	seen.Platforms = map[string]capacity.ImagePlatform{}
	for i, name := range names {
		f.templates[name], seen.Platforms[name] = pinned[i], imagePlatform(pinned[i], last, f.now)
	}
	seen.Before, seen.Instances, seen.Now = last, ours, f.now
	f.snap = capacity.Build(s.settings, seen)
	f.snap.TakenAt = f.now
	f.see(ours)
	return f, nil
}

// pin resolves a launch template to a version, with one retry: nothing is launched without it.
func (s *site) pin(ctx context.Context, name string) template {
	version, err := s.PinTemplate(ctx, name)
	if err != nil {
		version, err = s.PinTemplate(ctx, name)
	}
	return template{version, failureOf(err)}
}

// imagePlatform is the platform of the launch template's image, if sync's last pass read it for the version that is
// launched now. It is unknown after a change of the template, and if sync has not run for long, because a Systems
// Manager parameter may name another image by then. EC2 is not asked: that would add a sequential call to each such
// power-up. An unknown platform blocks no launch, and EC2 itself refuses a launch of another platform into a
// reservation.
func imagePlatform(t template, last *capacity.Snapshot, now time.Time) capacity.ImagePlatform {
	if t.failure != nil || last == nil || last.Stale(now) {
		return capacity.ImagePlatform{}
	}
	return capacity.ImagePlatform{Template: t.version, Platform: last.PlatformOf(t.version)}
}

// see files instances by their nodes.
func (f *facts) see(ours []capacity.Instance) {
	for _, i := range ours {
		if node := i.Tags[capacity.TagNode]; node != "" && !i.Ended() {
			f.live[node] = append(f.live[node], i)
		}
	}
}

// ourInstances are the instances with the cluster's mark.
func ourInstances(ctx context.Context, w World, cluster string) ([]capacity.Instance, error) {
	found, err := w.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: {cluster}})
	return capacity.WithNodes(found, hostlist.Expand), err
}

// freshFacts asks EC2 about the reservations and subnets of the named partitions: a launch is decided on the current
// state, never on the snapshot file.
func (s *site) freshFacts(ctx context.Context, names map[string]bool, last *capacity.Snapshot) (capacity.Seen, error) {
	var subnets, ids []string
	var selects []capacity.GroupSettings
	for _, p := range s.settings.Partitions {
		if !names[p.Name] {
			continue
		}
		for _, g := range p.Groups {
			subnets = append(subnets, g.SubnetIDs...)
			ids = append(ids, g.ReservationIDs...)
			if g.PurchaseOption.Bought() {
				s.ExpectBlocks()
			}
			if g.Select != nil {
				selects = append(selects, g)
			}
		}
	}
	var seen capacity.Seen
	var found []capacity.Reservation
	selected := make([][]capacity.Reservation, len(selects))
	reads, ctx := errgroup.WithContext(ctx)
	for i, g := range selects {
		reads.Go(func() (err error) {
			if selected[i], err = s.ReservationsByTag(ctx, g.Select.Tags); err != nil {
				return fmt.Errorf("finding the reservations of node group %s: %w", g.Name, err)
			}
			return nil
		})
	}
	reads.Go(func() error {
		known, missing, err := s.KnownSubnets(ctx, subnets)
		for _, m := range missing {
			s.Warn("EC2 does not describe a subnet of the settings; nothing is launched into it", "subnet", m.ID,
				"err", m.Err)
		}
		seen.Subnets = known
		return err
	})
	reads.Go(func() error {
		some, unknown, err := s.ec2Client.Reservations(ctx, ids)
		if err != nil {
			return err
		}
		for _, m := range unknown {
			// A reservation missing from one answer still has its slot: no other may take it.
			if last == nil {
				break
			}
			if before, ok := last.Reservation(m.ID); ok && before.LiveAt(s.Now()) {
				some = append(some, before)
			}
		}
		found = some
		return nil
	})
	if err := reads.Wait(); err != nil {
		return capacity.Seen{}, err
	}
	seen.Reservations = append(slices.Concat(selected...), found...)
	return seen, nil
}
