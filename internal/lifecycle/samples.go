package lifecycle

import (
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
	for _, paid := range now.Paid {
		paid.Waits = waited[paid.Partition]
	}

	now.Runs = s.runs(now.At)

	return &now
}

// paid returns the open reservations of all slots with the state of their nodes.
func (s View) paid() map[string]*state.Paid {
	all := map[string]*state.Paid{}
	for _, v := range s.slotStates() {
		nodes := s.sampledNodes(v.Slot.Name)
		for _, r := range s.openIn(v) {
			w := s.Snap.Timing.Window(r)
			paid := &state.Paid{
				Partition:    v.Partition.Name,
				Slot:         v.Slot.Name,
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
				paid.Nodes = s.byState(mine)
			}

			if all[r.ID] == nil || paid.Nodes != nil {
				all[r.ID] = paid
			}
		}
	}

	return all
}

// openIn are the reservations of a slot that are open, the current one first.
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

// sampledNodes are the nodes of a slot that are not powered down, those that can run jobs first.
func (s View) sampledNodes(slot string) []capacity.Node {
	nodes := slices.DeleteFunc(s.Cluster.visibleNodes(s.Cluster.SlotNodes(slot)),
		func(n capacity.Node) bool { return sampleState(n) == "" })
	slices.SortStableFunc(nodes,
		func(a, b capacity.Node) int {
			return strings.Compare(sampleOrder[sampleState(a)], sampleOrder[sampleState(b)])
		})

	return nodes
}

var sampleOrder = map[string]string{state.NodeUp: "0", state.NodeBoot: "1", state.NodeDrain: "2", state.NodeDown: "3"}

func (s View) byState(nodes []capacity.Node) map[string]string {
	names := map[string][]string{}
	for _, n := range nodes {
		names[sampleState(n)] = append(names[sampleState(n)], n.Name)
	}

	lists := map[string]string{}
	for what, of := range names {
		lists[what] = hostlist.Compress(of)
	}

	return lists
}

// sampleState is the state of a node for Paid.Nodes; "" for one that is powered down.
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
	now := s.SlurmNow()
	waited := map[string]bool{}
	for _, j := range s.Jobs {
		if j.CanStart() && !j.Held && !j.Eligible.After(now) {
			for name := range strings.SplitSeq(j.Partition, ",") {
				waited[name] = true
			}
		}
	}

	return waited
}

// runs returns the runs of jobs that hold nodes, and of those that ended since the last sample, with how they ended.
// It includes runs that began and ended in between.
func (s View) runs(now time.Time) map[string]capacity.Run {
	last := s.LastSample
	ours := map[string]bool{}
	for _, v := range s.slotStates() {
		for _, name := range s.Cluster.SlotNodes(v.Slot.Name) {
			ours[name] = true
		}
	}

	before := map[string]capacity.Run{}
	if last != nil {
		before = last.Runs
	}

	runs := map[string]capacity.Run{}
	restarts := map[string]int{}
	for _, j := range s.Jobs {
		if j.Restarts > 0 {
			restarts[j.Shown] = j.Restarts
		}

		if !slices.ContainsFunc(j.Nodes, func(n string) bool { return ours[n] }) {
			continue
		}

		id := runID(j)
		was, known := before[id]
		switch {
		case j.State == "RUNNING" || j.State == "SUSPENDED":
			runs[id] = s.run(j)
			if known && isNear(was.Start, runs[id].Start) {
				runs[id] = was // the offset is known to the second only
			}
		case known && was.End.IsZero() && j.State == "COMPLETING":
			runs[id] = was // squeue does not say yet how it ends
		}
	}

	over := map[string]capacity.Job{}
	for _, j := range s.Ended {
		over[runID(j)] = j
	}

	for id, run := range before {
		if _, there := runs[id]; there || !run.End.IsZero() {
			continue
		}

		run.End = now
		if j, seen := over[id]; seen {
			run.End = s.toAWSTime(j.End)
			run.State = j.State
		} else if n, _ := strconv.Atoi(id[strings.LastIndexByte(id, '.')+1:]); restarts[run.Job] > n {
			run.State = "REQUEUED"
		}

		runs[id] = run
	}

	for id, j := range over {
		_, known := before[id]
		_, there := runs[id]
		if known || there || j.Start.IsZero() || last == nil || s.toAWSTime(j.End).Before(last.At) ||
			!slices.ContainsFunc(j.Nodes, func(n string) bool { return ours[n] }) {
			continue
		}

		run := s.run(j)
		run.End = s.toAWSTime(j.End)
		run.State = j.State
		runs[id] = run
	}

	return runs
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
	}
}

// decideFiles writes the snapshot and the plan for their readers, and the facts for running jobs. slurmctld's own copy
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
