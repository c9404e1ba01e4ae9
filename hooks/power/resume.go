package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
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

// World is what the power hooks act on: Slurm, EC2, PCS and the files in state_dir. Each verb is one call.
type World interface {
	BriefJobs(ctx context.Context) ([]capacity.Job, error)
	Nodes(ctx context.Context, names ...string) ([]capacity.Node, error)
	SetAddresses(ctx context.Context, addresses map[string]netip.Addr) error
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	Begin(ctx context.Context, job string, at time.Time) error
	SetAdminComments(ctx context.Context, text string, jobs ...string) error
	Notify(ctx context.Context, job, text string) error
	AllowRequeue(ctx context.Context, allow bool, jobs ...string) error
	RequeueHold(ctx context.Context, jobs ...string) error
	Cancel(ctx context.Context, jobs ...string) error
	Hold(ctx context.Context, jobs ...string) error
	UserHold(ctx context.Context, jobs ...string) error
	SetPartition(ctx context.Context, job, partitions, adminComment string) error
	Release(ctx context.Context, job string) error

	Launch(ctx context.Context, l capacity.Launch) ([]capacity.Instance, error)
	Terminate(ctx context.Context, ids []string) error
	CreateODCR(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error)
	CancelODCR(ctx context.Context, id string) error
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
	ConsoleSays(ctx context.Context, id string) (string, error)
	InstanceStates(ctx context.Context, ids []string) (map[string]string, error)
	ImagePlatform(ctx context.Context, template string) (capacity.ImagePlatform, error)
	// Remember tells the launch time of an instance that only our records name: EC2 may deny that it exists.
	Remember(id string, launched time.Time)
	// Now is AWS's time; Offset is AWS's time minus the machine's.
	Now() time.Time
	Offset() time.Duration

	Configure(ctx context.Context, r pcs.ConfigureRequest) (changed bool, err error)

	Enlist(h capacity.Held, now time.Time,
		allowed func(more capacity.Held, others []capacity.Held) error) (capacity.Held, error)
	Released(now time.Time, names ...string) error
	Records() ([]state.Record, error)
	AppendRecords(records ...state.Record) error
}

// machineNow is the machine's time.
func machineNow(w World) time.Time { return w.Now().Add(-w.Offset()) }

type (
	slurmClient = slurm.Client
	ec2Client   = ec2.Client
)

// adapters are the World.
type adapters struct {
	*slurmClient
	*ec2Client
	state.Dir
	pcs.Provisioner
}

// configureBudget is the time for changes of compute node groups: PCS replaces a launch
// template in minutes, and Slurm's ResumeTimeout does not wait for it.
const configureBudget = 15 * time.Minute

// configureSlots makes the compute node groups of slots match their reservations. PCS itself launches the nodes;
// nothing is taken down here.
func (s *site) configureSlots(ctx context.Context, slots map[string]place, last *capacity.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, configureBudget)
	defer cancel()
	partitions := map[string]bool{}
	for _, at := range slots {
		partitions[at.partition.Name] = true
	}
	names := slices.Sorted(maps.Keys(slots))
	held, err := s.Provisioner.PCS.Slots(ctx, s.cfg.Cluster, names)
	if err != nil {
		return err
	}
	seen, err := s.freshFacts(ctx, partitions, last)
	if err != nil {
		return err
	}
	seen.Held = held
	snap := capacity.Build(s.settings, seen)
	snap.TakenAt = s.Now()
	var errs []error
	for _, slot := range names {
		if failure := configure(ctx, s, s.journal, s.cfg.Cluster, slots[slot], held[slot], snap); failure != nil {
			errs = append(errs, failure)
		}
	}
	return errors.Join(errs...)
}

// configure makes a compute node group match the reservation that it was set up for, "" for none, and records it.
func configure(ctx context.Context, w World, j *journal, cluster string, at place, reservation string,
	snap *capacity.Snapshot) *Failure {
	record := state.Record{At: w.Now(), Hook: "resume", Partition: at.partition.Name, Reservation: reservation,
		Code: string(capacity.OK), Message: "compute node group " + at.slot + " is as it should be"}
	request, failure := configuration(cluster, at, reservation, snap, w.Now())
	if failure == nil {
		changed, err := w.Configure(ctx, request)
		if err != nil {
			failure = failureOf(fmt.Errorf("configuring compute node group %s: %w", at.slot, err))
		}
		if changed {
			record.Message = "configured compute node group " + at.slot
		}
	}
	if failure != nil {
		record.Code, record.EC2Code, record.Message = failure.Code, failure.EC2Code, hook.OneLine(failure.message())
	}
	j.record(w, record)
	return failure
}

// configuration is what a compute node group must match: the reservation, and the subnets in its zone.
func configuration(cluster string, at place, reservation string, snap *capacity.Snapshot,
	now time.Time) (pcs.ConfigureRequest, *Failure) {
	request := pcs.ConfigureRequest{Cluster: cluster, Group: at.slot}
	if reservation == "" {
		return request, failed("compute node group %s was set up for no reservation; run `pcs-capacity setup`", at.slot)
	}
	p, _ := snap.Partition(at.partition.Name)
	g := p.Groups[slices.IndexFunc(p.Groups, func(g capacity.NodeGroup) bool { return g.Name == at.group.Name })]
	r, known := snap.Reservation(reservation)
	if !known {
		return request, refusal(capacity.ReservationNotKnown,
			"reservation %s of compute node group %s is not in the settings of partition %s, or EC2 does not describe it",
			reservation, at.slot, p.Name)
	}
	for _, m := range capacity.Match(r, g, now) {
		if m.Code != capacity.WrongSize { // a group may be smaller or larger than its block
			return request, refusal(capacity.Mismatched, "%s", m.Text())
		}
	}
	request.Reservation, request.MaxNodes, request.Dynamic = r, g.MaxNodes, g.Dynamic
	for _, s := range g.Subnets {
		if s.AZID == r.AZID {
			request.SubnetIDs = append(request.SubnetIDs, s.ID)
		}
	}
	if len(request.SubnetIDs) == 1 {
		request.SubnetID = request.SubnetIDs[0]
	}
	return request, nil
}
