package lifecycle

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// This file opens a block. Where sync powers its nodes up, jobs start when the nodes are up: slurmctld looks at a batch
// job that waits for booting nodes every 30 seconds only. The wait in Slurm, which kept jobs off the nodes before the
// block opened, stays over the nodes that boot. Its nodes and its end are all that a pass needs to know of the opening,
// and without sync it ends by itself (R6).

const (
	// openGrace is how long a wait lasts past the start of its block, so that sync finds it and can prolong it.
	openGrace = time.Minute
	// openTogether is how long the nodes that are up first wait for the others, so that jobs of all nodes can start.
	openTogether = 2 * time.Minute
	// openPoll must pass between the passes in which a block opens.
	openPoll = time.Second
)

// opensWhenUp reports whether jobs start on the nodes of a block when these are up, or tested, and not at its start
// already.
func (s View) opensWhenUp(t capacity.Turn) bool {
	waits := t.Group.OpenTest != "" || t.Partition.Provider.Launches() && s.Snap.Timing.BootAllowance.Duration > 0

	return waits && t.Reservation.Kind.IsBlock() && !t.Group.Dynamic
}

// openFor is the longest time for which a wait keeps jobs off nodes that are powered up.
func (s View) openFor(t capacity.Turn) time.Duration {
	longest := s.Snap.Timing.BootAllowance.Duration
	if t.Group.OpenTest != "" {
		longest += t.Group.OpenTestLimit.Duration + testSlack
	}

	return longest
}

// waits returns the Slurm reservations that keep jobs off nodes until a block opens, in AWS's time.
func (s View) waits(v capacity.SlotState, nodes []string) (want []capacity.SlurmReservation) {
	start := v.Window.Start
	end := start

	switch {
	case !start.After(s.Now):
		nodes, end = s.openingNodes(v)
	case s.opensWhenUp(v.Turn):
		end = start.Add(openGrace)
	case v.Partition.Provider.Configures(): // PCS itself keeps jobs off
		return nil
	}

	if len(nodes) > 0 && end.After(s.Now) {
		want = append(want, s.newGuard(capacity.GuardWait, v, v.Reservation.ID, nodes, s.Now, end))
	}

	// A block that follows at once opens in the same way: its wait is there when it has the slot.
	next := v.Next
	if next.Reservation.ID != "" && s.opensWhenUp(next) {
		start = next.Window.Start
		want = append(
			want,
			s.newGuard(capacity.GuardWait, v, next.Reservation.ID, s.Cluster.SlotNodes(v.Slot.Name), start,
				start.Add(openGrace)),
		)
	}

	return want
}

// openingNodes returns the nodes of an open block that a wait keeps from jobs, and its end. A node that is open is
// closed again only to be tested when it is up: else it may boot for a job.
func (s View) openingNodes(v capacity.SlotState) (nodes []string, end time.Time) {
	under := s.waitingNodes(v)
	end = v.Window.Start.Add(s.openFor(v.Turn))
	if stands := s.toAWSTime(s.openWait(v).End); stands.After(end) {
		end = stands
	}

	// A node that is launched again has its own time.
	replaced := s.tests(v).Replaced
	for _, n := range under {
		if last := replaced[n].Add(s.openFor(v.Turn)); last.After(end) {
			end = last
		}
	}

	for _, n := range s.launchedAgain(v) {
		if !slices.Contains(under, n) {
			under = append(under, n)
			end = s.Now.Add(s.openFor(v.Turn))
		}
	}

	slices.SortFunc(under, capacity.CompareNodes)

	return s.closedNodes(v, under), end
}

// closedNodes returns, of nodes under a wait, those that it keeps from jobs for longer.
func (s View) closedNodes(v capacity.SlotState, under []string) []string {
	if len(under) == 0 || !s.opensWhenUp(v.Turn) {
		return nil
	}

	// EC2 opens it a little later.
	if v.Reservation.State != capacity.StateActive {
		return under
	}

	if s.canTest(v, v.Group.OpenTestLimit.Duration) {
		return s.untestedNodes(v, under)
	}

	boots := s.Cluster.filterNodes(under, capacity.Node.IsBooting)
	if len(boots) == 0 && len(s.nodesToPowerUp(v)) == 0 {
		return nil
	}

	up := s.Cluster.filterNodes(s.Cluster.SlotNodes(v.Slot.Name), capacity.Node.IsUp)
	if len(up) == 0 || s.Now.Before(s.firstUp(v, up).Add(openTogether)) {
		return under
	}

	return slices.DeleteFunc(under, func(n string) bool { return slices.Contains(up, n) })
}

// waitingNodes returns the nodes under the wait of an open block, as Slurm has it.
func (s View) waitingNodes(v capacity.SlotState) []string {
	ours := s.Cluster.SlotNodes(v.Slot.Name)

	return slices.DeleteFunc(slices.Clone(s.openWait(v).Nodes),
		func(n string) bool { return !slices.Contains(ours, n) })
}

// openWait returns the wait over nodes of a block that is open; zero if it has ended.
func (s View) openWait(v capacity.SlotState) capacity.SlurmReservation {
	wait, _ := s.findGuard(capacity.Guard{
		Kind:  capacity.GuardWait,
		Slot:  v.Slot.Name,
		Block: v.Reservation.ID,
		Owner: s.Owner,
	})
	if v.Window.Start.After(s.Now) || !wait.End.After(s.SlurmNow()) {
		return capacity.SlurmReservation{}
	}

	return wait
}

// firstUp returns when the first of some nodes was up, since its block has opened.
func (s View) firstUp(v capacity.SlotState, up []string) time.Time {
	first := s.Now
	for _, n := range s.Cluster.visibleNodes(up) {
		if at := s.toAWSTime(n.SlurmdStart); at.Before(first) {
			first = at
		}
	}

	if first.Before(v.Window.Start) {
		return v.Window.Start
	}

	return first
}

// addOpening adds to a slot the nodes that its open block keeps from jobs for longer.
func (s View) addOpening(at capacity.SlotRef) {
	at.Slot.Opening = nil

	v := s.Snap.SlotState(at, s.Now)

	nodes := s.closedNodes(v, s.waitingNodes(v))
	if len(nodes) == 0 {
		return
	}

	o := &capacity.Opening{
		Nodes: hostlist.Compress(nodes),
		Count: len(nodes),
		Until: v.Window.Start.Add(s.openFor(v.Turn)),
	}
	at.Slot.Opening = o

	isOff := func(n capacity.Node) bool { return n.PoweredDown() || n.BaseState() == "DOWN" }
	o.Soon = len(s.Cluster.filterNodes(nodes, isOff)) < len(nodes) || len(s.nodesToPowerUp(v)) > 0 ||
		v.Reservation.State != capacity.StateActive

	if v.Group.OpenTest == "" {
		return
	}

	tests := s.tests(v)
	o.Test = v.Group.OpenTest
	if end := s.toAWSTime(s.openWait(v).End); end.After(o.Until) {
		o.Until = end
	}

	o.Tested = slices.ContainsFunc(tests.Runs, isUnfinished)
	if o.Tested {
		o.Until = s.testEnd(v, tests, nodes...)
	}
}

// checkOpenings tells of open blocks whose nodes take no jobs yet.
func checkOpenings(s View) (problems []capacity.Problem) {
	for _, v := range s.slotStates() {
		if v.Slot.Opening != nil && !v.Former {
			problems = append(problems, capacity.Problemf(capacity.NodesOpening, aboutSlot(v), "", "slot %s: %s",
				v.Slot.Name, v.Slot.Opening.Describe(v.Reservation.ID)))
		}
	}

	return problems
}
