package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file reads Slurm's jobs: in every pass those that can have our nodes; now and then, of all others, which may
// be a hundred times as many, those with a word of ours.

// changeJobs reads the jobs once and does all that a pass does with jobs: unfinished requeues, endings at the fence,
// time limits, and messages to owners.
func (p *pass) changeJobs(ctx context.Context) {
	if !mayChangeJobs(p.seen) {
		return
	}
	p.readMarks()
	if err := p.readJobs(ctx); err != nil {
		err = fmt.Errorf("reading Slurm's jobs: %w", err)
		p.say(capacity.SlurmUnanswered, capacity.Subject{}, "", "%v; time limits and holds are as they were", err)
		p.fail(err)
		return
	}
	p.seen.Marks = trusted(p.seen)
	p.learnJobs(p.carryOut(ctx, unfinished(p.seen)))
	p.learnJobs(p.carryOut(ctx, endings(p.seen)))
	p.learnJobs(p.carryOut(ctx, keepMarks(p.seen)))
	p.learnJobs(p.carryOut(ctx, limits(p.seen)))
	p.carryOut(ctx, waiting(p.seen))
	p.carryOut(ctx, endedHolds(p.seen))
}

// readJobs reads the jobs that this pass is about. p.seen.Elsewhere are jobs in partitions that are not ours: they
// matter only for what was done to them before they were moved there, and for what they ask of us.
func (p *pass) readJobs(ctx context.Context) error {
	ours := p.seen.Cluster.Ours(p.seen.Snap)
	in := func(j capacity.Job) bool {
		for name := range strings.SplitSeq(j.Partition, ",") {
			if slices.Contains(ours, name) {
				return true
			}
		}
		return false
	}
	jobs, ended := []capacity.Job{}, []capacity.Job{}
	var err error
	if asked := append(slices.Clone(ours), p.AlsoOurs...); !p.OursOnly {
		jobs, ended, err = p.World.Jobs(ctx, nil, func(j capacity.Job) bool { return in(j) || p.onOurs(j) || concerns(j) })
	} else if len(asked) > 0 {
		jobs, ended, err = p.World.Jobs(ctx, asked, nil)
	}
	if err != nil {
		return err
	}
	if hidden := hiddenTasks(jobs, p.seen.MarksFile); len(hidden) > 0 {
		tasks, err := p.World.Tasks(ctx, hidden)
		if err != nil {
			return err
		}
		jobs = append(jobs, slices.DeleteFunc(tasks, func(j capacity.Job) bool { return !j.Pending() })...)
	}
	p.seen.Ended = ended
	p.seen.Jobs = slices.DeleteFunc(jobs, func(j capacity.Job) bool { // in place: they may be many
		ours := in(j) || p.onOurs(j)
		switch {
		case ours && j.Unread != "":
			p.seen.Unread = append(p.seen.Unread, j)
			p.say(capacity.SlurmUnread, capacity.Subject{Job: j.Shown}, "",
				"job %s cannot be read (%s): its time limit and holds stay as they are", cmp.Or(j.Shown, strconv.Itoa(j.ID)), j.Unread)
		case !ours && j.Unread == "":
			p.seen.Elsewhere = append(p.seen.Elsewhere, j)
		}
		return !ours || j.Unread != ""
	})
	if p.seen.Jobs == nil { // nil would mean that they were not read
		p.seen.Jobs = []capacity.Job{}
	}
	return nil
}

// hiddenTasks are the tasks with a mark that squeue shows together with others of their array that wait.
func hiddenTasks(jobs []capacity.Job, marks map[string]state.Mark) (names []string) {
	marked := map[string]bool{} // arrays
	for name := range marks {
		if array, _, task := strings.Cut(name, "_"); task {
			marked[array] = true
		}
	}
	for _, j := range jobs {
		if array, _, together := strings.Cut(j.Shown, "_["); together && marked[array] {
			list, _, _ := strings.Cut(strings.TrimSuffix(j.Shown, "]"), "%") // how many run at a time
			tasks, _ := hostlist.Expand(list + "]")
			for _, name := range tasks {
				if _, known := marks[name]; known {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// onOurs reports whether a job has our nodes. Its partition may have lost them a moment ago.
func (p *pass) onOurs(j capacity.Job) bool {
	return slices.ContainsFunc(j.Nodes, func(n string) bool { _, _, _, ours := p.Settings.PlaceOf(n); return ours })
}

// alsoOurs are the partitions of jobs that have nodes of ours.
func (p *pass) alsoOurs() []string {
	var names []string
	for _, jobs := range [][]capacity.Job{p.seen.Jobs, p.seen.Unread} {
		for _, j := range jobs {
			if !slices.Contains(names, j.Partition) && p.onOurs(j) {
				names = append(names, j.Partition)
			}
		}
	}
	return names
}

// readMarks reads what the last pass knew.
func (p *pass) readMarks() {
	var err error
	if p.seen.MarksFile, err = p.State.Marks(); err != nil {
		p.problem(capacity.StateFile, err)
	}
}

// learnJobs takes over what came of changes to jobs.
func (p *pass) learnJobs(results []Result) {
	p.seen.Marks, p.seen.MarksFile, p.seen.Off = learn(p.seen.Marks,
		results), kept(p.seen.MarksFile, results), offNodes(p.seen.Off, results)
}
