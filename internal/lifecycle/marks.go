package lifecycle

import (
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// The word time=fit in a comment says that a job's limit is ours to raise, on_end= what
// happens to the job at the fence. Users can write them at any time, so they count only from
// before the job's start (R7): each pass remembers what the comments said, and of a job that
// has started it believes what it said before.
//
// A job that is submitted and starts between two passes is first seen running, and then
// its comment is believed as it is: for as long as one pass after the other takes, a user
// can still write the words. That gains nothing over writing them at submission: time=fit raises
// only jobs that have a --time-min, which cannot be changed once a job runs, and Slurm
// starts those with the word and those without in the same gaps. Where job_submit.lua is
// installed, it refuses such a change.

// trustedMarks are the marks that count, by jobs as they are Shown; before are those of
// the last pass.
func trustedMarks(jobs []capacity.Job, before map[string]state.Mark) map[string]state.Mark {
	marks := make(map[string]state.Mark, len(jobs))
	for _, j := range jobs {
		wish, _ := capacity.ParseWish(j.Comment)
		said := state.Mark{Restarts: j.Restarts, Fit: wish.Fit, UpTo: wish.FitLimit.Minutes, OnEnd: wish.OnEnd,
			Ends: before[j.Shown].Ends, EndedAt: before[j.Shown].EndedAt, Ending: before[j.Shown].Ending}
		switch j.State {
		case "PENDING":
			said.Release = before[j.Shown].Release
			marks[markKey(j.Shown)] = said
		case "RUNNING", "SUSPENDED":
			seen, ok := before[j.Shown]
			if !ok || seen.Restarts != j.Restarts {
				seen, ok = before[tasksKey(j.Shown)]
			}
			if ok && seen.Restarts == j.Restarts {
				said = said.Within(seen)
				said.Told = seen.Told
			}
			marks[j.Shown] = said
		}
	}
	return marks
}

// tasksKey is the key of the pending tasks of an array, for one of its tasks.
func tasksKey(shown string) string {
	array, _, _ := strings.Cut(shown, "_")
	return array + "_"
}

// markKey is the key of a pending job: tasks that wait together, 12_[1-4], become jobs of
// their own, 12_1, one by one.
func markKey(shown string) string {
	if strings.Contains(shown, "_[") {
		return tasksKey(shown)
	}
	return shown
}

// marks reads what the last pass knew, and finds what counts now, of jobs that it may change:
// those in partitions of ours, and those on nodes that we fence.
func (p *pass) marks(jobs []capacity.Job, byNode map[string]fenced) (now, before map[string]state.Mark) {
	before, err := p.State.Marks()
	if err != nil {
		p.problem(capacity.StateFile, err)
	}
	jobs = without(jobs, func(j capacity.Job) bool {
		_, onOurs := earliestFence(j, byNode)
		if onOurs {
			return false
		}
		for name := range strings.SplitSeq(j.Partition, ",") {
			if _, ours := p.snap.Partition(name); ours {
				return false
			}
		}
		return true
	})
	return trustedMarks(jobs, before), before
}

// keepMarks keeps what counts now for the next pass.
func (p *pass) keepMarks(now, before map[string]state.Mark) {
	if err := p.State.KeepMarks(now, before); err != nil {
		p.problem(capacity.StateFile, err)
	}
}

// keepWithinWalls changes marks so that by them no limit is raised past what accounting would
// have let the job have.
func (p *pass) keepWithinWalls(jobs []capacity.Job, marks map[string]state.Mark) {
	for _, j := range jobs {
		m := marks[j.Shown]
		if !m.Fit {
			continue
		}
		part := p.partition(j.Partition)
		if wall := p.snap.Walls.Wall(j.User, j.Account, j.QOS, part); wall.Bounded() && (m.UpTo == 0 || wall.Minutes < m.UpTo) {
			m.UpTo = wall.Minutes
			marks[j.Shown] = m
		}
	}
}

// partition is one of Slurm's, as far as it decides about the limits of a job that runs there:
// another one may share nodes with ours.
func (p *pass) partition(name string) capacity.Partition {
	if part, ours := p.snap.Partition(name); ours || p.cluster == nil {
		part.Name = name
		return part
	}
	for _, sp := range p.cluster.Partitions {
		if sp.Name == name {
			return capacity.Partition{Name: name, MaxTime: sp.MaxTime, QOS: sp.QOS}
		}
	}
	return capacity.Partition{Name: name}
}

// problem notes what a pass can do without, and an administrator should look at.
func (p *pass) problem(code capacity.Code, err error) {
	p.say(code, capacity.Subject{}, "", "%v", err)
}

// say notes what people should know, and who has to act on it.
func (p *pass) say(code capacity.Code, about capacity.Subject, fix, format string, args ...any) {
	p.snap.Add(capacity.Problemf(code, about, fix, format, args...))
}
