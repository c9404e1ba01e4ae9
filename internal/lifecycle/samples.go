package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// decideSample records, for the report, the open reservations, the state of their nodes and the jobs on them.
func decideSample(s View) []Action {
	now := s.sample()
	if now == nil {
		return nil
	}

	return []Action{newAction("keep-sample", capacity.Subject{}, "",
		func(_ context.Context, w World) error { return w.State.AppendSample(*now, s.LastSample, s.Poll) })}
}

// sample is nil if no reservation is paid for, or was until now, and without jobs: the report shows such a time as
// unknown.
func (s View) sample() *state.Sample {
	now := state.Sample{At: s.nowInSeconds(), Paid: s.paid()}
	if s.Jobs == nil || len(now.Paid) == 0 && (s.LastSample == nil || len(s.LastSample.Paid) == 0) {
		return nil
	}

	waited := s.waited()
	demands := s.demands()
	for id, paid := range now.Paid {
		paid.Waits = waited[paid.Partition]
		paid.Tail = demands[id].isTail()
	}

	now.Runs = s.runs(now.At)

	return &now
}

// paid returns the open reservations of all slots with the state of their nodes.
func (s View) paid() map[string]*state.Paid {
	all := map[string]*state.Paid{}
	for _, v := range s.slotStates() {
		nodes := s.sampledNodes(v)
		for _, r := range s.openIn(v) {
			w := s.Snap.Timing.Window(r)
			paid := &state.Paid{
				Partition:    v.Partition.Name,
				Slot:         v.Slot.Name,
				Spare:        v.Partition.Spare.Name,
				Kind:         r.Kind,
				InstanceType: r.InstanceType,
				GPUs:         v.Group.GPUs,
				Size:         r.Size(),
				Unhealthy:    r.Unhealthy,
				Start:        w.Start,
				Fence:        w.Fence,
				End:          w.End,
			}
			// A reservation that waits for its turn has no nodes. If several share a slot, only EC2 knows which node
			// runs in which: they are filled one after the other.
			if r.ID == v.Reservation.ID || v.Window.Unbounded() && v.Reservation.ID != "" && w.Unbounded() {
				mine := nodes[:min(len(nodes), max(r.Size(), 0))]
				nodes = nodes[len(mine):]
				paid.Nodes = byState(mine)
			}

			// Two slots may list the reservation; the one with nodes counts.
			if all[r.ID] == nil || paid.Nodes != nil {
				all[r.ID] = paid
			}
		}
	}

	return all
}

// openIn returns the open reservations of a slot, the current one first.
func (s View) openIn(v capacity.SlotState) (open []capacity.Reservation) {
	for _, t := range append([]capacity.Turn{v.Turn}, s.Snap.Turns(v.SlotRef)...) {
		r := t.Reservation
		if r.State == capacity.StateActive && r.IsLiveAt(s.Now) && !r.Start.After(s.Now) &&
			(len(open) == 0 || r.ID != open[0].ID) {
			open = append(open, r)
		}
	}

	return open
}

// sampledNodes returns the nodes of a slot that are not powered down, those that can run jobs first.
func (s View) sampledNodes(v capacity.SlotState) []sampledNode {
	closed := s.waitingNodes(v)

	var nodes []sampledNode
	for _, n := range s.Cluster.visibleNodes(s.Cluster.SlotNodes(v.Slot.Name)) {
		one := sampledNode{name: n.Name, state: sampleState(n)}
		if one.state == state.NodeUp && slices.Contains(closed, n.Name) {
			one.state = state.NodeBoot // it waits for the others
		}

		if one.state != "" {
			nodes = append(nodes, one)
		}
	}

	slices.SortStableFunc(nodes,
		func(a, b sampledNode) int { return strings.Compare(sampleOrder[a.state], sampleOrder[b.state]) })

	return nodes
}

// sampledNode is a node with its state for Paid.Nodes.
type sampledNode struct{ name, state string }

var sampleOrder = map[string]string{state.NodeUp: "0", state.NodeBoot: "1", state.NodeDrain: "2", state.NodeDown: "3"}

func byState(nodes []sampledNode) map[string]string {
	names := map[string][]string{}
	for _, n := range nodes {
		names[n.state] = append(names[n.state], n.name)
	}

	lists := map[string]string{}
	for what, of := range names {
		lists[what] = hostlist.Compress(of)
	}

	return lists
}

// sampleState returns the state of a node for Paid.Nodes; "" for one that is powered down.
func sampleState(n capacity.Node) string {
	switch {
	case n.IsUp():
		return state.NodeUp
	case n.PoweredDown(), n.PoweringDown():
		return ""
	case n.PoweringUp():
		return state.NodeBoot
	case n.HasFlag("DRAIN"):
		return state.NodeDrain
	}

	return state.NodeDown
}

// waited returns the partitions for whose nodes a job waits, other than for its owner's reasons.
func (s View) waited() map[string]bool {
	waited := map[string]bool{}
	for _, j := range s.Jobs {
		if s.waitsForNodes(j) {
			for name := range strings.SplitSeq(j.Partition, ",") {
				p, _ := s.Snap.Partition(name)
				waited[cmp.Or(p.Lender, name)] = true
			}
		}
	}

	return waited
}

func (s View) waitsForNodes(j capacity.Job) bool {
	return j.CanStart() && !j.Held && !j.Eligible.After(s.SlurmNow())
}

