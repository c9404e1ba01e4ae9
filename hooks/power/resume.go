package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Resume is ResumeProgram. With provider ec2 it launches the nodes. With provider pcs, where PCS launches them, it
// makes their compute node groups match the reservations.
//
// It reads the facts, plans, and walks the machines that launch, one for each unit. Failed units are
// sent down by a machine of their own.
type Resume struct {
	// Site.Cluster is the mark that an earlier hook learned, or "", until Ask returns it.
	*Site
	// Ask asks slurmctld for the cluster and its ResumeTimeout, 0 if it does not say. On an error the cluster is
	// unknown and nothing is launched.
	Ask func(ctx context.Context) (cluster string, resumeTimeout time.Duration, err error)
	// Began is the machine's time before which the power-up cannot have begun: an instance launched earlier belongs to
	// an older one. ByHand: it may be earlier by as long as Slurm waits for nodes.
	Began  time.Time
	ByHand bool
	// Last is the last snapshot; nil if there is none.
	Last *capacity.Snapshot
}

// resumeBudget is the time for a run, well below Slurm's ResumeTimeout: the nodes have to boot in the rest.
func resumeBudget(resumeTimeout time.Duration) time.Duration {
	return min(resumeTimeout*3/4, mostBudget)
}

const mostBudget = 2 * time.Minute

// defaultResumeTimeout is Slurm's: slurm.conf(5).
const defaultResumeTimeout = 60 * time.Second

// failuresOfBudget is the share of the budget for handling failures, counted from each launch: a third.
const failuresOfBudget = 3

// headStart is how long only squeue runs next to the calls to AWS. Slurm's other programs would delay them by more,
// and AWS's answers take longest. Measured on two cores.
const headStart = 4 * time.Millisecond

// Run powers up the nodes of a hostlist; waits is SLURM_RESUME_FILE, as far as it was readable. When ctx ends
// (SIGTERM) no further launch begins, but a running one is completed, so its nodes are mapped or sent down.
//
// Every node that Slurm powers up is launched, or goes through POWER_DOWN_FORCE, after which Slurm requeues its job.
// A node that is up is left alone. The error is for nodes that could not be handled: Slurm leaves them to
// ResumeTimeout, or does not wait for them. Running again with the same nodes is harmless: launches carry a
// ClientToken, and the instances of an earlier run are adopted.
func (r *Resume) Run(ctx context.Context, list string, waits []Waiting) error {
	names, err := hostlist.Expand(list)
	if err == nil {
		names, err = hostlist.Expand(hostlist.Compress(names)) // sorted, once each
	}
	if err != nil {
		return fmt.Errorf("reading the nodes to power up: %w", err)
	}
	var launch, foreign []string
	slots := map[string]place{}
	for _, n := range names {
		at, ours := placeOf(r.Settings, n)
		switch {
		case !ours:
			foreign = append(foreign, n)
		case at.partition.Provider == capacity.ProviderPCS:
			slots[at.slot] = at
		default:
			launch = append(launch, n)
		}
	}
	if len(foreign) > 0 {
		r.Log.Warn("no node_group of the settings has these nodes; they are left alone", "nodes", hostlist.Compress(foreign))
	}
	// Side by side: PCS takes minutes to change a compute node group.
	var configured, launched error
	var both sync.WaitGroup
	if len(slots) > 0 {
		both.Go(func() { configured = r.configure(ctx, slots) })
	}
	if len(launch) > 0 {
		both.Go(func() { launched = r.launchNodes(ctx, launch, waits) })
	}
	both.Wait()
	return errors.Join(configured, launched)
}

// read is what a power-up reads, all side by side: it waits only for the slowest answer.
type read struct {
	facts  *facts
	budget time.Duration
	shown  []capacity.Node // those that Slurm shows
	jobs   []capacity.Job
	// Why they are unknown.
	factsErr, shownErr, jobsErr error
}

func (r *Resume) read(ctx context.Context, nodes []string) (read, error) {
	var got read
	var cluster string
	var resumeTimeout time.Duration
	var askErr error
	began, guess := time.Now(), r.Cluster
	ctx, stop := context.WithTimeout(ctx, mostBudget*2/3)
	defer stop()
	var reads sync.WaitGroup
	reads.Go(func() { got.jobs, got.jobsErr = r.Slurm.BriefJobs(ctx) }) // of many jobs it takes longest
	if guess != "" {
		reads.Go(func() { got.facts, got.factsErr = r.readFacts(ctx, nodes) })
		time.Sleep(headStart)
	}
	reads.Go(func() {
		cluster, resumeTimeout, askErr = r.Ask(ctx)
		resumeTimeout = cmp.Or(resumeTimeout, defaultResumeTimeout)
		got.budget = resumeBudget(resumeTimeout)
		time.AfterFunc(got.budget*2/3-time.Since(began), stop)
	})
	reads.Go(func() { got.shown, got.shownErr = r.Slurm.NodeStates(ctx, nodes...) })
	reads.Wait()
	if askErr != nil {
		return got, askErr
	}
	if r.ByHand {
		r.Began = r.Began.Add(-resumeTimeout)
	}
	if r.Cluster = cluster; cluster != guess { // the facts are about another cluster's instances
		got.facts, got.factsErr = r.readFacts(ctx, nodes)
	}
	if got.facts != nil {
		got.facts.began = r.Began.Add(r.EC2.Offset()).Add(-clockSlack)
	}
	return got, nil
}

