package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// EC2 takes 5 RunInstances calls of an account at once and then 2 a second (EC2 API Reference, "Request throttling").
// It rejects calls beyond that, which costs more time than waiting; one is left for other launches in the account. It
// takes 50 CreateCapacityReservation calls at once and then 5 a second, its default for mutating calls.
const (
	launchBurst       = 4
	launchesPerSecond = 2
	holdBurst         = 40
	holdsPerSecond    = 5
)

const (
	// maxBudget is the longest time for a power-up. Well below Slurm's ResumeTimeout, it leaves the nodes time to
	// boot.
	maxBudget = 2 * time.Minute
	// failureShare is the share of the budget for handling failures, counted from each launch: a third.
	failureShare = 3
	// addressShare is the share of the budget for attempts to set addresses, a quarter: a launched node without its
	// address is lost.
	addressShare = 4
	// maxAttempts is how many launches may have the same circumstances: see launchToken.
	maxAttempts = 10
)

// launcher launches the nodes of a power-up, in launches that run side by side.
type launcher struct {
	undoing  // of what fails
	facts    launchFacts
	launches *state.RateLimit // the account's limit of RunInstances calls
	holds    *state.RateLimit // the account's limit of CreateCapacityReservation calls
}

// deadlines divide the time for a power-up: after two thirds of the budget nothing new is launched, and failures are
// handled in another third.
type deadlines struct {
	budget time.Duration   // of all of it, from when Slurm called
	work   context.Context // ends when no further launch may begin
	finish context.Context // ends when no launch may continue
	last   context.Context // never ends: what must happen even then has a time limit of its own
}

// newLauncher returns the launcher of a power-up. Its work ends with ctx, and all but the last of it with stop.
func newLauncher(ctx context.Context, h *Hook, up powerUp) (l *launcher, stop func()) {
	last := context.WithoutCancel(ctx)
	work, stopWork := context.WithDeadline(ctx, h.began.Add(up.budget*2/3))
	finish, stopFinish := context.WithDeadline(last, h.began.Add(up.budget))

	l = &launcher{
		undoing:  undoing{h, deadlines{up.budget, work, finish, last}},
		facts:    up.facts,
		launches: h.State.RateLimit(state.LaunchRate, launchBurst, time.Second/launchesPerSecond),
		holds:    h.State.RateLimit(state.HoldRate, holdBurst, time.Second/holdsPerSecond),
	}

	return l, func() {
		stopWork()
		stopFinish()
	}
}

// resume launches nodes, group by group, side by side: all of a group or nothing. Groups for which that fails are taken
// down, jobs that are refused for good are held. When ctx ends (SIGTERM) no further launch begins, but a running one is
// completed, so its nodes are known to Slurm or taken down.
func (h *Hook) resume(ctx context.Context, up powerUp, waits []capacity.ResumeJob) error {
	l, stop := newLauncher(ctx, h, up)
	defer stop()

	nodes, err := h.nodesPoweringUp(up)
	if len(nodes) == 0 {
		return err
	}

	// A run by hand has no SLURM_RESUME_FILE.
	groups := launchGroups(nodes, append(waits, allocations(up.jobs)...), up.jobs)

	unread := up.factsErr
	if up.jobsErr != nil { // nothing is launched without Slurm's answer about accounts
		unread = fmt.Errorf("asking Slurm for its jobs: %w", up.jobsErr)
	}

	if unread != nil {
		var all []failedGroup
		for _, g := range groups {
			all = append(all, failedGroup{group: g, err: unread})
		}

		return errors.Join(err, l.takeDown(all...))
	}

	// Judged before the launch: a job that may never run here must not cost an instance.
	refused := l.facts.refusedJobs(up.jobs, nodes)
	groups, shared := splitRefused(groups, refused)
	groups, unplaced := l.facts.plan(groups, map[string]int{})

	// One goroutine for the groups that fail already, and one for each that is launched.
	errs := make([]error, len(groups)+1)
	held := make([][]odcr, len(groups))

	var all sync.WaitGroup
	all.Go(func() {
		l.holdJobs(refused)
		errs[0] = l.takeDown(append(shared, unplaced...)...)
	})

	for i, g := range groups {
		turn := l.reserveTurn(l.limiterFor(g)) // in order: a small group must not take the room of a large one
		all.Go(func() { held[i], errs[i+1] = l.launch(g, turn) })
	}

	all.Wait()
	l.releaseHolds(slices.Concat(held...)) // last: it waits for the instances

	return errors.Join(append(errs, err)...)
}

