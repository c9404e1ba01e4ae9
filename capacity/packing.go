package capacity

import (
	"slices"
	"time"
)

// NodeWindow is a number of nodes that jobs can have for a time.
type NodeWindow struct {
	Nodes int
	From  time.Time
	Until time.Time // the fence; zero if there is none
}

// QueuedJob is a job that Pack runs. Its limit is an upper bound: it may end earlier.
type QueuedJob struct {
	Nodes   int
	Limit   time.Duration // what is left of it
	Least   time.Duration // the shortest run with which it may start: its Limit if it has to fit
	Ready   time.Time     // its earliest start
	GoesOn  bool          // at a fence it is requeued, and the rest of its limit runs later
	Windows []int         // where it can run
	Running bool          // it has its nodes already, in the first of Windows
}

// PackedRun is a run of a job in a window, both by their index.
type PackedRun struct {
	Job, Window int
	From, To    time.Time
}

// Pack gives each job, in the order of its priority, the earliest start that delays no job before it: first-fit with
// backfill, on whole nodes. done says when each job has had its limit, or was ended at a fence; zero if it never runs,
// or not to its end.
func Pack(jobs []QueuedJob, windows []NodeWindow, now time.Time) (runs []PackedRun, done []time.Time) {
	spaces := make([]freeSpace, len(windows))
	for i, w := range windows {
		until := w.Until
		if until.IsZero() {
			until = now.Add(maxDuration)
		}

		spaces[i] = freeSpace{until, []freeStep{{later(now, w.From), w.Nodes}}}
	}

	done = make([]time.Time, len(jobs))
	// Whoever has nodes keeps them.
	for _, running := range []bool{true, false} {
		for i := range jobs {
			if jobs[i].Running != running {
				continue
			}

			var ran []PackedRun

			ran, done[i] = packJob(jobs[i], spaces, now)
			for _, r := range ran {
				r.Job = i
				runs = append(runs, r)
			}
		}
	}

	return runs, done
}

// packJob takes the nodes of a job for each of its runs.
func packJob(j QueuedJob, spaces []freeSpace, now time.Time) (runs []PackedRun, done time.Time) {
	rest := j.Limit
	ready := later(now, j.Ready)
	if j.Running {
		s := &spaces[j.Windows[0]]
		run := PackedRun{Window: j.Windows[0], From: now, To: earlier(now.Add(rest), s.until)}
		s.take(j.Nodes, run.From, run.To)
		runs = append(runs, run)
		rest -= run.To.Sub(run.From)
		ready = run.To
	}

	for rest > 0 && (len(runs) == 0 || j.GoesOn) {
		var first PackedRun
		for _, w := range j.Windows {
			from, to := spaces[w].find(j.Nodes, ready, rest, min(rest, j.Least))
			if !to.IsZero() && (first.To.IsZero() || from.Before(first.From)) {
				first = PackedRun{Window: w, From: from, To: to}
			}
		}

		if first.To.IsZero() {
			return runs, done
		}

		spaces[first.Window].take(j.Nodes, first.From, first.To)
		runs = append(runs, first)
		rest -= first.To.Sub(first.From)
		ready = first.To
	}

	if len(runs) > 0 {
		done = ready
	}

	return runs, done
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// freeSpace has the free nodes of a window over time, in steps: each lasts until the next one, the last until the fence.
type freeSpace struct {
	until time.Time
	steps []freeStep
}

type freeStep struct {
	at   time.Time
	free int
}

// find returns the earliest run on so many nodes: as long as length, or at least as least where the fence ends it. to
// is zero if there is none.
func (s freeSpace) find(nodes int, ready time.Time, length, least time.Duration) (from, to time.Time) {
	i, exact := s.search(ready)
	if !exact {
		i = max(0, i-1)
	}

	from = later(ready, s.steps[i].at)
	to = earlier(from.Add(length), s.until)
	for ; i < len(s.steps) && to.Sub(from) >= least; i++ {
		end := s.until
		if i+1 < len(s.steps) {
			end = s.steps[i+1].at
		}

		switch {
		case s.steps[i].free < nodes: // behind this step is the next chance
			from = end
			to = earlier(from.Add(length), s.until)
		case !end.Before(to):
			return from, to
		}
	}

	return time.Time{}, time.Time{}
}

// take takes nodes for a run.
func (s *freeSpace) take(nodes int, from, to time.Time) {
	first := s.split(from)
	for i := first; i < s.split(to); i++ {
		s.steps[i].free -= nodes
	}
}

// split returns the step that begins at a time, which it makes.
func (s *freeSpace) split(at time.Time) int {
	i, exact := s.search(at)
	if !exact && i > 0 && at.Before(s.until) {
		s.steps = slices.Insert(s.steps, i, freeStep{at, s.steps[i-1].free})
	}

	return i
}

func (s freeSpace) search(at time.Time) (int, bool) {
	return slices.BinarySearchFunc(s.steps, at, func(s freeStep, at time.Time) int { return s.at.Compare(at) })
}
