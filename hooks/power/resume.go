package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Resume is ResumeProgram. With provider ec2 it launches the nodes; with provider pcs,
// where PCS launches them, it makes sure that their compute node groups are right.
type Resume struct {
	Settings capacity.Settings
	// Cluster is the value of our mark on everything that is launched: what an earlier hook
	// learned, or "", until Ask says what it is.
	Cluster string
	// Ask asks slurmctld for Cluster and for its ResumeTimeout, 0 if it does not say. An
	// error is that Cluster is not known: nothing is launched.
	Ask   func(ctx context.Context) (cluster string, resumeTimeout time.Duration, err error)
	Slurm Slurm
	EC2   EC2
	// PCS is nil when no partition has provider pcs.
	PCS     PCS
	Records Records
	// Held is the ledger of what is held.
	Held Ledger
	Log  *slog.Logger
	// MachineTime is time.Now.
	MachineTime func() time.Time
	// Began is the machine's time before which the power-up cannot have begun: an instance
	// that was launched earlier is of an older one. ByHand says that it may be earlier by
	// as long as Slurm waits for nodes.
	Began  time.Time
	ByHand bool
	// Last is the last snapshot; nil if there is none.
	Last *capacity.Snapshot
}

// resumeBudget is the time for a run, well below Slurm's ResumeTimeout: the nodes have
// to boot in what is left.
func resumeBudget(resumeTimeout time.Duration) time.Duration {
	return min(resumeTimeout*3/4, mostBudget)
}

const mostBudget = 2 * time.Minute

// defaultResumeTimeout is Slurm's: slurm.conf(5).
const defaultResumeTimeout = 60 * time.Second

// configureBudget is the time for changes of compute node groups: PCS replaces a launch
// template in minutes, and Slurm's ResumeTimeout does not wait for it.
const configureBudget = 15 * time.Minute

// EC2 takes 5 RunInstances calls at once and then 2 a second: EC2 API Reference, "Request
// throttling". Calls beyond that are turned away, and cost more time than waiting does; one
// is left for what others in the account launch.
const (
	launchBurst     = 4
	launchesASecond = 2
)

// failuresOfBudget is which part of the budget the handling of failures may take, counted
// from each launch: a third.
const failuresOfBudget = 3

// headStart is how long the questions to AWS share the machine with squeue alone. Slurm's other
// programs would delay them by more; and AWS's answers take longest. Measured on two cores.
const headStart = 4 * time.Millisecond