// nodesPoweringUp returns the nodes that Slurm waits for. A node that is up belongs to jobs. A node that Slurm does not
// wait for would get a paid instance without use; the error names such nodes.
func (h *Hook) nodesPoweringUp(up powerUp) ([]string, error) {
	if up.statesErr != nil {
		return nil, fmt.Errorf(
			"asking Slurm for the states of nodes, without which nothing is launched: %w", up.statesErr)
	}

	known := map[string]capacity.Node{}
	for _, n := range up.states {
		known[n.Name] = n
	}

	var launch, running, down []string

	// Slurm may have changed its mind since it called us: only nodes that it still waits for are launched.
	for _, name := range up.nodes {
		switch n, is := known[name]; {
		case is && n.PoweringUp():
			launch = append(launch, name)
		case is && !n.PoweredDown() && !n.PoweringDown():
			running = append(running, name)
		default:
			down = append(down, name)
		}
	}

	if len(running) > 0 {
		h.Info("already up; leaving them alone", "nodes", hostlist.Compress(running))
	}

	if len(down) == 0 {
		return launch, nil
	}

	list := hostlist.Compress(down)
	err := fmt.Errorf("nodes %s are not being powered up by Slurm, or it does not know them: nothing is launched "+
		"for them; to power them up, run `scontrol update nodename=%s state=POWER_UP`", list, list)
	h.Error("not launched", "err", err)

	return launch, err
}

// limiterFor returns the limit of the first call that launches a group.
func (l *launcher) limiterFor(g group) *state.RateLimit {
	if g.parts[0].targets[0].hold {
		return l.holds
	}

	return l.launches
}

// reserveTurn returns when the account's limit of requests allows one more; zero if there is no time for that.
func (l *launcher) reserveTurn(requests *state.RateLimit) time.Time {
	ends, _ := l.work.Deadline()
	now := time.Now()

	wait, ok, err := requests.Take(now, ends.Sub(now))
	if err != nil {
		l.Warn("AWS calls of other hooks are not counted; the account's request limit may be exceeded", "err", err)
	}

	// The queue of calls is longer than the budget.
	if !ok {
		return time.Time{}
	}

	return now.Add(wait)
}

// groupLaunch is the launch of one group, and what has come of it. No other launch sees it.
type groupLaunch struct {
	group
	turn     time.Time           // of its first call; zero after that
	launched map[string]launched // by node
	held     []odcr              // that were created, and launched into
}

// waitForTurn waits until the account's limit of requests allows one more, or fails if there is no time for that.
func (l *launcher) waitForTurn(g *groupLaunch, requests *state.RateLimit) error {
	turn := g.turn
	if turn.IsZero() {
		turn = l.reserveTurn(requests)
	}

	g.turn = time.Time{}

	if turn.IsZero() {
		return errNoTime
	}

	// The turn was taken from the file that all hooks share, so nobody else uses it.
	if sleep(l.work, time.Until(turn)) != nil {
		return errNoTime
	}

	return nil
}

// launched holds the instance of a node, and the reservation that it was launched into. The address is not valid if the
// instance has none.
type launched struct {
	instance    capacity.Instance
	reservation string
	address     netip.Addr
}

// launch launches a group, part by part, each in its targets in order, and tells Slurm where the nodes are. What fails
// is taken down: the whole group, or those of its nodes that are launched each by itself. That terminates what was
// launched for it. turn is that of the first call; zero if it has none. It returns the ODCRs that keep room for what
// runs. The error is for nodes that Slurm has still.
func (l *launcher) launch(ready group, turn time.Time) (held []odcr, err error) {
	g := &groupLaunch{group: ready, turn: turn, launched: map[string]launched{}}
	why := l.launchParts(g)

	// A group is launched whole or not at all; nodes that are launched each by itself keep what they got.
	done := removeFunc(g.nodes, func(n string) bool { return !g.launched[n].address.IsValid() })
	if why != nil && !g.each {
		done = nil
	}

	if len(done) > 0 {
		if err := l.setAddresses(g, done); err != nil {
			done = nil
			why = err
		}
	}

	if len(done) > 0 {
		l.record(l.records(g, done)...)
	}

	if why == nil {
		return g.held, nil
	}

	// Only the jobs of nodes that failed are requeued; the others run.
	failed := failedGroup{ready, why, g.launched}
	failed.nodes = removeFunc(g.nodes, func(n string) bool { return slices.Contains(done, n) })
	failed.jobs = g.jobsOn(failed.nodes)

	return g.held, l.takeDown(failed)
}

// launchParts launches the nodes that have no instance of this power-up.
func (l *launcher) launchParts(g *groupLaunch) error {
	for _, p := range g.parts {
		missing, err := l.adopt(g, p)
		if err != nil {
			return err
		}

		err = l.launchPart(g, p, missing)
		if err != nil {
			return err
		}
	}

	return nil
}

