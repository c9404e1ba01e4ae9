package capacity

import (
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Queue is the jobs of a partition that run or wait, in the order of their priority.
type Queue struct {
	Partition string
	Jobs      []Job
	By        time.Time // when they have to be done; zero for any time
	Now       time.Time
}

// QueuePlan says what comes of a queue.
type QueuePlan struct {
	Jobs   int
	Done   time.Time     // when the last job is done; zero if some are not, or not in time
	Undone []UndoneJob   // those that are not done, or not in time
	Used   time.Duration // the time of the reservations' nodes until the fences that jobs use
	Usable time.Duration // all of it
}

// UndoneJob is a job by its name, and how many nodes it needs.
type UndoneJob struct {
	Name  string
	Nodes int
}

// Share returns how much of the nodes' time until the fences jobs use.
func (p QueuePlan) Share() string {
	if p.Usable == 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", 100*p.Used/p.Usable)
}

// Plan packs the queue into the reservations of its partition. A job that is held, or that cannot start, takes part only
// once it has been released.
func (q Queue) Plan(snap *Snapshot) QueuePlan {
	var windows []NodeWindow

	turns := q.turns(snap)
	for _, t := range turns {
		windows = append(windows, t.nodeWindow(snap, q.Now))
	}

	jobs, names := q.queuedJobs(turns, snap)
	runs, done := Pack(jobs, windows, q.Now)

	plan := QueuePlan{Jobs: len(jobs)}
	for i, at := range done {
		if at.IsZero() || !q.By.IsZero() && at.After(q.By) {
			plan.Undone = append(plan.Undone, UndoneJob{names[i], jobs[i].Nodes})
		}

		plan.Done = later(plan.Done, at)
	}

	if len(plan.Undone) > 0 {
		plan.Done = time.Time{}
	}

	// A block that waits for its slot is paid for too.
	for i, t := range turns {
		if !t.Window.Unbounded() {
			plan.Usable += time.Duration(windows[i].Nodes) * t.Window.Fence.Sub(later(q.Now, t.Reservation.Start))
		}
	}

	for _, r := range runs {
		if !windows[r.Window].Until.IsZero() {
			plan.Used += time.Duration(jobs[r.Job].Nodes) * r.To.Sub(r.From)
		}
	}

	return plan
}

// turns returns those of the partition that are not over.
func (q Queue) turns(snap *Snapshot) []Turn {
	p, _ := snap.Partition(q.Partition)

	return slices.DeleteFunc(candidates(p, snap), func(t Turn) bool {
		return t.Unknown || t.Never || !t.onDemand() && !t.Reservation.IsLiveAt(q.Now) ||
			!t.Window.Unbounded() && !t.Window.Fence.After(q.Now)
	})
}

// queuedJobs returns the jobs as Pack takes them, with their names.
func (q Queue) queuedJobs(turns []Turn, snap *Snapshot) (jobs []QueuedJob, names []string) {
	alike := map[string][]Prospect{}
	for _, j := range q.Jobs {
		if !j.Allocated() && (j.Held || !j.CanStart()) {
			continue
		}

		req := q.request(j, snap)

		key := fmt.Sprint(req.withoutTimes())
		if _, known := alike[key]; !known {
			alike[key] = Prospects(req.withoutTimes(), snap, q.Now)
		}

		jobs = append(jobs, q.queued(j, req, alike[key], turns, snap))
		names = append(names, j.Shown)
	}

	return jobs, names
}

// nodeWindow returns the nodes of a turn that jobs can have. Those that are launched have to boot first.
func (c Turn) nodeWindow(snap *Snapshot, now time.Time) NodeWindow {
	w := NodeWindow{Nodes: c.limitToGroup(c.Reservation.UsableSize()), From: c.Window.Start, Until: c.Window.Fence}
	if w.From.After(now) && (c.Group.Dynamic || c.Partition.Provider.Launches()) {
		w.From = w.From.Add(snap.Timing.BootAllowance.Duration)
	}

	return w
}

// request returns what a job asks for in the partition.
func (q Queue) request(j Job, snap *Snapshot) Request {
	req := snap.Request(j)
	req.Partitions = []string{q.Partition}

	// Sync has shortened its limit for the fence of this run.
	if note, _ := ParseAdminNote(j.AdminComment); note.Stated.Bounded() {
		req.TimeLimit = note.Stated
	}

	return req
}

// withoutTimes returns what decides where a job can run. Many jobs differ in nothing else than their times.
func (r Request) withoutTimes() Request {
	r.TimeLimit = Limit{}
	r.TimeMin = Limit{}
	r.Begin = time.Time{}
	r.Deadline = time.Time{}

	return r
}

// queued returns a job as Pack takes it, with the turns that it can run in.
func (q Queue) queued(j Job, req Request, prospects []Prospect, turns []Turn, snap *Snapshot) QueuedJob {
	out := QueuedJob{Nodes: max(1, j.NumNodes), Limit: req.TimeLimit.Duration(), Ready: req.Begin}
	if j.Allocated() {
		out.Limit = q.restOf(j, req, snap)
		for i, t := range turns {
			if t.hasNode(j.Nodes) && !t.Window.Start.After(q.Now) {
				out.Windows = []int{i}
				out.Running = true
			}
		}
	}

	out.Least = out.Limit
	if !req.TimeLimit.Bounded() {
		return out
	}

	for _, p := range prospects {
		out.Least = min(out.Limit, p.need(req, snap).Duration())
		out.GoesOn = p.GoesOn(req, snap)

		i := slices.IndexFunc(turns, func(t Turn) bool {
			return t.Slot.Name == p.Slot.Name && t.Reservation.ID == p.Reservation.ID
		})
		if i >= 0 && !slices.Contains(out.Windows, i) {
			out.Windows = append(out.Windows, i)
		}
	}

	return out
}

// restOf returns how long a job that has nodes may still have them.
func (q Queue) restOf(j Job, req Request, snap *Snapshot) time.Duration {
	if !req.TimeLimit.Bounded() {
		return maxDuration
	}

	ran := q.Now.Sub(j.ShiftTimes(snap.ClockOffset.Duration).Start)

	return max(time.Minute, req.TimeLimit.Duration()-max(0, ran))
}

// hasNode reports whether the slot of the turn has the first of some nodes.
func (c Turn) hasNode(nodes []string) bool {
	has, _ := hostlist.Expand(c.Slot.Nodes)
	return len(nodes) > 0 && slices.Contains(has, nodes[0])
}

// With returns the snapshot as it would be with a reservation: one that it has, with another end, or a new one, in the
// partition's first node group that can use it.
func (s *Snapshot) With(partition string, r Reservation) *Snapshot {
	with := *s
	with.Reservations = slices.Clone(s.Reservations)
	if i := slices.IndexFunc(s.Reservations, func(has Reservation) bool { return has.ID == r.ID }); i >= 0 {
		with.Reservations[i] = r
		return &with
	}

	with.Reservations = append(with.Reservations, r)
	with.Partitions = slices.Clone(s.Partitions)
	for i := range with.Partitions {
		p := &with.Partitions[i]
		if p.Name != partition {
			continue
		}

		p.Groups = slices.Clone(p.Groups)
		for k := range p.Groups {
			g := &p.Groups[k]

			t := Turn{SlotRef: SlotRef{Partition: p, Group: g}, Reservation: r, Window: s.Timing.Window(r)}
			if len(t.mismatches()) > 0 {
				continue
			}

			g.Slots = slices.Clone(g.Slots)
			slot := &g.Slots[with.bestSlot(g.Slots, r.ID, "")]
			slot.ReservationIDs = append(slices.Clone(slot.ReservationIDs), r.ID)

			return &with
		}
	}

	return &with
}
