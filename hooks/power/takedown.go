package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// errNoTime says that something was not begun.
var errNoTime = &refusal{
	Verdict: refuse(capacity.Interrupted, "there was no time left to launch").Verdict,
	kind:    context.DeadlineExceeded,
}

// isUndecided reports whether nobody has refused a launch: AWS does not answer, or not in time.
func isUndecided(why error) bool {
	return errors.Is(why, ec2.ErrUndecided) || errors.Is(why, context.DeadlineExceeded) ||
		errors.Is(why, context.Canceled)
}

// problemOf returns what an error says to people: with AWS's code and message as they are and what to do about it, or
// with a code of ours. ec2Code is AWS's alone.
func problemOf(err error) (p capacity.Problem, ec2Code string) {
	var (
		ours   *refusal
		answer interface {
			ErrorCode() string
			ErrorMessage() string
		}
	)
	switch {
	case errors.As(err, &ours):
		p = ours.Problem
	case errors.As(err, &answer):
		ec2Code = answer.ErrorCode()
		p.Code = capacity.Code(ec2Code)
		p.Sentence = answer.ErrorMessage()
		p.Fix = ec2.Advice(err)
	default:
		p.Code = capacity.FailedOtherwise
		p.Sentence = err.Error()
	}

	p.Sentence = strings.TrimSuffix(p.Sentence, ".") // more may follow

	return p, ec2Code
}

// maxReason keeps a node's Reason readable in sinfo -R.
const maxReason = 250

// nodeReason returns the node's Reason, which every user of the cluster sees. If it must be cut, the fix stays.
func nodeReason(p capacity.Problem) string {
	fix := ""
	if p.Fix != "" {
		fix = "; " + p.Fix
	}

	return hook.OneLine(hook.Clip(string(p.Code)+": "+p.Sentence, maxReason-len(fix)) + fix)
}

// failureMemory bounds how long a failure counts for the pause of its job: see capacity.RetryAt. A launch that AWS has
// not decided never counts: the next one may succeed as soon as AWS answers.
const failureMemory = 2 * time.Hour

// countFailures counts the runs of jobs, by their shown names, that failed since a while before now, in AWS's time.
// Several power-ups may record one run, each for some of its nodes.
func countFailures(records []state.Record, now time.Time) map[string]int {
	type run struct {
		job      string
		restarts int
	}

	runs := map[run]bool{}
	failures := map[string]int{}
	for _, r := range records {
		if r.Hook != "resume" || r.Code == string(capacity.OK) || r.At.Before(now.Add(-failureMemory)) {
			continue
		}

		for i, restarts := range r.Restarts {
			// A job on many nodes has several records of the same run.
			one := run{r.Jobs[i], restarts}
			if !runs[one] {
				runs[one] = true
				failures[one.job]++
			}
		}
	}

	return failures
}

// failedGroup names a group that is not launched, and why.
type failedGroup struct {
	group
	err      error
	launched map[string]launched // what was launched for it all the same, by node
}

// undoing takes back what launches made, and gives nodes and jobs back to Slurm. It needs no facts, only time.
type undoing struct {
	*Hook
	deadlines
}

// takeDown powers down the nodes of groups that failed, those of one reason together, which requeues the jobs and
// terminates the launched instances. It records why, and tells the jobs' owners. The error is for nodes that Slurm has
// still.
func (u undoing) takeDown(all ...failedGroup) error {
	var errs []error
	for len(all) > 0 {
		// One scontrol for all nodes of a reason: each call takes slurmctld's locks.
		why := all[0].err
		other := func(f failedGroup) bool { return f.err.Error() != why.Error() }
		same := slices.DeleteFunc(slices.Clone(all), other)
		all = slices.DeleteFunc(all, func(f failedGroup) bool { return !other(f) })

		errs = append(errs, u.takeDownFor(why, same))
	}

	return errors.Join(errs...)
}

