package lifecycle

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// on_end= in a comment says what happens to the job at the fence. Users can write it at any time, so it counts only from
// before the job's start (R7): each pass records it, and for a job that has started the last record from before counts;
// so does the limit that a job with --time-min stated, which Slurm forgets when it shortens the job.
//
// A job that is submitted and starts between two passes is first seen running, and its comment is trusted as it is, so
// for the length of one pass a user can still write on_end=. That gains nothing over writing it at submission. Where
// job_submit.lua is installed, it refuses such a change.

// trustedMarks returns the marks that count, by Shown; before are those of the last pass.
func trustedMarks(snap *capacity.Snapshot, jobs []capacity.Job, before map[string]state.Mark) map[string]state.Mark {
	marks := make(map[string]state.Mark, len(jobs))
	for _, j := range jobs {
		wish, _ := j.Wish()
		said := state.Mark{Restarts: j.Restarts, Fit: snap.Fitted(j), OnEnd: wish.OnEnd,
			Ends: before[j.Shown].Ends, EndedAt: before[j.Shown].EndedAt, Ending: before[j.Shown].Ending}
		switch j.State {
		case "PENDING":
			if was := before[j.Shown]; was.Ending {
				said.Release, said.Cut, said.From, said.Fit, said.UpTo = was.Release, was.Cut, was.From, was.Fit, was.UpTo
			} else if !said.Fit && j.TimeMin.Bounded() && j.TimeLimit.Bounded() && j.TimeMin.Minutes < j.TimeLimit.Minutes {
				said.Fit, said.UpTo = true, j.TimeLimit.Minutes
			}
			marks[markKey(j.Shown)] = said
		case "RUNNING", "SUSPENDED":
			seen, ok := before[j.Shown]
			if !ok || seen.Restarts != j.Restarts {
				seen, ok = before[tasksKey(j.Shown)]
			}
			if ok && seen.Restarts == j.Restarts {
				said.Fit, said.UpTo, said.OnEnd, said.Told = seen.Fit, seen.UpTo, seen.OnEnd, seen.Told
				if seen.Cuts(j.TimeLimit) { // else somebody has set another
					said.Cut, said.From = seen.Cut, seen.From
				}
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

// trusted returns the marks that count now, for the jobs that a pass may change: jobs in our partitions, and jobs on
// nodes that they will lose.
func trusted(seen Seen) map[string]state.Mark {
	byNode := fencedNodes(seen)
	marks := trustedMarks(seen.Snap, without(seen.Jobs, func(j capacity.Job) bool {
		_, ends := earliestFence(j, byNode)
		return !ends &&
			!slices.ContainsFunc(j.Partitions(), func(name string) bool { _, ours := seen.Snap.Partition(name); return ours })
	}), seen.MarksFile)
	for _, j := range seen.Unread {
		if mark, marked := seen.MarksFile[markKey(j.Shown)]; marked {
			marks[markKey(j.Shown)] = mark
		}
	}
	return marks
}

// keepMarks saves the marks for the next pass.
func keepMarks(seen Seen) []Action {
	return []Action{action("keep-marks", capacity.Subject{}, "",
		func(_ context.Context, w World) error { return w.State.KeepMarks(seen.Marks) })}
}

// keepChanged changes marks and saves them, above all before what they are about: the pass after a killed one knows what
// is left to do.
func keepChanged(seen Seen, changed map[string]state.Mark) []Action {
	if len(changed) == 0 {
		return nil
	}
	return []Action{action("keep-marks", capacity.Subject{}, "", func(_ context.Context, w World) error {
		maps.Copy(seen.Marks, changed)
		return w.State.KeepMarks(seen.Marks)
	})}
}

// withinWalls bounds marks that would raise a limit past what accounting would have allowed the job.
func withinWalls(seen Seen, jobs []capacity.Job) map[string]state.Mark {
	marks := maps.Clone(seen.Marks)
	for _, j := range jobs {
		m := marks[j.Shown]
		if !m.Fit {
			continue
		}
		if wall := seen.Snap.Walls.Wall(j.User, j.Account, j.QOS, seen.partition(j.Partition)); wall.Bounded() &&
			(m.UpTo == 0 || wall.Minutes < m.UpTo) {
			m.UpTo = wall.Minutes
			marks[j.Shown] = m
		}
	}
	return marks
}

// partition returns one of Slurm's partitions with what decides about its jobs' limits: a partition that is not ours
// may share nodes with ours.
func (s Seen) partition(name string) capacity.Partition {
	if part, ours := s.Snap.Partition(name); ours || s.Cluster == nil {
		part.Name = name
		return part
	}
	for _, sp := range s.Cluster.Partitions {
		if sp.Name == name {
			return capacity.Partition{Name: name, MaxTime: sp.MaxTime, QOS: sp.QOS}
		}
	}
	return capacity.Partition{Name: name}
}
