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
	ready, unplaced := l.facts.plan(groups, map[string]int{})

	// One goroutine for the groups that fail already, and one for each list of groups that are launched.
	errs := make([]error, len(ready)+1)
	held := make([][]odcr, len(ready))

	var all sync.WaitGroup
	all.Go(func() {
		l.holdJobs(refused)
		errs[0] = l.takeDown(append(shared, unplaced...)...)
	})

	for i, some := range ready {
		turn := l.reserveTurn(l.limiterFor(some)) // in order: a small group must not take the room of a large one
		all.Go(func() { held[i], errs[i+1] = l.launch(some, turn) })
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

// limiterFor returns the limit of the first call that launches groups.
func (l *launcher) limiterFor(groups []group) *state.RateLimit {
	if groups[0].parts[0].targets[0].hold {
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

// sharedLaunch is the launch of groups that share calls, and what has come of it. No other launch sees it.
type sharedLaunch struct {
	turn     time.Time           // of its first call; zero after that
	launched map[string]launched // by node
	held     []odcr              // that were created, and launched into
	failed   []failedGroup
}

// fail notes why groups are not launched.
func (s *sharedLaunch) fail(why error, groups []group) {
	for _, g := range groups {
		s.failed = append(s.failed, failedGroup{g, why, s.launched})
	}
}

// missing returns, in node order, the nodes of the groups' i-th part that have no instance.
func (s *sharedLaunch) missing(i int, groups []group) (nodes []string) {
	for _, g := range groups {
		nodes = append(nodes, g.parts[i].nodes...)
	}

	return hostlist.Sort(removeFunc(nodes, func(n string) bool { return s.launched[n].instance.ID != "" }))
}

// waitForTurn waits until the account's limit of requests allows one more, or fails if there is no time for that.
func (l *launcher) waitForTurn(s *sharedLaunch, requests *state.RateLimit) error {
	turn := s.turn
	if turn.IsZero() {
		turn = l.reserveTurn(requests)
	}

	s.turn = time.Time{}

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

// launch launches groups that share calls, each whole or not at all, and tells Slurm where their nodes are. Groups that
// fail are taken down, which terminates what was launched for them. turn is that of the first call; zero if it has
// none. It returns the ODCRs that keep room for what runs. The error is for nodes that Slurm has still.
func (l *launcher) launch(groups []group, turn time.Time) (held []odcr, err error) {
	s := &sharedLaunch{turn: turn, launched: map[string]launched{}}
	l.launchFrom(s, 0, groups)

	return s.held, l.takeDown(s.failed...)
}

// launchFrom launches the parts of groups from the i-th on. Groups that have all of their nodes are registered.
func (l *launcher) launchFrom(s *sharedLaunch, i int, groups []group) {
	if i == len(groups[0].parts) {
		l.register(s, groups)
		return
	}

	err := l.adopt(s, i, groups)
	if err != nil {
		s.fail(err, groups)
		return
	}

	var waiting, adopted []group
	for _, g := range groups {
		if len(s.missing(i, []group{g})) > 0 {
			waiting = append(waiting, g)
		} else {
			adopted = append(adopted, g)
		}
	}

	if len(adopted) > 0 {
		l.launchFrom(s, i+1, adopted)
	}

	// Only a lack of room is cured by another reservation or zone. EC2's first answer says most.
	var full error
	for _, t := range groups[0].parts[i].targets {
		waiting, err = l.fill(s, i, t, waiting)
		full = cmp.Or(full, err)
	}

	s.fail(full, waiting)
}

// fill launches the i-th part of groups into a target: of all by one call, and when there is no room for that, of half
// as many by the next. It returns the groups for which there is no room, and EC2's first answer that says so.
func (l *launcher) fill(s *sharedLaunch, i int, t target, groups []group) (full []group, noRoom error) {
	share := len(groups)
	for len(groups) > 0 {
		share = min(share, len(groups))
		some := groups[:share]

		err := l.launchInto(s, i, t, some)
		switch {
		case err == nil:
			groups = groups[share:]

			l.launchFrom(s, i+1, some)
		case !errors.Is(err, capacity.ErrNoRoom):
			groups = groups[share:]

			s.fail(err, some)
		case share > 1:
			share /= 2
			noRoom = cmp.Or(noRoom, err)
		default:
			// Nor is there room for another group that is as large.
			size := len(s.missing(i, some))
			isSmaller := func(g group) bool { return len(s.missing(i, []group{g})) < size }
			full = append(full, slices.DeleteFunc(slices.Clone(groups), isSmaller)...)
			groups = slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !isSmaller(g) })
			share = len(groups)
			noRoom = cmp.Or(noRoom, err)
		}
	}

	return full, noRoom
}

// launchInto launches the i-th part of groups into a target, all or nothing, or into an ODCR that it creates there,
// which is cancelled if that fails.
func (l *launcher) launchInto(s *sharedLaunch, i int, t target, groups []group) error {
	if !t.hold {
		return l.runInstances(s, i, t, t.reservationID, groups)
	}

	nodes := s.missing(i, groups)

	o, err := l.createODCR(s, groups[0].parts[i], t, jobsOf(groups), nodes)
	if err != nil {
		return err
	}

	// The room is proven and kept: this launch can only fail for other reasons.
	err = l.runInstances(s, i, t, o.ID, groups)
	if err != nil {
		// At once: an ODCR without instances is paid for nothing.
		l.cancelODCRs(o)
		return err
	}

	o.launched = l.Now()
	for _, n := range nodes {
		o.instances = append(o.instances, s.launched[n].instance.ID)
	}

	s.held = append(s.held, o)

	return nil
}

// adopt takes over, for each node of the groups' i-th part, the one living instance that this power-up launched for it
// in one of the targets. Slurm powers up only nodes that it considers powered down, so an instance of an older power-up
// is useless and would keep the new one out of the block. Of two instances nobody knows which one Slurm waits for, so
// both are terminated.
func (l *launcher) adopt(s *sharedLaunch, i int, groups []group) error {
	var (
		adopted []string
		stale   []capacity.Instance
	)
	for _, n := range s.missing(i, groups) {
		// An interrupted run may have launched the node and told nobody.
		live := l.facts.live[n]
		if !l.facts.isCurrent(live, groups[0].parts[i]) {
			stale = append(stale, live...)
			continue
		}

		s.addInstance(n, live[0], live[0].Tags[capacity.TagReservation])

		adopted = append(adopted, n)
	}

	if len(adopted) > 0 {
		l.Info("adopted instances of an earlier run", "nodes", hostlist.Compress(adopted))
	}

	if len(stale) == 0 {
		return nil
	}

	// They hold places in the block that the new instances need.
	const what = "terminate instances of an older launch"

	err := l.retryUndecided(l.work, what, func() error { return l.Terminate(l.finish, stale) })

	return l.logResult(err, what, "instances", capacity.InstanceIDs(stale))
}

// isCurrent reports whether a node has one living instance, and this power-up launched it in one of the part's targets.
func (f launchFacts) isCurrent(live []capacity.Instance, p part) bool {
	if len(live) != 1 || live[0].Launched.Before(f.since) {
		return false
	}

	reservation := live[0].Tags[capacity.TagReservation]

	return slices.ContainsFunc(p.targets, func(t target) bool { return t.reservationID == reservation })
}

// addInstance notes the instance of a node.
func (s *sharedLaunch) addInstance(node string, i capacity.Instance, reservation string) {
	address, _ := netip.ParseAddr(i.PrivateIP)
	s.launched[node] = launched{instance: i, reservation: reservation, address: address}
}

// checkAddresses returns an error if an instance of a group has no address.
func (s *sharedLaunch) checkAddresses(g group) error {
	for _, n := range g.nodes {
		if at := s.launched[n]; !at.address.IsValid() {
			return fmt.Errorf("instance %s has no private address", at.instance.ID)
		}
	}

	return nil
}

// runInstances launches the i-th part of groups by one RunInstances: all of the nodes that have no instance yet, or
// none. If its token is used, or its instances have ended already, the next attempt has another token. The reservation
// is the target's, or the ODCR that was created there and backs nothing soon.
func (l *launcher) runInstances(s *sharedLaunch, i int, t target, reservation string, groups []group) error {
	p := groups[0].parts[i]
	nodes := s.missing(i, groups)
	jobs := jobsOf(groups)
	order := capacity.Launch{
		LaunchTemplate: p.template,
		InstanceType:   t.instanceType,
		SubnetID:       t.subnetID,
		ReservationID:  reservation,
		Kind:           t.kind,
		PlacementGroup: t.placementGroup,
		Fresh:          t.hold,
		Count:          len(nodes),
		Tags:           l.facts.tags(jobs, p.slot.partition.Name, nodes, t.reservationID),
	}

	var err error
	for attempt := range maxAttempts {
		order.ClientToken = l.facts.launchToken(
			jobs, nodes, attempt, reservation, t.subnetID, t.instanceType, p.template)

		// A repeated order has the same token: EC2 answers with what an unanswered one has launched.
		var instances []capacity.Instance

		err = l.retryUndecided(l.work, "launch", func() error {
			err = l.waitForTurn(s, l.launches)
			if err != nil {
				return err
			}

			instances, err = l.Launch(l.finish, order)

			return err
		})

		switch {
		case errors.Is(err, capacity.ErrTokenUsed):
		case err != nil:
			return err
		case slices.ContainsFunc(instances, capacity.Instance.Ended):
			err = fmt.Errorf("%d launches of %s have ended already", maxAttempts, hostlist.Compress(nodes))
		default:
			return s.assignByIndex(t, nodes, instances)
		}
	}

	return err
}

// assignByIndex gives the instances of a call to its nodes by their launch index. Instances are noted even if it fails,
// so that they are terminated with the others.
func (s *sharedLaunch) assignByIndex(t target, nodes []string, instances []capacity.Instance) error {
	for _, i := range instances {
		if i.LaunchIndex < 0 || i.LaunchIndex >= len(nodes) {
			return fmt.Errorf("instance %s has launch index %d in a launch of %d", i.ID, i.LaunchIndex, len(nodes))
		}

		s.addInstance(nodes[i.LaunchIndex], i, cmp.Or(t.reservationID, i.ReservationID))
	}

	if len(instances) != len(nodes) {
		return fmt.Errorf("EC2 launched %d instances for %d nodes", len(instances), len(nodes))
	}

	return nil
}

// register tells Slurm where the nodes of groups are, and records their launches.
func (l *launcher) register(s *sharedLaunch, groups []group) {
	var found []group
	for _, g := range groups {
		if err := s.checkAddresses(g); err != nil {
			s.fail(err, []group{g})
		} else {
			found = append(found, g)
		}
	}

	if len(found) == 0 {
		return
	}

	err := l.setAddresses(s, nodesOf(found))
	if err != nil {
		s.fail(err, found)
		return
	}

	var all []state.Record
	for _, g := range found {
		all = append(all, l.records(s, g)...)
	}

	l.record(all...)
}

// setAddresses tells Slurm where nodes are, while there is time.
func (l *launcher) setAddresses(s *sharedLaunch, nodes []string) error {
	ctx, cancel := context.WithTimeout(l.last, l.budget/addressShare)
	defer cancel()

	addresses := map[string]netip.Addr{}
	for _, n := range nodes {
		addresses[n] = s.launched[n].address
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

// records returns one for each reservation that a group was launched into, with the instances in the order of the
// nodes.
func (l *launcher) records(s *sharedLaunch, g group) (all []state.Record) {
	of := map[string][]string{}
	for _, n := range g.nodes {
		// SuspendProgram finds the instance of a node by its position in the record.
		reservation := s.launched[n].reservation
		of[reservation] = append(of[reservation], n)
	}

	for reservation, nodes := range of {
		at, _ := slotOf(l.Settings, nodes[0])
		r := state.Record{
			At:          l.Now(),
			Hook:        "resume",
			Partition:   at.partition.Name,
			Nodes:       hostlist.Compress(nodes),
			Jobs:        jobNames(g.jobs),
			Reservation: reservation,
			Code:        string(capacity.OK),
			Message:     "launched",
		}
		for _, n := range nodes {
			r.Instances = append(r.Instances, s.launched[n].instance.ID)
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
