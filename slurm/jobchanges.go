package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Everything here changes jobs, which are named as squeue shows them ([capacity.Job.Shown]): "12", a task "12_3", the
// pending tasks "12_[4-9%2]", a component "12+1". What an id alone would change besides, see jobName.
//
// slurmctld can take a change and do something else, so each is read back, unless it says
// otherwise: a job that is still there and does not have it gives [ErrNoEffect].

// SetTimeLimit sets a job's limit to whole minutes, at least 1. Root may raise the limit of a running job, and Slurm
// does not check it against reservations or the partition. While a job is configuring, the minutes count from the end
// of its boot.
func (c *Client) SetTimeLimit(ctx context.Context, job string, minutes int) error {
	if minutes < 1 || minutes > capacity.MaxMinutes {
		return fmt.Errorf("setting the time limit of job %s: %d minutes are out of range (1 to %d)", job, minutes,
			capacity.MaxMinutes)
	}

	return c.changeJobs(ctx, []string{job}, "setting the time limit",
		func(j capacity.Job) bool { return j.TimeLimit == capacity.Minutes(minutes) }, "update", "jobid",
		"timelimit="+strconv.Itoa(minutes))
}

// Edit gives pending jobs, by their names, the limits and the constraint of their edits, each as far as it is set. All
// are read back in one call. The errors are by job; a job that has started or ended meanwhile is not one of them.
func (c *Client) Edit(ctx context.Context, edits map[string]capacity.Edits) map[string]error {
	failed := map[string]error{}
	for _, job := range slices.Sorted(maps.Keys(edits)) {
		e := edits[job]

		var args []string
		if e.TimeLimit.Bounded() {
			args = append(args, "timelimit="+strconv.Itoa(e.TimeLimit.Minutes))
		}

		if e.TimeMin.Bounded() {
			args = append(args, "timemin="+strconv.Itoa(e.TimeMin.Minutes))
		}

		if e.Constraint != "" {
			args = append(args, "features="+e.Constraint)
		}

		_, err := c.runOnJobs(ctx, []string{job}, "setting the time limit", "update", "jobid", args...)
		if err != nil && !errors.Is(err, ErrNoJob) {
			failed[job] = err
		}
	}

	// One squeue reads all of them back, however many there are.
	jobs, err := c.Jobs(ctx)
	for job, e := range edits {
		if failed[job] != nil {
			continue
		}

		if err != nil {
			failed[job] = fmt.Errorf("setting the time limit, job %s: reading it back: %w", job, err)
			continue
		}

		for _, now := range jobs {
			if now.Shown == job && now.Pending() && !hasEdits(now, e) {
				failed[job] = fmt.Errorf("setting the time limit, job %s: %w (%s, at least %s)", job, ErrNoEffect,
					now.TimeLimit, now.TimeMin)
			}
		}
	}

	return failed
}

func hasEdits(j capacity.Job, e capacity.Edits) bool {
	want := e.Apply(j)
	return j.TimeLimit == want.TimeLimit && j.TimeMin == want.TimeMin && j.Constraint == want.Constraint
}

// SetAdminComment replaces the AdminComment of jobs, which their users can see but
// not change. The text becomes one printable line of at most [MaxComment] bytes.
func (c *Client) SetAdminComment(ctx context.Context, text string, jobs ...string) error {
	text = Clean(text, MaxComment)
	return c.changeJobs(ctx, jobs, "setting the AdminComment",
		func(j capacity.Job) bool { return j.AdminComment == text }, "update", "jobid", "admincomment="+text)
}

// Notify writes a line to the standard error of a running job, or to the terminal of its srun. A pending job gives
// [ErrRefused]; one that has only just started may miss the message. It is not for a batch job that is configuring:
// slurmctld then looks for a slurmd that is not there, by the node's name, for a minute and more, and answers nobody
// else meanwhile (seen on 22.05).
func (c *Client) Notify(ctx context.Context, job, text string) error {
	text = Clean(text, MaxComment)
	if text == "" {
		return errors.New("notifying a job: the message is empty")
	}

	_, err := c.runOnJobs(ctx, []string{job}, "notifying", "notify", "", text)

	return err
}

