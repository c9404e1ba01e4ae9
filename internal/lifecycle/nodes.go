package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// powerUpAgain must pass after a power-up before sync tries the nodes that are off, still or again.
const powerUpAgain = 15 * time.Minute

// decidePowerUps powers up the nodes of open blocks, which are paid, unless the node group is dynamic (only blocks have
// that choice). PCS itself keeps static nodes up.
func decidePowerUps(s View) (actions []Action) {
	for _, v := range s.slotStates() {
		nodes := s.nodesToPowerUp(v)
		if len(nodes) > 0 {
			text := fmt.Sprintf("power up %s: %s has been open since %s",
				hostlist.Compress(nodes), v.Reservation.ID, capacity.FormatUTC(v.Window.Start))
			powerUp := func(ctx context.Context, w World) error {
				w.Outcome.PoweredUp[v.Slot.Name] = s.nowInSeconds()
				return w.Slurm.PowerUp(ctx, nodes)
			}
			actions = append(actions, newAction("power-up", aboutNodes(v.Slot.Name, nodes), text, powerUp))
		}
	}

	return actions
}

// nodesToPowerUp returns the nodes of a slot that are off although their block is open.
func (s View) nodesToPowerUp(v capacity.SlotState) []string {
	least := s.Snap.Timing.BootAllowance.Duration + capacity.NoJob.TimeLimit.Duration() // later they are refused

	open := v.Reservation.State == capacity.StateActive && !v.Window.Start.After(s.Now) &&
		!s.Now.Add(least).After(v.Window.Fence)
	if v.Former || !v.Partition.Provider.Launches() || v.Group.Dynamic || !v.Reservation.Kind.IsBlock() || !open {
		return nil
	}

	nodes := s.Cluster.SlotNodes(v.Slot.Name)
	nodes = nodes[:countLaunchable(v, nodes)]

	// A node that failed its test is launched again as soon as it is off, and its instance has left room for another.
	if s.Now.Before(v.Slot.PoweredUp.Add(powerUpAgain)) {
		last := s.Now.Add(-s.Snap.Timing.BootAllowance.Duration)
		replaced := s.tests(v).Replaced
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return replaced[n].Before(last) })
	}

	// Nodes that a launch could not use now: their host has failed, or an old instance or job still holds them.
	busy := s.Cluster.lostNodes(v, nodes)
	for _, o := range s.Snap.Orphans { // ended first
		busy = append(busy, o.Node)
	}

	for node := range s.completingJobs() {
		busy = append(busy, node)
	}

	return s.Cluster.filterNodes(nodes, func(n capacity.Node) bool {
		return n.PoweredDown() && n.BaseState() == "IDLE" && n.OutState() == "" && !slices.Contains(busy, n.Name)
	})
}

// decidePowerDowns powers down our nodes that are still up under their fence, once their jobs have ended. PCS does so
// itself.
func decidePowerDowns(s View) (actions []Action) {
	for _, v := range s.slotStates() {
		fence := v.Window.Fence
		if v.Reservation.ID == "" {
			fence = v.Last.Fence
		}

		if !v.Partition.Provider.Launches() || fence.IsZero() || fence.After(s.Now) {
			continue
		}

		if nodes := s.Cluster.filterNodes(s.Cluster.SlotNodes(v.Slot.Name), capacity.Node.IsUp); len(nodes) > 0 {
			actions = append(actions, newAction("power-down", aboutNodes(v.Slot.Name, nodes),
				fmt.Sprintf("power down %s: the fence was at %s", hostlist.Compress(nodes), capacity.FormatUTC(fence)),
				func(ctx context.Context, w World) error {
					return w.Slurm.PowerDown(ctx, nodes, "the reservation ends: powered down under the fence")
				}))
		}
	}

	return actions
}

// decideNodeReturns gives nodes back to Slurm: those that did not boot within ResumeTimeout and are still DOWN
// (ResumeFailProgram does so at once, but Slurm calls it only once, and it may have been killed), and those that are
// off while a job still completes there, which would wait until another job powers them up. Slurm 24.11 has such jobs
// when a job that ended before a restart of slurmctld is requeued after it.
func decideNodeReturns(s View) (actions []Action) {
	jobs := s.completingJobs()
	for _, kind := range []struct {
		is          func(n capacity.Node) bool
		why, reason string
	}{
		{
			is:     capacity.Node.TimedOut,
			why:    "down since ResumeTimeout, and ResumeFailProgram did not do so",
			reason: "ResumeTimeout reached: returned to service by sync",
		},
		{
			is:     func(n capacity.Node) bool { return n.PoweredDown() && jobs[n.Name] != "" },
			why:    "powered down with a job still completing there",
			reason: "powered down with a job completing: returned to service by sync",
		},
	} {
		for slot, nodes := range s.nodesBySlot(kind.is) {
			about := aboutNodes(slot, nodes)
			text := fmt.Sprintf("return %s to service: %s", about.Node, kind.why)
			powerDown := func(ctx context.Context, w World) error {
				// Nodes are read before jobs, and another job may have powered one up since.
				now, err := w.Slurm.Nodes(ctx, nodes...)
				if err != nil {
					return err
				}

				if slices.ContainsFunc(now, func(n capacity.Node) bool { return !kind.is(n) }) {
					return errMoot
				}

				return w.Slurm.PowerDownForce(ctx, nodes, kind.reason)
			}
			actions = append(actions, newAction("return-nodes", about, text, powerDown))
		}
	}

	return actions
}