// launchPart launches nodes into one target after the other, until all have an instance.
func (l *launcher) launchPart(g *groupLaunch, p part, missing []string) error {
	var firstErr error

	for _, t := range p.targets {
		var err error

		missing, err = l.fill(g, p, t, missing)
		if err == nil {
			return nil
		}

		// Only a lack of room is cured by another reservation or zone.
		if !errors.Is(err, capacity.ErrNoRoom) {
			return err
		}

		if firstErr == nil {
			firstErr = err // EC2's first answer says most
		}
	}

	return firstErr
}

// fill launches nodes into a target, call by call, until none is missing or EC2 refuses. It returns the missing ones.
func (l *launcher) fill(g *groupLaunch, p part, t target, missing []string) ([]string, error) {
	for len(missing) > 0 {
		var err error

		missing, err = l.launchInto(g, p, t, missing)
		if err != nil {
			return missing, err
		}
	}

	return nil, nil
}

// launchInto launches nodes into a target, or into an ODCR that it creates there, which is cancelled if that fails. It
// returns the nodes for which there was no room.
func (l *launcher) launchInto(g *groupLaunch, p part, t target, nodes []string) (missing []string, err error) {
	if !t.hold {
		return l.runInstances(g, p, t, t.reservationID, nodes)
	}

	o, err := l.createODCR(g, p, t, nodes)
	if err != nil {
		return nodes, err
	}

	// The room is proven and kept: this launch can only fail for other reasons.
	missing, err = l.runInstances(g, p, t, o.ID, nodes)
	if err != nil {
		// At once: an ODCR without instances is paid for nothing.
		l.cancelODCRs(o)
		return missing, err
	}

	o.launched = l.Now()
	for _, n := range nodes {
		o.instances = append(o.instances, g.launched[n].instance.ID)
	}

	g.held = append(g.held, o)

	return missing, nil
}

// adopt takes over, for each node, the one living instance that this power-up launched for it in one of the targets,
// and returns the other nodes. Slurm powers up only nodes that it considers powered down, so an instance of an older
// power-up is useless and would keep the new one out of the block. Of two instances nobody knows which one Slurm waits
// for, so both are terminated.
func (l *launcher) adopt(g *groupLaunch, p part) (missing []string, err error) {
	var (
		adopted []string
		stale   []capacity.Instance
	)
	for _, n := range p.nodes {
		// An interrupted run may have launched the node and told nobody.
		live := l.facts.live[n]
		if !l.facts.isCurrent(live, p) {
			missing = append(missing, n)
			stale = append(stale, live...)

			continue
		}

		err = g.addInstance(n, live[0], live[0].Tags[capacity.TagReservation])
		if err != nil {
			return nil, err
		}

		adopted = append(adopted, n)
	}

	if len(adopted) > 0 {
		l.Info("adopted instances of an earlier run", "nodes", hostlist.Compress(adopted))
	}

	if len(stale) > 0 {
		// They hold places in the block that the new instances need.
		const what = "terminate instances of an older launch"

		err = l.retryUndecided(l.work, what, func() error { return l.Terminate(l.finish, stale) })
		err = l.logResult(err, what, "instances", capacity.InstanceIDs(stale))
	}

	return missing, err
}

// isCurrent reports whether a node has one living instance, and this power-up launched it in one of the part's targets.
func (f launchFacts) isCurrent(live []capacity.Instance, p part) bool {
	if len(live) != 1 || live[0].Launched.Before(f.since) {
		return false
	}

	reservation := live[0].Tags[capacity.TagReservation]

	return slices.ContainsFunc(p.targets, func(t target) bool { return t.reservationID == reservation })
}

// addInstance notes the instance of a node. The error is for one without an address, which is noted as well.
func (g *groupLaunch) addInstance(node string, i capacity.Instance, reservation string) error {
	address, err := netip.ParseAddr(i.PrivateIP)
	if err != nil {
		err = fmt.Errorf("instance %s has no private address: %w", i.ID, err)
	}

	g.launched[node] = launched{instance: i, reservation: reservation, address: address}

	return err
}

