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
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// headStart delays Slurm's other programs: until then only squeue runs next to the calls to AWS. Slurm's other programs
// would delay them by more, and AWS's answers take longest. Measured on two cores.
const headStart = 4 * time.Millisecond

// call is one power-up of nodes that we launch, with what was read for it.
type call struct {
	*Hook

	mark      string          // the value of our tag on instances and reservations
	nodes     []string        // the nodes to power up, sorted
	states    []capacity.Node // the nodes that Slurm shows, with their states
	statesErr error           // why Slurm does not show them
	jobs      []capacity.Job
	jobsErr   error // why the jobs are unknown
	factsErr  error // why EC2's answers are unknown

	snap      *capacity.Snapshot
	now       time.Time                      // AWS's time when the snapshot was made
	live      map[string][]capacity.Instance // our living instances, by the node that they were launched for
	templates map[string]template            // the settings' launch templates, by how the settings name them
	since     time.Time                      // AWS's time before which this power-up launched nothing
	taken     map[string]int                 // instances of reservations that launches of this call will use, by id
	odcrs     []odcr                         // that were launched into; guarded by journal.mu

	budget   time.Duration    // for the whole call, from its begin
	work     context.Context  // ends when no further launch may begin
	finish   context.Context  // ends when no launch may continue
	last     context.Context  // never ends: what must happen even then has a time limit of its own
	launches *state.RateLimit // the account's limit of RunInstances calls
	holds    *state.RateLimit // the account's limit of CreateCapacityReservation calls
}

// template holds a launch template's version, or why it is unknown.
type template struct {
	version string
	err     error
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
func (s *Hook) read(ctx context.Context, nodes []string, last *capacity.Snapshot, byHand bool) (*call, error) {
	began := time.Now()
	c := &call{Hook: s, mark: s.knownMark(), nodes: nodes, taken: map[string]int{}}

	// ResumeTimeout is not known yet: the longest budget counts until describeCluster has read it.
	ctx, stop := context.WithTimeout(ctx, maxBudget*2/3)
	defer stop()

	var (
		mark    string
		timeout time.Duration
		unknown error
		reads   sync.WaitGroup
	)
	reads.Go(func() { c.jobs, c.jobsErr = s.BriefJobs(ctx) }) // of many jobs it takes longest

	// A known mark saves a round trip: EC2 is asked while slurmctld is.
	if c.mark != "" {
		reads.Go(func() { c.factsErr = c.readFacts(ctx, last) })
		time.Sleep(headStart)
	}

	reads.Go(func() {
		// From here on the deadline is the one that this cluster's ResumeTimeout allows.
		mark, timeout, unknown = s.describeCluster(ctx)
		c.budget = min(timeout*3/4, maxBudget)
		time.AfterFunc(c.budget*2/3-time.Since(began), stop)
	})
	reads.Go(func() { c.states, c.statesErr = s.Nodes(ctx, nodes...) })
	reads.Wait()

	// Without the mark nobody knows which instances are ours.
	if unknown != nil {
		return nil, unknown
	}

	if mark != c.mark { // the facts are about another cluster's instances
		c.mark = mark
		c.factsErr = c.readFacts(ctx, last)
	}

	since := s.began // the power-up cannot have begun before
	if byHand {      // Slurm may have waited for the nodes as long
		since = since.Add(-timeout)
	}

	c.since = since.Add(s.Offset()).Add(-clockSlack)

	return c, nil
}

// readFacts reads what launches are decided on. last is the last snapshot; nil if there is none.
func (c *call) readFacts(ctx context.Context, last *capacity.Snapshot) error {
	return c.retryUndecided(ctx, "read EC2's facts for the launch", func() error { return c.tryFacts(ctx, last) })
}

// tryFacts asks EC2 once, side by side.
func (c *call) tryFacts(ctx context.Context, last *capacity.Snapshot) error {
	// Only what these nodes need: each question costs time while a job waits.
	partitions := map[string]bool{}
	c.templates = map[string]template{}
	for _, n := range c.nodes {
		at, _ := slotOf(c.Settings, n)
		partitions[at.partition.Name] = true
		c.templates[at.group.LaunchTemplate] = template{}
	}

	var (
		ours []capacity.Instance
		seen capacity.Facts
	)

	// The first failure cancels the rest: a launch needs all of it.
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		ours, err = c.listInstances(readCtx, c.mark)
		return err
	})
	reads.Go(func() (err error) {
		seen, err = c.freshFacts(readCtx, partitions, last)
		return err
	})

	var mu sync.Mutex
	for _, name := range slices.Collect(maps.Keys(c.templates)) {
		reads.Go(func() error {
			// All nodes of a call get the same version, even if somebody changes the template meanwhile.
			version, err := c.PinTemplate(readCtx, name)
			if errors.Is(err, ec2.ErrUndecided) {
				return err
			}

			mu.Lock()
			defer mu.Unlock()

			c.templates[name] = template{version, err}

			return nil
		})
	}

	if err := reads.Wait(); err != nil {
		return err
	}

	// Read after EC2's answers, which carry the offset of the clocks.
	c.now = c.Now()
	seen.Instances = ours
	seen.Now = c.now
	seen.Platforms = c.platforms(last)
	c.snap = capacity.Build(c.Settings, seen)
	c.snap.TakenAt = c.now
	c.indexInstances(ours)

	return nil
}

// platforms returns those of the launch templates' images, as the last pass of sync read them for the versions that are
// launched now: a reservation for another platform is passed over. EC2 is not asked: an unknown one blocks no launch.
func (c *call) platforms(last *capacity.Snapshot) map[string]capacity.ImagePlatform {
	known := map[string]capacity.ImagePlatform{}
	for name, t := range c.templates {
		if t.err == nil {
			known[name] = capacity.ImagePlatform{Template: t.version, Platform: last.PlatformOf(t.version)}
		}
	}

	return known
}

// indexInstances files instances by their nodes.
func (c *call) indexInstances(ours []capacity.Instance) {
	c.live = map[string][]capacity.Instance{}
	for _, i := range ours {
		if node := i.Tags[capacity.TagNode]; node != "" && !i.Ended() {
			c.live[node] = append(c.live[node], i)
		}
	}
}

// listInstances lists those with a mark.
func (s *Hook) listInstances(ctx context.Context, mark string) ([]capacity.Instance, error) {
	marked := map[string][]string{capacity.TagCluster: {mark}}
	found, err := s.FindInstances(ctx, capacity.InstanceQuery{Tags: marked})

	return capacity.WithNodes(found), err
}

// freshFacts asks EC2 about the reservations and subnets of the named partitions: a launch is decided on the current
// state, never on the snapshot file.
func (s *Hook) freshFacts(ctx context.Context, names map[string]bool, last *capacity.Snapshot) (capacity.Facts, error) {
	var q facts.Query
	for _, p := range s.Settings.Partitions {
		if names[p.Name] {
			q.Groups = append(q.Groups, p.Groups...)
		}
	}

	answers := facts.Read(ctx, s.World, q)
	for _, m := range answers.MissingSubnets {
		s.Warn("EC2 does not describe a subnet of the settings; nothing is launched into it",
			"subnet", m.ID, "err", m.Err)
	}

	return answers.Fresh(last, s.Now())
}