// completingJobs returns the completing jobs by the nodes that squeue still shows for them.
func (s View) completingJobs() map[string]string {
	jobs := map[string]string{}
	for _, j := range s.Jobs {
		if j.State == "COMPLETING" {
			for _, n := range j.Nodes {
				jobs[n] = j.Shown
			}
		}
	}

	return jobs
}

// nodesBySlot yields, by slot, the names of matching nodes that Slurm powers up with our programs.
func (s View) nodesBySlot(of func(capacity.Node) bool) iter.Seq2[string, []string] {
	return func(yield func(slot string, names []string) bool) {
		done := map[string]bool{} // a slot may be in two partitions
		for _, at := range capacity.AllSlots(s.Snap.Partitions) {
			slot := at.Slot.Name
			if !at.Partition.Provider.Launches() || done[slot] {
				continue
			}

			done[slot] = true
			if names := s.Cluster.filterNodes(s.Cluster.SlotNodes(slot), of); len(names) > 0 && !yield(slot, names) {
				return
			}
		}
	}
}

// This file ends instances that nothing else would end: SuspendProgram was killed, or EC2 refused it for its whole
// time, or somebody launched for a node that Slurm does not have. Each takes a place that is paid for. An instance
// ended by mistake takes a job with it, so one look is never enough.

// orphanAge is the least age of an orphan: it leaves SuspendProgram its time, and spares a launch that Slurm has not
// heard of yet.
const orphanAge = 5 * time.Minute

// orphanTime must pass between the pass that sees an orphan first and the one that ends it.
const orphanTime = 30 * time.Second

// orphans returns this cluster's instances without a node; before are those of the last pass. launched returns the
// instance that the last launch of a node has recorded.
func orphans(
	instances []capacity.Instance, cluster *Cluster, before []capacity.Orphan, launched func(node string) string,
	now time.Time,
) []capacity.Orphan {
	living := map[string][]capacity.Instance{} // by node
	for _, i := range instances {
		if node := i.Node(); node != "" && !i.Ended() {
			living[node] = append(living[node], i)
		}
	}

	var found []capacity.Orphan

	byName := cluster.byName()
	for _, i := range instances {
		node := i.Node()
		if node == "" || i.Ended() || i.Launched.After(now.Add(-orphanAge)) {
			continue
		}

		if why := cluster.orphanReason(byName, node, i, living[node], launched); why != "" {
			o := capacity.Orphan{
				Instance:    i.ID,
				Node:        node,
				Reservation: i.ReservationID,
				Why:         why,
				Since:       now.UTC().Truncate(time.Second),
			}

			// Seen before: the time since the first sight decides when it is ended.
			for _, b := range before {
				if b.Instance == o.Instance && b.Node == o.Node {
					o.Since = b.Since
				}
			}

			found = append(found, o)
		}
	}

	// In the same order in every pass: a problem that did not change is not reported again.
	slices.SortFunc(found, func(a, b capacity.Orphan) int { return cmp.Compare(a.Instance, b.Instance) })

	return found
}

// orphanReason says why an instance does not belong to its node; "" if it does, or may. living are all instances for
// the node.
func (c *Cluster) orphanReason(
	byName map[string]capacity.Node, node string, i capacity.Instance, living []capacity.Instance,
	launched func(node string) string,
) string {
	n, there := byName[node]
	switch {
	case there && n.PoweredDown():
		return "Slurm has powered the node down"
	case there && len(living) == 1:
		return ""
	case there:
		own := currentInstance(n, living, launched)
		if own != "" && own != i.ID {
			return "the node runs on another instance"
		}

		return ""
	case c.inPartition("", []string{node}):
		// Slurm 22.05 hides nodes that are powered down unless PrivateData has cloud.
		return "Slurm has powered the node down"
	}

	return "Slurm has no such node"
}

