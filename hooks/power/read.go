package power

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// headStart delays Slurm's other programs: until then only squeue runs next to the calls to AWS. Slurm's other programs
// would delay them by more, and AWS's answers take longest. Measured on two cores.
const headStart = 4 * time.Millisecond

// powerUp is a power-up of nodes that we launch, as it was read. An error says why what it stands beside is unknown.
type powerUp struct {
	nodes     []string        // the nodes to power up, sorted
	states    []capacity.Node // those of the nodes that Slurm has
	statesErr error
	jobs      []capacity.Job // of the whole cluster
	jobsErr   error
	facts     launchFacts
	factsErr  error
	budget    time.Duration // for all of it, from when Slurm called
}

// readResumeFile reads the jobs and nodes of SLURM_RESUME_FILE, which is there only for a while. Without it, as in a
// run by hand, the jobs are those that squeue shows on the nodes.
func (j *journal) readResumeFile() (waits []capacity.ResumeJob, byHand bool) {
	path := os.Getenv("SLURM_RESUME_FILE")
	if path == "" {
		return nil, true
	}

	waits, err := slurm.ReadResumeFile(path)
	if err != nil {
		j.Warn("continuing with the jobs that squeue shows", "err", err)
	}

	return waits, false
}

// read reads what a power-up needs, all side by side: it waits only for the slowest answer. The error is for a cluster
// that is unknown: then nothing can be launched.
func (h *Hook) read(ctx context.Context, nodes []string, last *capacity.Snapshot, byHand bool) (up powerUp, err error) {
	began := time.Now()
	known := h.knownMark()
	up.nodes = nodes

	// ResumeTimeout is not known yet: the longest budget counts until describeCluster has read it.
	ctx, stop := context.WithTimeout(ctx, maxBudget*2/3)
	defer stop()

	readFacts := func(mark string) {
		up.factsErr = h.retryUndecided(ctx, "read EC2's facts for the launch", func() (err error) {
			up.facts, err = h.readFacts(ctx, mark, nodes, last)
			return err
		})
	}

	var (
		mark    string
		timeout time.Duration
		reads   sync.WaitGroup
	)
	reads.Go(func() { up.jobs, up.jobsErr = h.BriefJobs(ctx) }) // of many jobs it takes longest

	// A known mark saves a round trip: EC2 is asked while slurmctld is.
	if known != "" {
		reads.Go(func() { readFacts(known) })
		time.Sleep(headStart)
	}

	reads.Go(func() {
		// From here on the deadline is the one that this cluster's ResumeTimeout allows.
		mark, timeout, err = h.describeCluster(ctx)
		up.budget = min(timeout*3/4, maxBudget)
		time.AfterFunc(up.budget*2/3-time.Since(began), stop)
	})
	reads.Go(func() { up.states, up.statesErr = h.Nodes(ctx, nodes...) })
	reads.Wait()

	// Without the mark nobody knows which instances are ours.
	if err != nil {
		return powerUp{}, err
	}

	if mark != known { // the facts are about another cluster's instances
		readFacts(mark)
	}

	since := h.began // the power-up cannot have begun before
	if byHand {      // Slurm may have waited for the nodes as long
		since = since.Add(-timeout)
	}

	up.facts.since = since.Add(h.Offset()).Add(-clockSlack)

	return up, nil
}

// readFacts asks EC2 for what launches are decided on, side by side. last is the last snapshot; nil if there is none.
func (h *Hook) readFacts(
	ctx context.Context, mark string, nodes []string, last *capacity.Snapshot,
) (launchFacts, error) {
	// Only what these nodes need: each question costs time while a job waits.
	partitions := map[string]bool{}
	templates := map[string]template{}
	for _, n := range nodes {
		at, _ := slotOf(h.Settings, n)
		partitions[at.partition.Name] = true
		templates[at.group.LaunchTemplate] = template{}
	}

	var (
		ours []capacity.Instance
		seen capacity.Facts
	)

	// The first failure cancels the rest: a launch needs all of it.
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		ours, err = h.listInstances(readCtx, mark)
		return err
	})
	reads.Go(func() (err error) {
		seen, err = h.freshFacts(readCtx, partitions, last)
		return err
	})
	reads.Go(func() error { return h.pinTemplates(readCtx, templates) })

	if err := reads.Wait(); err != nil {
		return launchFacts{}, err
	}

	// Read after EC2's answers, which carry the offset of the clocks.
	now := h.Now()
	seen.Instances = ours
	seen.Now = now
	seen.Platforms = knownPlatforms(templates, last)

	snap := capacity.Build(h.Settings, seen)
	snap.TakenAt = now

	return launchFacts{
		settings:  h.Settings,
		mark:      mark,
		snap:      snap,
		now:       now,
		live:      liveByNode(ours),
		templates: templates,
	}, nil
}

// pinTemplates finds the versions of launch templates, side by side. All nodes of a call get the same version, even if
// somebody changes the template meanwhile.
func (h *Hook) pinTemplates(ctx context.Context, templates map[string]template) error {
	var mu sync.Mutex

	reads, ctx := errgroup.WithContext(ctx)
	for _, name := range slices.Collect(maps.Keys(templates)) {
		reads.Go(func() error {
			version, err := h.PinTemplate(ctx, name)
			if errors.Is(err, ec2.ErrUndecided) {
				return err
			}

			mu.Lock()
			defer mu.Unlock()

			templates[name] = template{version, err}

			return nil
		})
	}

	return reads.Wait()
}

// knownPlatforms returns the platforms of the launch templates' images, as the last pass of sync read them for the
// versions that are launched now: a reservation for another platform is passed over. EC2 is not asked: an unknown one
// blocks no launch.
func knownPlatforms(templates map[string]template, last *capacity.Snapshot) map[string]capacity.ImagePlatform {
	known := map[string]capacity.ImagePlatform{}
	for name, t := range templates {
		if t.err == nil {
			known[name] = capacity.ImagePlatform{Template: t.version, Platform: last.PlatformOf(t.version)}
		}
	}

	return known
}

// liveByNode files living instances by the nodes that they were launched for.
func liveByNode(ours []capacity.Instance) map[string][]capacity.Instance {
	live := map[string][]capacity.Instance{}
	for _, i := range ours {
		if node := i.Tags[capacity.TagNode]; node != "" && !i.Ended() {
			live[node] = append(live[node], i)
		}
	}

	return live
}

// listInstances lists those with a mark.
func (h *Hook) listInstances(ctx context.Context, mark string) ([]capacity.Instance, error) {
	marked := map[string][]string{capacity.TagCluster: {mark}}
	found, err := h.FindInstances(ctx, capacity.InstanceQuery{Tags: marked})

	return capacity.WithNodes(found), err
}

// freshFacts asks EC2 about the reservations and subnets of the named partitions: a launch is decided on the current
// state, never on the snapshot file.
func (h *Hook) freshFacts(ctx context.Context, names map[string]bool, last *capacity.Snapshot) (capacity.Facts, error) {
	var q facts.Query
	for _, p := range h.Settings.Partitions {
		if names[p.Name] {
			q.Groups = append(q.Groups, p.Groups...)
		}
	}

	answers := facts.Read(ctx, h.World, q)
	for _, m := range answers.MissingSubnets {
		h.Warn("EC2 does not describe a subnet of the settings; nothing is launched into it",
			"subnet", m.ID, "err", m.Err)
	}

	return answers.Fresh(last, h.Now())
}