// RequeueJob stops a job that has its nodes and puts it back in the queue: CONT and TERM, then KILL after KillWait.
// With hold it waits there until it is released. A job submitted with --no-requeue gives [ErrRefused], one of salloc or
// srun [ErrNotBatch]; one that is pending already is as it should be. Of a het job all components are requeued,
// whichever is named. An exit status says little, so it is read back: before is the job as it was seen, after is what
// became of it, without an id if Slurm has forgotten it.
func (c *Client) RequeueJob(ctx context.Context, before capacity.Job, hold bool) (after capacity.Job, err error) {
	verb := "requeue"
	if hold {
		verb = "requeuehold"
	}

	_, err = c.runOnJobs(ctx, []string{hetJobID(before.Shown)}, "requeueing", verb, "")
	after, read := c.Job(ctx, before.Shown)
	switch {
	case read != nil:
		return after, errors.Join(err, fmt.Errorf("requeueing job %s: reading it back: %w", before.Shown, read))
	case after.Pending():
		return after, nil // also if another one of the call was refused
	case err == nil && after.Shown != "" && after.State == before.State && after.Restarts == before.Restarts:
		return after, errors.New("the job still runs, although Slurm accepted the change")
	}

	return after, err
}

// ResumeJob lets a suspended job run again. Slurm gives it back the priority that it took.
func (c *Client) ResumeJob(ctx context.Context, job string) error {
	_, err := c.runOnJobs(ctx, []string{job}, "resuming", "resume", "")
	return err
}

// Cancel ends jobs. Of a het job all components end, whichever is named. Nothing is read back here.
func (c *Client) Cancel(ctx context.Context, jobs ...string) error {
	var args []string
	for _, job := range jobs {
		name, err := parseJobName(hetJobID(job))
		if err != nil {
			return fmt.Errorf("cancelling: %w", err)
		}

		args = append(args, name.argument)
	}

	if _, err := c.run(ctx, "scancel", args...); err != nil {
		return fmt.Errorf("cancelling job %s: %w", strings.Join(jobs, ","), err)
	}

	return nil
}

// hetJobID returns the id that requeue takes: it does not know a component ("Invalid job id").
func hetJobID(job string) string {
	whole, _, _ := strings.Cut(job, "+")
	return whole
}

// UserHold keeps pending jobs from starting until their owner, or an administrator, releases them. A requeued job has a
// begin time for some seconds or minutes, and when that has passed Slurm takes the hold for an administrator's (seen on
// 24.11); so the begin time is taken away first.
func (c *Client) UserHold(ctx context.Context, jobs ...string) error {
	if _, err := c.runOnJobs(ctx, jobs, "holding", "update", "jobid", "starttime=now"); err != nil {
		return err
	}
	return c.changeJobs(ctx, jobs, "holding", func(j capacity.Job) bool { return j.Held }, "uhold", "")
}

// SetBeginTime keeps a pending job from starting before a time, in whole seconds.
// squeue's start is no proof: a job that was requeued shows that of its last run at first. Its eligible time is.
func (c *Client) SetBeginTime(ctx context.Context, job string, at time.Time) error {
	return c.changeJobs(ctx, []string{job}, "setting the begin time",
		func(j capacity.Job) bool { return j.Eligible.Unix() == at.Unix() }, "update", "jobid",
		fmt.Sprintf("starttime=uts%d", at.Unix()))
}

// Release undoes a hold.
func (c *Client) Release(ctx context.Context, job string) error {
	return c.changeJobs(ctx, []string{job}, "releasing", func(j capacity.Job) bool { return !j.Held }, "release", "")
}