// runInstances launches nodes by one RunInstances: all of them or none, or as many one-node groups as fit; it returns
// the others. If its token is used, or its instances have ended already, the next attempt has another token. The
// reservation is the target's, or the ODCR that was created there and backs nothing soon.
func (l *launcher) runInstances(
	g *groupLaunch, p part, t target, reservation string, nodes []string,
) (missing []string, err error) {
	jobs := g.jobsOn(nodes)
	order := capacity.Launch{
		LaunchTemplate: p.template,
		InstanceType:   t.instanceType,
		SubnetID:       t.subnetID,
		ReservationID:  reservation,
		Kind:           t.kind,
		PlacementGroup: t.placementGroup,
		Fresh:          t.hold,
		Count:          len(nodes),
		Least:          len(nodes),
		Tags:           l.facts.tags(jobs, p.slot.partition.Name, nodes, t.reservationID),
	}

	// One-node groups need nothing of each other: EC2 may launch as many as fit.
	if g.each {
		order.Least = 1
	}

	for attempt := range maxAttempts {
		order.ClientToken = l.facts.launchToken(
			jobs, nodes, attempt, reservation, t.subnetID, t.instanceType, p.template)

		// A repeated order has the same token: EC2 answers with what an unanswered one has launched.
		var instances []capacity.Instance

		err = l.retryUndecided(l.work, "launch", func() error {
			err = l.waitForTurn(g, l.launches)
			if err != nil {
				return err
			}

			instances, err = l.Launch(l.finish, order)

			return err
		})

		switch {
		case errors.Is(err, capacity.ErrTokenUsed):
		case err != nil:
			return nodes, err
		case slices.ContainsFunc(instances, capacity.Instance.Ended):
			err = fmt.Errorf("%d launches of %s have ended already", maxAttempts, hostlist.Compress(nodes))
		default:
			return g.assignByIndex(t, nodes, instances, order.Least)
		}
	}

	return nodes, err
}

// assignByIndex gives the instances of a call to its nodes by their launch index, and returns the nodes that have none;
// least is the lowest acceptable number of instances.
func (g *groupLaunch) assignByIndex(
	t target, nodes []string, instances []capacity.Instance, least int,
) ([]string, error) {
	var errs error
	for _, i := range instances {
		if i.LaunchIndex < 0 || i.LaunchIndex >= len(nodes) {
			return nodes, fmt.Errorf("instance %s has launch index %d in a launch of %d",
				i.ID, i.LaunchIndex, len(nodes))
		}

		// An instance without an address is noted as well, so that it is terminated with the others.
		errs = cmp.Or(errs, g.addInstance(nodes[i.LaunchIndex], i, cmp.Or(t.reservationID, i.ReservationID)))
	}

	// EC2 keeps to MinCount; an answer with fewer would leave a group incomplete.
	missing := removeFunc(nodes, func(n string) bool { return g.launched[n].instance.ID != "" })
	if len(nodes)-len(missing) < least {
		return missing, fmt.Errorf("EC2 launched %d instances for %d nodes", len(nodes)-len(missing), len(nodes))
	}

	return missing, errs
}

// setAddresses tells Slurm where nodes are, while there is time.
func (l *launcher) setAddresses(g *groupLaunch, nodes []string) error {
	ctx, cancel := context.WithTimeout(l.last, l.budget/addressShare)
	defer cancel()

	addresses := map[string]netip.Addr{}
	for _, n := range nodes {
		addresses[n] = g.launched[n].address
	}

	for {
		// slurmctld may be busy or restarting, and without its address the node is lost: try while there is time.
		err := l.SetAddresses(ctx, addresses)

		err = l.logResult(err, "set the addresses of nodes", "nodes", hostlist.Compress(nodes))
		if err == nil {
			return nil
		}

		if sleep(ctx, time.Second) != nil {
			return err
		}
	}
}

// records returns one for each reservation that nodes were launched into, of one-node groups one for each node, with
// the instances in the order of the nodes.
func (l *launcher) records(g *groupLaunch, nodes []string) (all []state.Record) {
	of := map[string][]string{}
	for _, n := range nodes {
		// SuspendProgram finds the instance of a node by its position in the record.
		key := g.launched[n].reservation
		if g.each {
			key = n
		}

		of[key] = append(of[key], n)
	}

	for _, nodes := range of {
		at, _ := slotOf(l.Settings, nodes[0])
		r := state.Record{
			At:          l.Now(),
			Hook:        "resume",
			Partition:   at.partition.Name,
			Nodes:       hostlist.Compress(nodes),
			Jobs:        jobNames(g.jobsOn(nodes)),
			Reservation: g.launched[nodes[0]].reservation,
			Code:        string(capacity.OK),
			Message:     "launched",
		}
		for _, n := range nodes {
			r.Instances = append(r.Instances, g.launched[n].instance.ID)
		}

		all = append(all, r)
	}

	// Maps have no order, and the log is compared in tests.
	slices.SortFunc(all, func(a, b state.Record) int { return cmp.Compare(a.Nodes, b.Nodes) })

	return all
}

// sleep waits for a while; the error is for a ctx that has ended by then.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}

	return ctx.Err()
}