// Run powers up the nodes of a hostlist; waits is SLURM_RESUME_FILE, as far as it could
// be read. When ctx ends (SIGTERM) no further launch begins, but one that is under way
// is finished, so that its nodes are mapped or sent down.
//
// Every node that Slurm powers up is launched, or goes through POWER_DOWN_FORCE, from
// which Slurm requeues its job. A node that is up is left alone. The error is for nodes
// with which nothing could be done: Slurm leaves them to ResumeTimeout, or does not wait for
// them. Running again with the same nodes is harmless: launches carry a ClientToken, and
// what an earlier run launched is adopted.
func (r *Resume) Run(ctx context.Context, hostlist string, waits []Waiting) error {
	names, err := r.Slurm.Expand(hostlist)
	if err != nil {
		return fmt.Errorf("reading the nodes to power up: %w", err)
	}
	if names, err = r.Slurm.Expand(r.Slurm.Hostlist(names)); err != nil { // sorted, once each
		return fmt.Errorf("reading the nodes to power up: %w", err)
	}
	var launch, foreign []string
	slots := map[string]place{}
	for _, n := range names {
		at, ours := r.placeOf(n)
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
		r.Log.Warn("no node_group of the settings has these nodes; they are left alone", "nodes", r.Slurm.Hostlist(foreign))
	}
	// Side by side: PCS takes minutes over a compute node group.
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

func (r *Resume) now() time.Time { return r.MachineTime().Add(r.EC2.Offset()) }

// powerUp is one run for nodes that we launch.
type powerUp struct {
	*Resume
	// budget is the time that launches take at most. After two thirds of it nothing new is
	// launched; what failed is handled in a third more.
	budget time.Duration
	// work ends when nothing new is launched any more, finish when no launch goes on. last
	// has no end: what must still be done then has a time of its own.
	work, finish, last context.Context
	facts              *facts
	calls, holdCalls   *rate.Limiter // of RunInstances, of CreateCapacityReservation
	running            sync.WaitGroup

	// everything are all our instances, asked for once: see endLeft.
	everything func() ([]capacity.Instance, error)

	// deciding is held while it is decided what is launched. known are the jobs as they were
	// when the run began.
	deciding sync.Mutex
	known    []capacity.Job

	mu   sync.Mutex
	held []*heldFor
	errs []error
}

func (r *Resume) launchNodes(ctx context.Context, nodes []string, waits []Waiting) error {
	began := time.Now()
	u := powerUp{Resume: r, last: context.WithoutCancel(ctx), calls: rate.NewLimiter(launchesASecond, launchBurst), holdCalls: rate.NewLimiter(holdsASecond, holdBurst)}
	u.everything = sync.OnceValues(func() ([]capacity.Instance, error) { return r.liveOf(u.finish, nil, true) })

	// All side by side: a power-up waits for the slowest answer, not for each.
	reading, stop := context.WithTimeout(ctx, mostBudget*2/3)
	defer stop()
	guess := r.Cluster
	var cluster string
	var resumeTimeout time.Duration
	var power map[string]Power
	var jobs []capacity.Job
	var askErr, powerErr, jobsErr, factsErr error
	var reads sync.WaitGroup
	reads.Go(func() { jobs, jobsErr = r.Slurm.Jobs(reading) }) // of many jobs it takes longest
	if guess != "" {
		reads.Go(func() { u.facts, factsErr = r.readFacts(reading, nodes) })
		time.Sleep(headStart)
	}
	reads.Go(func() {
		cluster, resumeTimeout, askErr = r.Ask(reading)
		resumeTimeout = cmp.Or(resumeTimeout, defaultResumeTimeout)
		u.budget = resumeBudget(resumeTimeout)
		time.AfterFunc(u.budget*2/3-time.Since(began), stop)
	})
	reads.Go(func() { power, powerErr = r.Slurm.Power(reading, nodes) })
	reads.Wait()
	if askErr != nil {
		return askErr
	}
	if r.ByHand {
		r.Began = r.Began.Add(-resumeTimeout)
	}
	if r.Cluster = cluster; cluster != guess { // what was read is of another cluster's instances
		u.facts, factsErr = r.readFacts(reading, nodes)
	}
	var cancel context.CancelFunc
	u.work, cancel = context.WithDeadline(ctx, began.Add(u.budget*2/3))
	defer cancel()
	u.finish, cancel = context.WithDeadline(u.last, began.Add(u.budget))
	defer cancel()

	nodes, err := r.poweringUp(nodes, power, powerErr)
	if len(nodes) == 0 {
		return err
	}
	u.errs = append(u.errs, err)
	if jobsErr != nil {
		// Without slurmctld's word on accounts nothing may be launched.
		u.settle([]outcome{{group: group{nodes: nodes}, err: fmt.Errorf("asking Slurm for its jobs: %w", jobsErr)}})
		return errors.Join(u.errs...)
	}
	groups := launchGroups(nodes, append(waits, waiting(jobs)...), jobs) // a run by hand has no SLURM_RESUME_FILE
	if factsErr == nil {
		factsErr = u.lookBeside(groups)
	}
	if factsErr != nil {
		failed := make([]outcome, len(groups))
		for i, g := range groups {
			failed[i] = outcome{group: g, err: factsErr}
		}
		u.settle(failed)
		return errors.Join(u.errs...)
	}
	u.known = jobs
	u.deciding.Lock()
	refused := u.refusedJobs(nodes, jobs)
	groups, shared := apart(groups, refused)
	u.start(groups)
	if len(refused) > 0 { // their nodes boot only when they do not have them any more
		groups, failed := u.takeOut(shared, refused)
		u.running.Go(func() { u.settle(failed) })
		u.start(groups)
	}
	u.deciding.Unlock()
	u.running.Wait()
	for _, words := range r.EC2.Untold() {
		r.Log.Warn("EC2 does not say all", "untold", words)
	}
	u.release() // last: it waits for the instances
	return errors.Join(u.errs...)
}

// start launches groups, each for itself. Who calls it holds u.deciding.
func (u *powerUp) start(groups []group) {
	units, failed := u.plan(groups)
	u.running.Go(func() { u.settle(failed) })
	for _, unit := range units {
		u.running.Go(func() { u.launch(unit) })
	}
}

// poweringUp are those of the nodes that Slurm waits for. What is up belongs to jobs, and
// for what Slurm does not wait for an instance would be paid and not used; the error names
// the latter.
func (r *Resume) poweringUp(nodes []string, power map[string]Power, err error) ([]string, error) {
	if err != nil {
		return nil, fmt.Errorf("asking Slurm for the nodes' states, without which nothing is launched: %w", err)
	}
	var launch, up, down []string
	for _, n := range nodes {
		switch power[n] {
		case PoweringUp:
			launch = append(launch, n)
		case PoweredUp:
			up = append(up, n)
		default:
			down = append(down, n)
		}
	}
	if len(up) > 0 {
		r.Log.Info("up already, so left alone", "nodes", r.Slurm.Hostlist(up))
	}
	if len(down) > 0 {
		list := r.Slurm.Hostlist(down)
		err = fmt.Errorf("Slurm does not power up %s, or does not have it: nothing is launched for it; `scontrol update nodename=%s state=POWER_UP` makes Slurm do so", list, list)
		r.Log.Error("not launched", "err", err)
	}
	return launch, err
}

// record keeps records. Those that differ only in nodes, jobs and instances share a line of the
// log: a thousand jobs of one node each are launched in one call.
func (r *Resume) record(records ...state.Record) {
	type said struct{ message, reservation, code, ec2Code string }
	type of struct{ nodes, jobs, instances []string }
	lines := map[said]*of{}
	var order []said
	for _, record := range records {
		key := said{record.Message, record.Reservation, record.Code, record.EC2Code}
		if lines[key] == nil {
			lines[key], order = &of{}, append(order, key)
		}
		line := lines[key]
		line.nodes, line.jobs, line.instances = append(line.nodes, record.Nodes), append(line.jobs, record.Jobs...), append(line.instances, record.Instances...)
	}
	for _, what := range order {
		line := lines[what]
		nodes := strings.Join(line.nodes, ",")
		if names, err := r.Slurm.Expand(nodes); err == nil {
			nodes = r.Slurm.Hostlist(names)
		}
		r.Log.Info(what.message, "nodes", nodes, "jobs", line.jobs, "reservation", what.reservation,
			"code", what.code, "aws_code", what.ec2Code, "instances", line.instances)
	}
	if err := r.Records.AppendRecords(records...); err != nil {
		r.Log.Error("keeping records", "err", err)
	}
}