// changeJobs runs scontrol once for jobs and reads them back: took says whether a job has the change.
func (c *Client) changeJobs(
	ctx context.Context, jobs []string, what string, took func(capacity.Job) bool, verb, key string, args ...string,
) error {
	// slurmctld takes some changes and does not make them, so the jobs are read back.
	names, err := c.runOnJobs(ctx, jobs, what, verb, key, args...)
	if err != nil {
		return err
	}

	rows, bases := map[string]bool{}, make([]string, len(names))
	for i, name := range names {
		bases[i] = name.base
		for _, row := range name.rows {
			rows[row] = true
		}
	}

	without := ""
	err = c.eachJob(ctx, allFields, func(j capacity.Job) error {
		if whole, _, _ := strings.Cut(j.Shown, "+"); (rows[j.Shown] || rows[whole]) && !took(j) {
			without = j.Shown
		}
		return nil
	}, "--array", "--jobs="+strings.Join(bases, ","))
	switch {
	case errors.Is(err, ErrNoJob): // it has ended and is forgotten
	case err != nil:
		return fmt.Errorf("%s, job %s: reading it back: %w", what, strings.Join(jobs, ","), err)
	case without != "":
		return fmt.Errorf("%s, job %s: %w", what, without, ErrNoEffect)
	}

	return nil
}

// runOnJobs runs scontrol VERB [KEY=]JOB,JOB… ARGS. The "--" keeps a text that begins with a
// hyphen from being read as an option. If one job does not take the change, the others do.
func (c *Client) runOnJobs(
	ctx context.Context, jobs []string, what, verb, key string, args ...string,
) ([]jobName, error) {
	var (
		names     []jobName
		arguments []string
	)
	for _, job := range jobs {
		name, err := parseJobName(job)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}

		names, arguments = append(names, name), append(arguments, name.argument)
	}

	argument := strings.Join(arguments, ",")
	if key != "" {
		argument = key + "=" + argument
	}

	_, err := c.run(ctx, "scontrol", append([]string{"--", verb, argument}, args...)...)
	for range maxRetries {
		if !errors.Is(err, errTransient) {
			break
		}

		_, err = c.run(ctx, "scontrol", append([]string{"--", verb, argument}, args...)...)
	}

	if err != nil {
		return names, fmt.Errorf("%s, job %s: %w", what, strings.Join(jobs, ","), err)
	}

	return names, nil
}

// maxRetries limits how often a refused change is repeated. slurmctld 24.11.5 and 26.05.5 refuse a change of the
// partition of a pending job at random, two times out of three, with an error that something
// else of its thread has left behind; it has changed nothing then.
const maxRetries = 30

// jobName is a job under the name by which scontrol changes it and nothing else. The id alone is not such a name: that
// of an array's last task is the whole array's, and that of a het job's first component the whole het job's.
type jobName struct {
	base     string   // the id before the task or the component
	argument string   // what scontrol takes
	rows     []string // what squeue --array shows of it: one job, or each task
}

var (
	jobPattern   = lazyRegexp(`^([1-9][0-9]{0,9})(?:[_+][0-9]{1,9})?$`)
	tasksPattern = lazyRegexp(`^([1-9][0-9]{0,9})_(\[[0-9,-]+)(?:%[0-9]+)?\]$`)
)

// parseJobName reads a job's name as squeue shows it: "12", "12_3", "12+1", or the tasks
// of an array that are still pending together, "12_[1-4,7%2]".
func parseJobName(shown string) (jobName, error) {
	if parts := jobPattern().FindStringSubmatch(shown); parts != nil {
		return jobName{base: parts[1], argument: shown, rows: []string{shown}}, nil
	}

	if parts := tasksPattern().FindStringSubmatch(shown); parts != nil {
		// Without what follows the "%": that is how many may run at a time, which scontrol does not take here.
		argument := parts[1] + "_" + parts[2] + "]"

		rows, err := hostlist.Expand(argument)
		if err != nil {
			return jobName{}, fmt.Errorf("job %s: %w", quote(shown), err)
		}

		return jobName{base: parts[1], argument: argument, rows: rows}, nil
	}

	return jobName{}, fmt.Errorf("job %s: write it as squeue shows it: 12, 12_3, 12+1 or 12_[1-4]", quote(shown))
}
