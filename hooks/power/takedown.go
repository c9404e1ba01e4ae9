package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// notifyTime bounds the messages to the jobs of a group. They are sent before the nodes are taken away, which must not
// wait for long.
const notifyTime = 3 * time.Second

// takeDown handles groups that failed, those of one reason together. The error is for nodes that Slurm has still.
func takeDown(w World, c *call, outcomes []outcome) error {
	var errs []error
	for len(outcomes) > 0 {
		why := outcomes[0].failure
		var same, others []outcome
		for _, o := range outcomes {
			if o.failure == why {
				same = append(same, o)
			} else {
				others = append(others, o)
			}
		}
		errs = append(errs, takeDownFor(w, c, why, same))
		outcomes = others
	}
	return errors.Join(errs...)
}

// takeDownFor records why the groups failed, tells the jobs' owners, and powers the nodes down, which requeues the jobs
// and terminates the launched instances. The jobs wait longer after each failure. Launches leave time for it.
func takeDownFor(w World, c *call, why *Failure, outcomes []outcome) error {
	ctx, cancel := context.WithTimeout(c.last, c.budget/failuresOfBudget)
	defer cancel()
	var nodes []string
	var jobs []capacity.Job
	behind := map[string]bool{}
	record := state.Record{At: w.Now(), Hook: "resume", Code: why.Code, EC2Code: why.EC2Code,
		Message: hook.OneLine(why.message())}
	for _, o := range outcomes {
		nodes, jobs = append(nodes, o.nodes...), append(jobs, o.jobs...)
		maps.Copy(behind, youngerOthers(o.jobs))
		for _, n := range o.nodes {
			if l, ok := o.launched[n]; ok {
				record.Reservation, record.Instances = l.reservation, append(record.Instances, l.instance.ID)
			}
		}
	}
	list := hostlist.Compress(nodes)
	at, _ := placeOf(c.settings, nodes[0])
	record.Partition, record.Nodes, record.Jobs, record.Restarts = at.partition.Name, list, shown(jobs), restarts(jobs)

	records, err := w.Records()
	if err != nil {
		c.Warn("how often the jobs failed before is not known", "err", err)
	}
	failures := failuresOf(append(records, record), jobs, record.At)
	c.record(w, record)
	word := hook.OneLine(fmt.Sprintf("pcs-capacity: nodes %s were not launched: %s: %s", list, why.Code, why.message()))
	c.notify(ctx, w, word, jobs) // jobs lose their terminals with their nodes
	down := c.did(w.PowerDownForce(ctx, nodes, why.reason()), "power nodes down", "nodes", list, "reason", why.reason())
	now := machineNow(w)
	begin, words := map[string]time.Time{}, map[string]string{}
	for _, j := range jobs {
		words[j.Shown] = word
		if j.Batch && down == nil {
			begin[j.Shown] = until(failures[j.Shown], now, why.NotBefore.Add(-w.Offset()))
			words[j.Shown] += tried(failures[j.Shown], begin[j.Shown], now)
		}
	}
	if len(begin) > 0 {
		queue, err := w.BriefJobs(ctx)
		if err != nil {
			c.Warn("jobs start as early as Slurm lets them", "err", err)
		}
		c.delay(ctx, w, queue, begin, behind)
	}
	c.comment(ctx, w, words)
	if down != nil {
		return fmt.Errorf("nodes %s are left to ResumeTimeout: %w", list, down)
	}
	return nil
}

// notify tells the jobs that sbatch did not submit: they have a terminal. A message whose reader has gone is lost.
func (j *journal) notify(ctx context.Context, w World, text string, jobs []capacity.Job) {
	ctx, cancel := context.WithTimeout(ctx, notifyTime)
	defer cancel()
	for _, job := range jobs {
		if job.Batch {
			continue
		}
		if err := w.Notify(ctx, job.Shown, text); err != nil {
			j.Debug("telling the job", "job", job.Shown, "err", err)
		}
	}
}

// delay sets the begin times, by shown names, of jobs that Slurm has requeued; jobs are the current ones. It leaves
// alone a job that Slurm starts later anyway: Slurm's own delay lets the credentials of the last run expire. Jobs of
// behind start one pause later, or Slurm would give them the same nodes as the others again.
func (j *journal) delay(ctx context.Context, w World, jobs []capacity.Job, begin map[string]time.Time,
	behind map[string]bool) {
	for _, job := range jobs {
		at, ours := begin[job.Shown]
		if after := job.Eligible.Add(firstPause); behind[job.Shown] && after.After(at) {
			at = after
		}
		if ours && job.Pending() && job.Eligible.Before(at) {
			_ = j.did(w.Begin(ctx, job.Shown, at), "let the job begin later", "job", job.Shown, "at", at)
		}
	}
}

// comment writes the AdminComments of jobs, one call for each text.
func (j *journal) comment(ctx context.Context, w World, words map[string]string) {
	of := map[string][]string{}
	for _, job := range slices.Sorted(maps.Keys(words)) {
		text := hook.Clip(hook.OneLine(words[job]), capacity.MaxComment)
		of[text] = append(of[text], job)
	}
	for _, jobs := range slices.SortedFunc(maps.Values(of), slices.Compare) {
		text := hook.Clip(hook.OneLine(words[jobs[0]]), capacity.MaxComment)
		_ = j.did(w.SetAdminComments(ctx, text, jobs...), "write the AdminComment", "jobs", jobs, "text", text)
	}
}