// takeDownFor takes down groups for one reason. The jobs wait longer after each failure. Launches leave time for it.
func (u undoing) takeDownFor(why error, groups []failedGroup) error {
	ctx, cancel := context.WithTimeout(u.last, u.budget/failureShare)
	defer cancel()

	var (
		nodes []string
		jobs  []capacity.Job
	)
	for _, g := range groups {
		nodes = append(nodes, g.nodes...)
		jobs = append(jobs, g.jobs...)
	}

	// The record comes first: if the hook is killed here, explain and check still know why.
	p, _ := problemOf(why)
	record := u.failureRecord(why, groups, nodes, jobs)
	retryAt := u.delayAfter(why, record)
	u.record(record)

	note := capacity.AdminNote{
		Kind:  capacity.NoteNotLaunched,
		Nodes: record.Nodes,
		Code:  record.Code,
		Text:  record.Message,
	}
	u.notify(ctx, note.String(), jobs...) // jobs lose their terminals with their nodes

	// This is what ends the launch: Slurm requeues the jobs and calls SuspendProgram for the nodes, which terminates
	// the instances named in the record. slurmctld may be busy or restarting; half of the time is for what follows.
	tries, stop := context.WithTimeout(ctx, u.budget/failureShare/2)
	defer stop()

	down := u.retry(tries, "power nodes down", func() error { return u.PowerDownForce(tries, nodes, nodeReason(p)) })
	_ = u.logResult(down, "power nodes down", "nodes", record.Nodes, "reason", nodeReason(p))

	// Only requeued jobs can be delayed, and those of srun and salloc are not requeued.
	var queue []capacity.Job
	if down == nil && slices.ContainsFunc(jobs, func(j capacity.Job) bool { return j.Batch }) {
		var err error

		queue, err = u.BriefJobs(ctx)
		if err != nil {
			u.Warn("the jobs are not delayed", "err", err)
		}
	}

	u.delayJobs(ctx, jobs, queue, retryAt, note)

	if down != nil {
		return fmt.Errorf("nodes %s are left to ResumeTimeout: %w", record.Nodes, down)
	}

	return nil
}

// failureRecord returns the record of nodes that were not launched, with the instances that were launched for them. The
// runs of their jobs count as failures if AWS has decided.
func (u undoing) failureRecord(why error, groups []failedGroup, nodes []string, jobs []capacity.Job) state.Record {
	p, code := problemOf(why)
	at, _ := slotOf(u.Settings, nodes[0])
	record := state.Record{
		At:        u.Now(),
		Hook:      "resume",
		Partition: at.partition.Name,
		Nodes:     hostlist.Compress(nodes),
		Jobs:      jobNames(jobs),
		Code:      string(p.Code),
		EC2Code:   code,
		Message:   hook.OneLine(p.Text()),
	}

	// Instances of a failed launch are in the record so that SuspendProgram finds them before EC2 shows their tags.
	for _, g := range groups {
		for _, n := range g.nodes {
			if got, ok := g.launched[n]; ok {
				record.Reservation = got.reservation
				record.Instances = append(record.Instances, got.instance.ID)
			}
		}
	}

	// A launch that AWS did not answer says nothing about the job, so it does not lengthen the job's pause.
	if !isUndecided(why) {
		for _, j := range jobs {
			record.Restarts = append(record.Restarts, j.Restarts)
		}
	}

	return record
}

// delayAfter returns when the jobs of a launch that failed may start again. record is that of the failure, which our
// records do not have yet.
func (u undoing) delayAfter(why error, record state.Record) delay {
	records, err := u.State.Records()
	if err != nil {
		u.Warn("earlier failures of the jobs are unknown", "err", err)
	}

	r := delay{now: u.Now().Add(-u.Offset()), undecided: isUndecided(why)}

	var ours *refusal
	if errors.As(why, &ours) {
		r.notBefore = ours.NotBefore.Add(-u.Offset())
	}

	// The record of this failure is on its way to disk and counts, too.
	if !r.undecided {
		r.failures = countFailures(append(records, record), record.At)
	}

	return r
}

// notifyTime bounds the messages to jobs. They are sent before the nodes are taken away, which must not wait for long.
const notifyTime = 3 * time.Second

// notify tells the jobs that sbatch did not submit: they have a terminal. A message whose reader has gone is lost.
func (h *Hook) notify(ctx context.Context, text string, jobs ...capacity.Job) {
	ctx, cancel := context.WithTimeout(ctx, notifyTime)
	defer cancel()

	// sbatch has returned long ago; srun and salloc still have a terminal.
	for _, job := range jobs {
		if job.Batch {
			continue
		}

		if err := h.Notify(ctx, job.Shown, text); err != nil {
			h.Debug("telling the job", "job", job.Shown, "err", err)
		}
	}
}

