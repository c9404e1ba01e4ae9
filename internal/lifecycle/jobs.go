package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file reads Slurm's jobs: in every pass those that can have our nodes; now and then, of all others, which may
// be a hundred times as many, those with a word of ours.

// readJobs reads the jobs that this pass is about. p.seen.Elsewhere are jobs in partitions that are not ours: they
// matter only for what was done to them before they were moved there, and for what they ask of us.
func (p *pass) readJobs(ctx context.Context) error {
	ours := p.view.Cluster.OurPartitions(p.view.Snap)

	in := func(j capacity.Job) bool { return slices.ContainsFunc(ours, j.InPartition) }
	jobs := []capacity.Job{}
	ended := []capacity.Job{}

	// Other partitions may have a hundred times as many jobs, so most passes leave them out.
	var err error
	if asked := append(slices.Clone(ours), p.SharedPartitions...); !p.OursOnly {
		jobs, ended, err = p.Slurm.JobsOf(ctx, nil,
			func(j capacity.Job) bool { return in(j) || p.usesOurNodes(j) || hasOurText(j) || p.hasRecord(j) })
	} else if len(asked) > 0 {
		jobs, ended, err = p.Slurm.JobsOf(ctx, asked, nil)
	}

	if err != nil {
		return err
	}

	jobs = p.takeTestJobs(jobs)
	ended = p.takeTestJobs(ended)

	// squeue folds the pending tasks of an array into one line, which hides what is different about some.
	if hidden := hiddenTasks(jobs, p.view.SavedRecords); len(hidden) > 0 {
		tasks, err := p.Slurm.Tasks(ctx, hidden)
		if err != nil {
			return err
		}

		jobs = append(jobs, slices.DeleteFunc(tasks, func(j capacity.Job) bool { return !j.Pending() })...)
	}

	p.view.Ended = ended
	p.view.Jobs = slices.DeleteFunc(jobs, func(j capacity.Job) bool { // in place: they may be many
		ours := in(j) || p.usesOurNodes(j)
		switch {
		case ours && j.Unread != "":
			p.view.Unread = append(p.view.Unread, j)
			p.addProblem(capacity.SlurmUnread, capacity.Subject{Job: j.Shown}, "",
				"job %s cannot be read (%s): its time limit and holds stay as they are",
				cmp.Or(j.Shown, strconv.Itoa(j.ID)), j.Unread)
		case !ours && j.Unread == "":
			p.view.Elsewhere = append(p.view.Elsewhere, j)
		}

		return !ours || j.Unread != ""
	})
	if p.view.Jobs == nil { // nil would mean that they were not read
		p.view.Jobs = []capacity.Job{}
	}

	return nil
}

// hiddenTasks returns the tasks with a record that squeue shows only as part of their pending array.
func hiddenTasks(jobs []capacity.Job, records map[string]state.JobRecord) (names []string) {
	marked := map[string]bool{} // arrays
	for name := range records {
		if array, _, task := strings.Cut(name, "_"); task {
			marked[array] = true
		}
	}

	for _, j := range jobs {
		if array, _, together := strings.Cut(j.Shown, "_["); together && marked[array] {
			list, _, _ := strings.Cut(strings.TrimSuffix(j.Shown, "]"), "%") // how many run at a time

			// Array tasks have the syntax of a hostlist: 12_[1-4,7].
			tasks, _ := hostlist.Expand(list + "]")
			for _, name := range tasks {
				if _, known := records[name]; known {
					names = append(names, name)
				}
			}
		}
	}

	return names
}

// usesOurNodes reports whether a job has our nodes. Its partition may have lost them a moment ago.
func (p *pass) usesOurNodes(j capacity.Job) bool {
	return slices.ContainsFunc(j.Nodes, func(n string) bool { _, _, _, ours := p.Settings.FindNode(n); return ours })
}

