package lifecycle

import (
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// limitChange is a new time limit for a running job.
type limitChange struct {
	job     capacity.Job
	minutes int
	slot    string
	fence   time.Time // in Slurm's clock; zero if there is none any more
	// reservation is the one that ends.
	reservation string
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
// boot done + limit and does not look at reservations again. A job whose mark says Fit and that would end more than a
// minute before the fence is raised to it, or to its owner's limit; so is one that sync has lowered, up to the limit that
// it had. Nothing else changes. marks are the trusted ones. A job that has run since before the slot's turn is never
// raised: it runs on instances of the previous block and ends at that block's fence, and slurmctld ends a job over its
// limit up to 30 s late (PERIODIC_TIMEOUT).
func limitChanges(jobs []capacity.Job, byNode map[string]fenced, marks map[string]state.Mark,
	now time.Time) []limitChange {
	var changes []limitChange
	for _, j := range jobs {
		f, ok := earliestFence(j, byNode)
		if !ok || j.State != "RUNNING" || j.Configuring() {
			continue
		}
		mark := marks[j.Shown]
		elapsed := elapsed(j, now)
		end := now.Add(-elapsed).Add(j.TimeLimit.Duration())
		crosses := !j.TimeLimit.Bounded() || end.After(f.fence)
		short := (mark.Fit || mark.From != 0) && f.fence.Sub(end) > time.Minute
		// A limit of 0 would mean none; 1 minute ends the job at once if it has already run longer.
		minutes := max(1, capacity.FitLimit(now, f.fence, elapsed, f.maxTime))
		lower := crosses && (!j.TimeLimit.Bounded() || minutes < j.TimeLimit.Minutes)
		for _, most := range []int{mark.UpTo, mark.From} {
			if !crosses && most > 0 {
				minutes = min(minutes, most)
			}
		}
		former := j.Start.Before(f.start.Add(-startSlack))
		raise := !crosses && !former && short && minutes > j.TimeLimit.Minutes
		if lower || raise {
			changes = append(changes, limitChange{job: j, minutes: minutes, slot: f.slot, fence: f.fence, reservation: f.reservation})
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
func limits(seen Seen) (effects []capacity.Effect) {
	keep := KeepMarks{maps.Clone(seen.Marks), seen.MarksFile}
	for _, c := range seen.limitChanges() {
		e := SetLimit{Slot: c.slot, Job: c.job, Minutes: c.minutes, Until: c.fence}
		if !c.fence.IsZero() {
			e.Fence = c.fence.Add(-seen.toSlurm())
		}
		mark := seen.Marks[c.job.Shown]
		if !mark.Fit {
			if mark.CutTo(c.minutes, c.job.TimeLimit); c.fence.IsZero() {
				mark.Cut, mark.From = 0, 0
			}
			keep.Marks[c.job.Shown] = mark
			if text := e.note(c.reservation); text != "" {
				effects = append(effects, TellOwner{Job: c.job, Text: text, Quiet: true})
			}
		}
		effects = append(effects, e)
	}
	if !maps.Equal(keep.Marks, seen.Marks) {
		effects = slices.Insert(effects, 0, capacity.Effect(keep))
	}
	return effects
}

// limitChanges returns the changes of running jobs' limits. None that we chose is raised where accounting limits use
// over time.
func (s Seen) limitChanges() []limitChange {
	jobs := s.left()
	changes := append(limitChanges(jobs, fencedNodes(s), withinWalls(s, jobs), s.SlurmNow()), s.restored(jobs)...)
	return slices.DeleteFunc(changes, func(c limitChange) bool {
		return c.raises() && s.Marks[c.job.Shown].Fit &&
			s.Snap.Walls.Metered(c.job.User, c.job.Account, c.job.QOS, s.partition(c.job.Partition))
	})
}

// restored gives jobs back the limit that sync has lowered where their reservation no longer ends.
func (s Seen) restored(jobs []capacity.Job) (changes []limitChange) {
	open := map[string]slotView{}
	for _, v := range s.slots() {
		if v.current.ID != "" && v.window.Unbounded() {
			for _, name := range s.Cluster.SlotNodes(v.slot.Name) {
				open[name] = v
			}
		}
	}
	for _, j := range jobs {
		mark := s.Marks[j.Shown]
		if mark.From == 0 || !j.Running() ||
			slices.ContainsFunc(j.Nodes, func(name string) bool { return open[name].current.ID == "" }) {
			continue
		}
		minutes := mark.From
		if minutes < 0 {
			minutes = int(capacity.SlurmInfinite / time.Minute)
		}
		v := open[j.Nodes[0]]
		changes = append(changes, limitChange{job: j, minutes: minutes, slot: v.slot.Name, reservation: v.current.ID})
	}
	return changes
}
