package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// EC2 takes 5 RunInstances calls at once and then 2 a second (EC2 API Reference, "Request throttling"). It rejects
// calls beyond that, which costs more time than waiting; one is left for other launches in the account. It takes 50
// CreateCapacityReservation calls at once and then 5 a second, its default for mutating calls.
const (
	launchBurst     = 4
	launchesASecond = 2
	holdBurst       = 40
	holdsASecond    = 5
)

// mostBudget is the longest time for a power-up.
const mostBudget = 2 * time.Minute

// resumeBudget is the time for a power-up, well below Slurm's ResumeTimeout: the nodes have to boot in the rest.
func resumeBudget(resumeTimeout time.Duration) time.Duration {
	return min(resumeTimeout*3/4, mostBudget)
}

// failuresOfBudget is the share of the budget for handling failures, counted from each launch: a third.
const failuresOfBudget = 3

// call is one power-up of nodes that we launch, with what was read for it.
type call struct {
	*journal
	*facts
	nodes []string
	shown []capacity.Node // those that Slurm shows
	jobs  []capacity.Job
	// Why they are unknown.
	factsErr, shownErr, jobsErr error

	budget time.Duration
	// work ends when no further launch may begin, finish when no launch may continue. last never ends: what must happen
	// even then has a time limit of its own.
	work, finish, last context.Context
	launches, holds    *rate.Limiter
}

// powerUp is what pcs-capacity-resume does. With provider ec2 it launches the nodes. With provider pcs, where PCS
// launches them, it makes their compute node groups match the reservations.
//
// Every node that Slurm powers up is launched, or goes through POWER_DOWN_FORCE, after which Slurm requeues its job.
// A node that is up is left alone. The error is for nodes that could not be handled: Slurm leaves them to
// ResumeTimeout, or does not wait for them. Running again with the same nodes is harmless: launches carry a
// ClientToken, and the instances of an earlier run are adopted.
func powerUp(ctx context.Context, s *site) error {
	waits, byHand := s.waits() // first: the file is there only for a while
	last, err := s.ReadSnapshot()
	if err != nil {
		s.Info("going on without the last snapshot", "err", err)
	}
	names, err := hostlist.Expand(s.list)
	if err == nil {
		names, err = hostlist.Expand(hostlist.Compress(names)) // sorted, once each
	}
	if err != nil {
		return fmt.Errorf("reading the nodes to power up: %w", err)
	}
	var nodes, foreign []string
	slots := map[string]place{}
	for _, n := range names {
		at, ours := placeOf(s.settings, n)
		switch {
		case !ours:
			foreign = append(foreign, n)
		case at.partition.Provider == capacity.ProviderPCS:
			slots[at.slot] = at
		default:
			nodes = append(nodes, n)
		}
	}
	if len(foreign) > 0 {
		s.Warn("no node_group of the settings has these nodes; they are left alone", "nodes", hostlist.Compress(foreign))
	}
	// Side by side: PCS takes minutes to change a compute node group.
	var configured, launched error
	var both sync.WaitGroup
	if len(slots) > 0 {
		both.Go(func() { configured = s.configureSlots(ctx, slots, last) })
	}
	if len(nodes) > 0 {
		both.Go(func() {
			c, err := s.read(ctx, nodes, last, byHand)
			if err == nil {
				err = resume(ctx, s, c, waits)
			}
			launched = err
		})
	}
	both.Wait()
	for _, words := range s.Untold() {
		s.Warn("EC2 does not say all", "untold", words)
	}
	return errors.Join(configured, launched)
}

// resume launches nodes, group by group, side by side: all of a group or nothing. Groups for which that fails are taken
// down, jobs that are refused for good are held. When ctx ends (SIGTERM) no further launch begins, but a running one is
// completed, so its nodes are known to Slurm or taken down.
func resume(ctx context.Context, w World, c *call, waits []wait) error {
	defer c.begin(ctx)()
	nodes, err := c.poweringUp()
	if len(nodes) == 0 {
		return err
	}
	errs := []error{err}
	// A run by hand has no SLURM_RESUME_FILE.
	groups := launchGroups(nodes, append(waits, waiting(c.jobs)...), c.jobs)
	if c.jobsErr != nil { // nothing is launched without Slurm's answer about accounts
		c.factsErr = fmt.Errorf("asking Slurm for its jobs: %w", c.jobsErr)
	}
	if why := failureOf(c.factsErr); why != nil {
		var all []outcome
		for _, g := range groups {
			all = append(all, outcome{group: g, failure: why})
		}
		return errors.Join(err, takeDown(w, c, all))
	}
	refused := c.refusedJobs(nodes)
	groups, shared := withoutRefused(groups, refused)
	units, unplaced := c.plan(groups)

	var mu sync.Mutex
	var odcrs []odcr
	fail := func(outcomes []outcome) {
		err := takeDown(w, c, outcomes)
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	var all sync.WaitGroup
	all.Go(func() { fail(unplaced) })
	all.Go(func() {
		holdJobs(w, c, refused)
		fail(shared)
	})
	for _, u := range units {
		all.Go(func() {
			outcomes, held := launch(w, c, u)
			mu.Lock()
			odcrs = append(odcrs, held...)
			mu.Unlock()
			fail(slices.DeleteFunc(outcomes, func(o outcome) bool { return o.failure == nil }))
		})
	}
	all.Wait()
	c.letGo(w, odcrs) // last: it waits for the instances
	return errors.Join(errs...)
}

// begin begins the time for the call: after two thirds of the budget nothing new is launched, and failures are handled
// in another third.
func (c *call) begin(ctx context.Context) (stop func()) {
	c.last = context.WithoutCancel(ctx)
	var stopWork, stopFinish context.CancelFunc
	c.work, stopWork = context.WithDeadline(ctx, c.began.Add(c.budget*2/3))
	c.finish, stopFinish = context.WithDeadline(c.last, c.began.Add(c.budget))
	c.launches, c.holds = rate.NewLimiter(launchesASecond, launchBurst), rate.NewLimiter(holdsASecond, holdBurst)
	return func() { stopWork(); stopFinish() }
}

// poweringUp returns the nodes that Slurm waits for. A node that is up belongs to jobs. A node that Slurm does not
// wait for would get a paid instance without use; the error names such nodes.
func (c *call) poweringUp() ([]string, error) {
	if c.shownErr != nil {
		return nil, fmt.Errorf("asking Slurm for the nodes' states, without which nothing is launched: %w", c.shownErr)
	}
	known := map[string]capacity.Node{}
	for _, n := range c.shown {
		known[n.Name] = n
	}
	var launch, up, down []string
	for _, name := range c.nodes {
		switch n, is := known[name]; {
		case is && n.PoweringUp():
			launch = append(launch, name)
		case is && !n.PoweredDown() && !n.PoweringDown():
			up = append(up, name)
		default:
			down = append(down, name)
		}
	}
	if len(up) > 0 {
		c.Info("up already, so left alone", "nodes", hostlist.Compress(up))
	}
	if len(down) == 0 {
		return launch, nil
	}
	list := hostlist.Compress(down)
	err := fmt.Errorf("nodes %s are not powered up by Slurm, or Slurm does not have them: nothing is launched for them; "+
		"`scontrol update nodename=%s state=POWER_UP` makes Slurm do so", list, list)
	c.Error("not launched", "err", err)
	return launch, err
}