// currentInstance returns which of its living instances a node is; "" if that is not known. Newer Slurm, 24.11 for one,
// takes the address from the connection by which slurmd registers, which may be that of another network card: then the
// node is the instance of its last launch.
func currentInstance(n capacity.Node, living []capacity.Instance, launched func(node string) string) string {
	for _, i := range living {
		if i.PrivateIP == n.Address {
			return i.ID
		}
	}

	if !n.IsUp() {
		return ""
	}

	last := launched(n.Name)
	if slices.ContainsFunc(living, func(i capacity.Instance) bool { return i.ID == last }) {
		return last
	}

	return ""
}

func decideOrphanEnds(s View) (actions []Action) {
	if !s.OrphansSeen {
		return nil
	}

	for _, o := range s.Snap.Orphans {
		if s.Now.Sub(o.Since) < orphanTime {
			continue
		}

		_, _, slot, _ := s.Settings.FindNode(o.Node)
		about := capacity.Subject{
			Slot:        slot,
			Node:        o.Node,
			Instance:    o.Instance,
			Reservation: o.Reservation,
		}
		text := fmt.Sprintf("terminate instance %s of node %s%s: %s",
			o.Instance, o.Node, inReservation(o.Reservation), o.Why)
		terminate := func(ctx context.Context, w World) error {
			err := w.EC2.Terminate(ctx, []capacity.Instance{{ID: o.Instance}})
			w.Outcome.Terminated[o.Instance] = err == nil

			return err
		}
		actions = append(actions, newAction("end-instance", about, text, terminate))
	}

	return actions
}

// checkOrphans reports the orphans, those of one reservation together.
func checkOrphans(s View) (problems []capacity.Problem) {
	type kind struct{ reservation, why string }
	for k, all := range groupBy(s.Snap.Orphans, func(o capacity.Orphan) kind { return kind{o.Reservation, o.Why} }) {
		var ids, nodes []string
		for _, o := range all {
			ids = append(ids, o.Instance)
			nodes = append(nodes, o.Node)
		}

		who, does := formatInstances(ids, nodes, "uses capacity", "use capacity")
		if k.reservation == "" {
			_, does = formatInstances(ids, nodes, "runs on demand", "run on demand")
		}

		problems = append(
			problems,
			capacity.Problemf(
				capacity.OrphanInstances,
				capacity.Subject{Reservation: k.reservation},
				"",
				"%s %s%s: %s; the next pass terminates what is still unused",
				who,
				does,
				inReservation(k.reservation),
				k.why,
			),
		)
	}

	return problems
}

// checkForeignInstances reports instances with another cluster's mark that are for our nodes or at their addresses.
// Nothing ends them: they may belong to another cluster of the same name.
func (s View) checkForeignInstances(others []capacity.Instance) (problems []capacity.Problem) {
	others = slices.DeleteFunc(slices.Clone(others), func(i capacity.Instance) bool {
		is := func(n capacity.Node) bool { return n.Address == i.PrivateIP || n.Name == i.Node() }
		return i.Ended() || !slices.ContainsFunc(s.Cluster.Nodes, is) && !s.Cluster.inPartition("", []string{i.Node()})
	})
	for mark, all := range groupBy(others, func(i capacity.Instance) string { return i.Tags[capacity.TagCluster] }) {
		var ids, nodes []string
		for _, i := range all {
			ids = append(ids, i.ID)
			nodes = append(nodes, cmp.Or(i.Node(), "no node"))
		}

		who, has := formatInstances(ids, nodes, "is left alone: its mark is", "are left alone: their mark is")

		ours := "this cluster's is " + s.Cluster.Mark
		if s.Cluster.MarkErr != nil {
			ours = fmt.Sprintf("this cluster's is not known: %v", s.Cluster.MarkErr)
		}

		problems = append(problems, capacity.Problemf(capacity.ForeignMark, capacity.Subject{}, fmt.Sprintf(
			"terminate what is not used, or tag it %s=%s for this cluster", capacity.TagCluster,
			cmp.Or(s.Cluster.Mark, "MARK")),
			"%s %s %s, but %s", who, has, mark, ours))
	}

	return problems
}

func inReservation(reservation string) string {
	if reservation == "" {
		return ""
	}
	return " in " + reservation
}

func decideMisplaced(s View) (actions []Action) {
	for _, node := range s.Placed {
		if !s.NoAWS {
			actions = append(actions, newAction("keep-not-misplaced", capacity.Subject{Node: node}, "",
				func(_ context.Context, w World) error { return w.State.RemoveMisplaced(node) }))
		}
	}

	return actions
}