// runs returns the runs of jobs on our nodes that go on, and those that have ended since the last sample, with how they
// ended.
func (s View) runs(now time.Time) map[string]capacity.Run {
	ourNodes := map[string]bool{}
	for _, v := range s.slotStates() {
		for _, name := range s.Cluster.SlotNodes(v.Slot.Name) {
			ourNodes[name] = true
		}
	}

	onOurs := func(j capacity.Job) bool {
		return slices.ContainsFunc(j.Nodes, func(n string) bool { return ourNodes[n] })
	}
	if s.LastSample == nil {
		return s.currentRuns(nil, onOurs)
	}

	last := s.LastSample
	runs := s.currentRuns(last.Runs, onOurs)

	ended := map[string]capacity.Job{} // by run
	for _, j := range s.Ended {
		ended[runID(j)] = j
	}

	// A run that the last sample had and that is gone has ended since, whether or not Slurm still shows how.
	for id, run := range last.Runs {
		if _, goesOn := runs[id]; !goesOn && run.End.IsZero() {
			runs[id] = s.endRun(id, run, ended, now)
		}
	}

	// Runs that began and ended since the last sample.
	for id, j := range ended {
		_, known := last.Runs[id]
		_, goesOn := runs[id]
		end := s.toAWSTime(j.End)
		if !known && !goesOn && !j.Start.IsZero() && !end.Before(last.At) && onOurs(j) {
			run := s.run(j)
			run.End = end
			run.State = j.State
			runs[id] = run
		}
	}

	return runs
}

// currentRuns returns the runs of jobs on our nodes that have not ended. A run keeps its start from when its nodes have
// booted: the clock offset is known to the second only, and somebody may set a clock.
func (s View) currentRuns(last map[string]capacity.Run, onOurs func(capacity.Job) bool) map[string]capacity.Run {
	runs := map[string]capacity.Run{}
	for _, j := range s.Jobs {
		id := runID(j)
		was, known := last[id]
		switch {
		case !onOurs(j):
		case j.Allocated():
			run := s.run(j)
			if known && (!was.Boots || run.Boots && isNear(was.Start, run.Start)) {
				run = was
			}

			runs[id] = run
		case known && was.End.IsZero() && j.State == "COMPLETING":
			runs[id] = was // squeue does not say yet how it ends
		}
	}

	return runs
}

// endRun completes a run that is over: as Slurm shows its end, as requeued if its job has started again, or as ended
// now.
func (s View) endRun(id string, run capacity.Run, ended map[string]capacity.Job, now time.Time) capacity.Run {
	if j, known := ended[id]; known {
		run.End = s.toAWSTime(j.End)
		run.State = j.State
		return run
	}

	run.End = now

	// The same job with a later run: it was requeued.
	restarts, _ := strconv.Atoi(id[strings.LastIndexByte(id, '.')+1:])
	if slices.ContainsFunc(s.Jobs, func(j capacity.Job) bool { return j.Shown == run.Job && j.Restarts > restarts }) {
		run.State = "REQUEUED"
	}

	return run
}

func runID(j capacity.Job) string { return j.Shown + "." + strconv.Itoa(j.Restarts) }

func (s View) run(j capacity.Job) capacity.Run {
	return capacity.Run{
		Job:       j.Shown,
		User:      j.User,
		Account:   j.Account,
		Partition: j.Partition,
		Nodes:     hostlist.Compress(j.Nodes),
		Start:     s.toAWSTime(j.Start),
		Boots:     j.Configuring(),
	}
}

// decideFiles writes the snapshot and the roster for their readers, and the facts for running jobs. slurmctld's own copy
// comes first, because state_dir may be on a file server that hangs.
func decideFiles(s View, local state.Dir) []Action {
	all := jobFacts(s)

	return []Action{
		newAction("keep-snapshot", capacity.Subject{}, "", func(_ context.Context, w World) error {
			if local == "" || local == w.State {
				return nil
			}
			return local.WriteSnapshot(s.Snap)
		}),
		newAction("keep-snapshot", capacity.Subject{}, "", func(_ context.Context, w World) error {
			return w.State.WriteSnapshot(s.Snap)
		}),
		newAction("keep-facts", capacity.Subject{}, "", func(_ context.Context, w World) error {
			return w.State.WriteJobFacts(all)
		}),
	}
}

// jobFacts returns what running jobs may read about their reservations. If several share a slot, only EC2 knows which
// one a node runs in, so there are no facts.
func jobFacts(s View) map[string]state.JobFacts {
	all := map[string]state.JobFacts{}
	for _, v := range s.slotStates() {
		if v.Reservation.ID == "" || len(v.Current) > 1 {
			continue
		}

		w := v.Window
		f := state.JobFacts{
			ReservationID: v.Reservation.ID,
			InstanceType:  v.Reservation.InstanceType,
			Partition:     v.Partition.Name,
			Slot:          v.Slot.Name,
		}
		if !w.Unbounded() {
			f.Requeue = capacity.RequeueAt(w.Fence, s.Snap.KillWait.Duration).UTC()
			f.Fence = w.Fence.UTC()
			f.Reclaim = w.Reclaim.UTC()
			f.End = w.End.UTC()
		}

		all[v.Slot.Name] = f
	}

	return all
}