func (r *Resume) launchNodes(ctx context.Context, nodes []string, waits []Waiting) error {
	began := time.Now()
	got, err := r.read(ctx, nodes)
	if err != nil {
		return err
	}
	// After two thirds of the budget nothing new is launched; failures are handled in another third.
	work, cancel := context.WithDeadline(ctx, began.Add(got.budget*2/3))
	defer cancel()
	finish, cancel := context.WithDeadline(context.WithoutCancel(ctx), began.Add(got.budget))
	defer cancel()
	u := powerUp{executor: r.executor(work, finish, got.budget), facts: got.facts}
	defer u.running.Wait()

	nodes, err = r.poweringUp(nodes, got.shown, got.shownErr)
	u.errs = []error{err}
	if len(nodes) == 0 {
		return err
	}
	groups := launchGroups(nodes, append(waits, waiting(got.jobs)...), got.jobs) // a run by hand has no SLURM_RESUME_FILE
	if got.jobsErr != nil {
		// Without slurmctld's answer about accounts nothing may be launched.
		u.fail([]outcome{{group: group{nodes: nodes}, failure: failed("asking Slurm for its jobs: %v", got.jobsErr)}})
		return errors.Join(u.errs...)
	}
	if got.factsErr == nil {
		got.factsErr = r.lookBeside(work, got.facts, groups)
	}
	if got.factsErr != nil {
		why := failureOf(got.factsErr)
		lost := make([]outcome, len(groups))
		for i, g := range groups {
			lost[i] = outcome{group: g, failure: why}
		}
		u.fail(lost)
		return errors.Join(u.errs...)
	}
	refused := u.facts.refusedJobs(nodes, got.jobs)
	groups, shared := withoutRefused(groups, refused)
	u.start(groups)
	if len(refused) > 0 {
		u.refuse(refused, shared)
	}
	u.running.Wait()
	for _, words := range r.EC2.Untold() {
		r.Log.Warn("EC2 does not say all", "untold", words)
	}
	// Last: it waits for the instances.
	walk(releasing{settings: r.Settings, waiting: u.held}, u.time(), u.until(u.last))
	return errors.Join(u.errs...)
}

// powerUp is one run for nodes that we launch; its machines run side by side.
type powerUp struct {
	*executor
	running sync.WaitGroup

	facts *facts

	mu   sync.Mutex
	held []held
	errs []error
}

// time is the first answer for a machine.
func (u *powerUp) time() Answer { return Answer{At: u.MachineTime(), Offset: u.EC2.Offset()} }

// until carries out effects while there is time.
func (u *powerUp) until(ctx context.Context) func(capacity.Effect) Answer {
	return func(e capacity.Effect) Answer { return u.Do(ctx, e) }
}

// start launches groups, each by itself.
func (u *powerUp) start(groups []group) {
	units, refused, taken := u.facts.plan(groups)
	now := *u.facts
	now.taken = taken
	u.running.Go(func() { u.fail(refused) })
	for _, what := range units {
		u.running.Go(func() {
			s := walk(launching{facts: &now, what: what}, u.time(), u.until(u.finish))
			u.mu.Lock()
			u.held = append(u.held, s.holds...)
			u.mu.Unlock()
			u.fail(slices.DeleteFunc(s.outcomes, func(o outcome) bool { return o.failure == nil }))
		})
	}
}

// refuse holds jobs, and sends the nodes down on which they were with others.
func (u *powerUp) refuse(refused []refusedJob, shared []outcome) {
	ctx, cancel := context.WithTimeout(u.last, u.budget/failuresOfBudget)
	walk(refusing{refused: refused}, u.time(), u.until(ctx))
	cancel()
	u.fail(shared)
}

// fail handles failures; launches must leave time for it.
func (u *powerUp) fail(outcomes []outcome) {
	for i := range outcomes {
		outcomes[i].behind = youngerOthers(outcomes[i].jobs)
	}
	for _, o := range byReason(outcomes) {
		ctx, cancel := context.WithTimeout(u.last, u.budget/failuresOfBudget)
		s := walk(failing{settings: u.Settings, outcome: o}, u.time(), u.until(ctx))
		cancel()
		if s.sent != nil {
			u.mu.Lock()
			u.errs = append(u.errs, fmt.Errorf("nodes %s are left to ResumeTimeout: %w", hostlist.Compress(o.nodes), s.sent))
			u.mu.Unlock()
		}
	}
}

// poweringUp returns the nodes that Slurm waits for. A node that is up belongs to jobs. A node that Slurm does not
// wait for would get a paid instance without use; the error names such nodes.
func (r *Resume) poweringUp(nodes []string, shown []capacity.Node, err error) ([]string, error) {
	if err != nil {
		return nil, fmt.Errorf("asking Slurm for the nodes' states, without which nothing is launched: %w", err)
	}
	known := map[string]capacity.Node{}
	for _, n := range shown {
		known[n.Name] = n
	}
	var launch, up, down []string
	for _, name := range nodes {
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
		r.Log.Info("up already, so left alone", "nodes", hostlist.Compress(up))
	}
	if len(down) > 0 {
		list := hostlist.Compress(down)
		err = fmt.Errorf("nodes %s are not powered up by Slurm, or Slurm does not have them: nothing is launched for them; "+
			"`scontrol update nodename=%s state=POWER_UP` makes Slurm do so", list, list)
		r.Log.Error("not launched", "err", err)
	}
	return launch, err
}