// hasRecord reports whether an earlier pass has recorded a job. Its partition may not have been ours for a while.
func (p *pass) hasRecord(j capacity.Job) bool {
	_, recorded := p.view.SavedRecords[recordKey(j.Shown)]
	return recorded
}

// sharedPartitions returns the partitions of jobs that run on our nodes.
func (p *pass) sharedPartitions() (names []string) {
	for _, jobs := range [][]capacity.Job{p.view.Jobs, p.view.Unread} {
		for _, j := range jobs {
			if !slices.Contains(names, j.Partition) && p.usesOurNodes(j) {
				names = append(names, j.Partition)
			}
		}
	}

	return names
}

// remainingJobs returns all jobs that this pass has not taken off their nodes.
func (s View) remainingJobs() []capacity.Job {
	jobs := s.Jobs
	if len(s.Elsewhere) > 0 { // they may be many
		jobs = slices.Concat(jobs, s.Elsewhere)
	}

	return excludeJobs(jobs, func(j capacity.Job) bool { return s.Off[j.Shown] })
}

// allJobsEvery: Watch looks at the jobs of all partitions in every tenth pass.
const allJobsEvery = 10

// hasOurText reports whether a job that cannot have our nodes carries a word of ours in its comment or AdminComment.
func hasOurText(j capacity.Job) bool {
	wish, wrong := j.Wish()
	_, noted := capacity.ParseAdminNote(j.AdminComment)

	return noted || wish.NamesCapacity() || len(wrong) > 0
}

// excludeJobs copies the jobs only if one is left out: 10,000 take 4 MB.
func excludeJobs(jobs []capacity.Job, leaveOut func(capacity.Job) bool) []capacity.Job {
	if !slices.ContainsFunc(jobs, leaveOut) {
		return jobs
	}
	return slices.DeleteFunc(slices.Clone(jobs), leaveOut)
}

// isUnchanged reports whether a job is as it was, as far as a decision on it depends on what others change: a hook, the
// job's owner or an administrator. Above all, a hook may have held it, and its note says which hold is ours.
func isUnchanged(was, now capacity.Job) bool {
	return now.Unread == "" && now.State == was.State && now.Restarts == was.Restarts && now.Held == was.Held &&
		now.AdminComment == was.AdminComment && now.Comment == was.Comment && now.Partition == was.Partition &&
		now.Constraint == was.Constraint && now.TimeLimit == was.TimeLimit && now.TimeMin == was.TimeMin
}

// isSameRun reports whether a job is still in the run in which it was read, and no hook is about to hold it.
func isSameRun(was, now capacity.Job) bool {
	return now.Allocated() && now.Restarts == was.Restarts &&
		(now.AdminComment == was.AdminComment || !isHeldByHook(now))
}

// isHeldByHook reports whether a hook's note says that a job is held, or will be.
func isHeldByHook(j capacity.Job) bool {
	note, _ := capacity.ParseAdminNote(j.AdminComment)
	return !note.Held.IsZero()
}

// jobAction changes a job, if it still is what the decision was about.
func jobAction(
	code, slot string, was capacity.Job, text string, still func(was, now capacity.Job) bool,
	do func(ctx context.Context, w World) error,
) Action {
	about := capacity.Subject{Slot: slot, Job: was.Shown}

	return newAction(code, about, text, func(ctx context.Context, w World) error {
		now, err := w.Slurm.Job(ctx, was.Shown)
		if err != nil {
			return err
		}

		if !still(was, now) {
			return errMoot
		}

		return do(ctx, w)
	})
}

// noteAction writes into a job's AdminComment. Without a text it accompanies an action that is reported itself.
func noteAction(j capacity.Job, note capacity.AdminNote, text string) Action {
	return jobAction("tell-owner", "", j, text, isUnchanged, func(ctx context.Context, w World) error {
		return w.Slurm.SetAdminComment(ctx, note.String(), j.Shown)
	})
}
