package lifecycle

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// limitChange is a new time limit for a running job.
type limitChange struct {
	job     capacity.Job
	minutes int
	slot    string
	fence   time.Time // in Slurm's clock
	// by is the limit of accounting that caps the job; "" if none does.
	by string
}

// fenced is a slot whose jobs must end by the fence.
type fenced struct {
	slot    string
	start   time.Time // of the slot's turn, in Slurm's clock; zero if it always had it
	fence   time.Time // in Slurm's clock
	maxTime capacity.Limit
	// reservation is the one that ends. onEnd applies to jobs whose comment has no on_end.
	reservation string
	onEnd       capacity.OnEnd
}

// endingNodes returns the nodes that jobs will lose: those that EC2 interrupts now, or else those of slots with a
// fence.
func (s Seen) endingNodes() map[string]fenced {
	if s.TakenBack != nil {
		return s.TakenBack
	}
	return fencedNodes(s)
}

// fencedNodes names the fenced slot of each node that has one.
func fencedNodes(seen Seen) map[string]fenced {
	byNode := map[string]fenced{}
	for _, v := range seen.slots() {
		if v.current.ID == "" || v.window.Unbounded() {
			continue
		}
		f := fenced{
			slot:        v.slot.Name,
			start:       v.window.Start.Add(seen.toSlurm()),
			fence:       placedFence(seen, v),
			maxTime:     v.partition.MaxTime,
			reservation: v.current.ID,
			onEnd:       v.partition.OnEnd,
		}
		for _, name := range seen.Cluster.SlotNodes(v.slot.Name) {
			byNode[name] = f
		}
	}
	return byNode
}

// placedFence is when a slot's fence begins, in Slurm's clock. If Slurm's own time is the same within sameTime, it is
// used, so the coarse clock offset does not move limits back and forth.
func placedFence(seen Seen, v slotView) time.Time {
	fence := v.window.Fence.Add(seen.toSlurm())
	for _, r := range seen.Cluster.Reservations {
		if r.Fences(v.slot.Name, v.current.ID) && near(r.Start, fence) {
			return r.Start
		}
	}
	return fence
}

// limitChanges finds the running jobs whose time limit does not end where it should; byNode names the fenced slot of
// each node. All times are in Slurm's clock.
//
// A job that would cross the fence is lowered to it, whoever set the limit (R2): after boot, Slurm sets the end to
// boot done + limit and does not look at reservations again. A job marked time=fit that would end more than a minute
// before the fence is raised to it, or to its owner's limit: time=fit:MINUTES. Nothing else changes. marks are the
// trusted ones. A job that has run since before the slot's turn is never raised: it runs on instances of the previous
// block and ends at that block's fence, and slurmctld ends a job over its limit up to 30 s late (PERIODIC_TIMEOUT).
func limitChanges(jobs []capacity.Job, byNode map[string]fenced, marks map[string]state.Mark,
	now time.Time) []limitChange {
	var changes []limitChange
	for _, j := range jobs {
		f, ok := earliestFence(j, byNode)
		if !ok || j.State != "RUNNING" || j.Configuring() {
			continue
		}
		elapsed := elapsed(j, now)
		end := now.Add(-elapsed).Add(j.TimeLimit.Duration())
		crosses := !j.TimeLimit.Bounded() || end.After(f.fence)
		mark := marks[j.Shown]
		short := mark.Fit && j.TimeMin.Bounded() && f.fence.Sub(end) > time.Minute
		// A limit of 0 would mean none; 1 minute ends the job at once if it has already run longer.
		minutes := max(1, capacity.FitLimit(now, f.fence, elapsed, f.maxTime))
		lower := crosses && (!j.TimeLimit.Bounded() || minutes < j.TimeLimit.Minutes)
		if !crosses && mark.UpTo > 0 {
			minutes = min(minutes, mark.UpTo)
		}
		former := j.Start.Before(f.start.Add(-startSlack))
		raise := !crosses && !former && short && minutes > j.TimeLimit.Minutes
		if lower || raise {
			changes = append(changes, limitChange{job: j, minutes: minutes, slot: f.slot, fence: f.fence})
		}
	}
	return changes
}

// elapsed is the used part of a running job's limit. It comes from Slurm's end, which accounts for boot time and
// suspension; an unlimited job's end is far away.
func elapsed(j capacity.Job, now time.Time) time.Duration {
	if j.TimeLimit.Bounded() && !j.End.IsZero() {
		return now.Sub(j.End.Add(-j.TimeLimit.Duration()))
	}
	return now.Sub(j.Start)
}

// startSlack is the tolerated difference between a job's start in Slurm's clock and a block's in AWS's. The previous
// block was closed to jobs for longer than that: from its fence, minutes earlier.
const startSlack = time.Minute

func (c limitChange) raises() bool {
	return c.job.TimeLimit.Bounded() && c.minutes > c.job.TimeLimit.Minutes
}

func earliestFence(j capacity.Job, byNode map[string]fenced) (fenced, bool) {
	var first fenced
	found := false
	for _, name := range j.Nodes {
		if f, ok := byNode[name]; ok && (!found || f.fence.Before(first.fence)) {
			first, found = f, true
		}
	}
	return first, found
}

// limits returns the new time limits of running jobs.
func limits(seen Seen) ([]capacity.Effect, []capacity.Problem) {
	changes, problems := withinBudgets(seen, seen.limitChanges())
	var effects []capacity.Effect
	for _, c := range changes {
		effects = append(effects,
			SetLimit{Slot: c.slot, Job: c.job, Minutes: c.minutes, By: c.by, Fence: c.fence.Add(-seen.toSlurm())})
	}
	return effects, problems
}

// limitChanges returns the limits before the budgets of accounting apply.
func (s Seen) limitChanges() []limitChange {
	jobs := s.left()
	return limitChanges(jobs, s.endingNodes(), withinWalls(s, jobs), s.SlurmNow())
}