// delay holds what decides when jobs may begin again. Its times are in the controller's clock.
type delay struct {
	now       time.Time
	notBefore time.Time      // an earlier start would be refused; zero if unknown
	failures  map[string]int // by shown name
	undecided bool           // AWS has not refused them
}

// delayJobs has jobs that Slurm has requeued, as queue shows them, begin later after each failure, and tells the owners
// of all jobs why.
func (h *Hook) delayJobs(ctx context.Context, jobs, queue []capacity.Job, d delay, note capacity.AdminNote) {
	byText := map[string][]string{} // job names: one call writes the same comment to several jobs
	for _, j := range jobs {
		was, _ := capacity.ParseAdminNote(j.AdminComment)
		own := note
		own.Stated = was.Stated

		i := slices.IndexFunc(queue, func(q capacity.Job) bool { return q.Shown == j.Shown })
		if i >= 0 && j.Batch {
			// The pause grows with the size of the job, which the queue does not show.
			from := queue[i]
			from.NumNodes = max(len(j.Nodes), 1) // the queue does not say it
			if from.Eligible.Before(d.notBefore) {
				from.Eligible = d.notBefore
			}

			tries := d.failures[j.Shown]
			if tries > 1 {
				own.Text += fmt.Sprintf("; tried %d times", tries)
			}

			at := capacity.RetryAt(from, tries, d.now)
			own.RetryAt = at
			own.Undecided = d.undecided

			// A job that Slurm has not requeued yet, or has started again, cannot be given a begin time.
			if from.Pending() {
				_ = h.logResult(h.SetBeginTime(ctx, j.Shown, at), "let the job begin later", "job", j.Shown, "at", at)
			}
		}

		text := own.String()
		byText[text] = append(byText[text], j.Shown)
	}

	for _, text := range slices.Sorted(maps.Keys(byText)) {
		h.setComment(ctx, text, byText[text]...)
	}
}

// setComment writes the AdminComment of jobs.
func (h *Hook) setComment(ctx context.Context, text string, jobs ...string) {
	text = hook.OneLine(text)
	_ = h.logResult(h.SetAdminComment(ctx, text, jobs...), "write the AdminComment", "jobs", jobs, "text", text)
}

// holdJobs holds refused jobs, one after the other.
func (u undoing) holdJobs(refused []refusedJob) {
	ctx, cancel := context.WithTimeout(u.last, u.budget/failureShare)
	defer cancel()

	for _, r := range refused {
		u.holdJob(ctx, r)
	}
}

// holdJob puts a refused job back into the queue, held until its owner releases it; a job that Slurm cannot requeue is
// cancelled. Its owner is told first, so a held job has its reason even if the hook is killed.
func (u undoing) holdJob(ctx context.Context, r refusedJob) {
	p, _ := problemOf(r.err)
	note := capacity.AdminNote{
		Text: fmt.Sprintf("partition %s refuses this job: %s: %s", r.partition, p.Code, p.Text()),
	}
	told := note.String()
	was, _ := capacity.ParseAdminNote(r.jobs[0].AdminComment)
	note.Stated = was.Stated

	// Slurm keeps with the first component of a het job what sort of job it is.
	requeues := slices.ContainsFunc(r.jobs, func(j capacity.Job) bool { return j.Batch && j.Requeue })
	if requeues {
		note.Held = u.Now().Add(-u.Offset())
		note.Text += "; change it before you release it"
	}

	var nodes []string
	for _, j := range r.jobs {
		nodes = append(nodes, j.Nodes...)
	}

	u.record(state.Record{
		At:        u.Now(),
		Hook:      "resume",
		Partition: r.partition,
		Nodes:     hostlist.Compress(nodes),
		Jobs:      jobNames(r.jobs),
		Code:      string(p.Code),
		Message:   hook.OneLine(p.Text()),
	})

	u.notify(ctx, told, r.jobs...)
	u.setComment(ctx, note.String(), jobNames(r.jobs)...)

	if !requeues {
		_ = u.logResult(u.Cancel(ctx, r.name), "cancel", "job", r.name)
		return
	}

	// Held by root at first, so that it cannot start in between; then its owner can mend and release it.
	_, err := u.RequeueJob(ctx, r.jobs[0], true)
	if err == nil {
		err = u.UserHold(ctx, r.name)
	}

	_ = u.logResult(err, "requeue and hold until its owner releases it", "job", r.name)
}
