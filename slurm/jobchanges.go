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
)

// Everything here changes one job, which is named as squeue shows it ([Job.DisplayID]):
// "12", a task "12_3", the pending tasks "12_[4-9%2]", a component "12+1". What an id
// alone would change besides, see jobName.
//
// slurmctld can take a change and do something else, so each is read back: a job that is
// still there and does not have it gives [ErrNoEffect].

// SetTimeLimit sets a job's limit to whole minutes, at least 1. Root may raise
// the limit of a running job, and Slurm does not check it against reservations
// or the partition. While a job is configuring, the minutes count from the end
// of its boot.
func (c *Client) SetTimeLimit(ctx context.Context, job string, minutes int) error {
	if minutes < 1 || minutes > maxMinutes {
		return fmt.Errorf("setting the time limit of job %s: %d minutes are out of range (1 to %d)", job, minutes, maxMinutes)
	}
	return c.change(ctx, job, "setting the time limit", "%l", func(text string) bool {
		limit, err := ParseLimit(text)
		return err == nil && limit == capacity.Minutes(minutes)
	}, "update", "jobid", "timelimit="+strconv.Itoa(minutes))
}

// Edit gives pending jobs, by their names, the limits, the comment and the constraint of
// their edits, each as far as it is set. All are read back in one call, because squeue can
// show a --time-min in no other way. The errors are by job; a job that has started or ended
// meanwhile is not one of them.
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
		if e.Comment != "" {
			args = append(args, "comment="+e.Comment)
		}
		if e.Constraint != "" {
			args = append(args, "features="+e.Constraint)
		}
		if _, err := c.onJob(ctx, job, "setting the time limit", "update", "jobid", args...); err != nil && !errors.Is(err, ErrNoJob) {
			failed[job] = err
		}
	}
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
			if now.DisplayID() == job && now.Pending() && !now.has(e) {
				failed[job] = fmt.Errorf("setting the time limit, job %s: %w (%s, at least %s)", job, ErrNoEffect, now.TimeLimit, now.TimeMin)
			}
		}
	}
	return failed
}

// has reports whether a job has what edits set.
func (j Job) has(e capacity.Edits) bool {
	return (!e.TimeLimit.Bounded() || j.TimeLimit == e.TimeLimit) && (!e.TimeMin.Bounded() || j.TimeMin == e.TimeMin) &&
		(e.Comment == "" || j.Comment == e.Comment) && (e.Constraint == "" || j.Features == e.Constraint)
}

// SetAdminComment replaces the job's AdminComment, which its user can see but
// not change. The text becomes one printable line of at most [MaxComment] bytes.
func (c *Client) SetAdminComment(ctx context.Context, job, text string) error {
	text = Clean(text, MaxComment)
	name, err := c.onJob(ctx, job, "setting the AdminComment", "update", "jobid", "admincomment="+text)
	if err != nil {
		return err
	}
	// squeue calls this field by another name in each version, scontrol does not.
	out, err := c.run(ctx, "scontrol", "--oneliner", "--", "show", "job", name.rows[0])
	switch {
	case errors.Is(err, ErrNoJob):
		return nil // it has ended and is forgotten
	case err != nil:
		return fmt.Errorf("reading back the AdminComment of job %s: %w", job, err)
	case !strings.Contains(string(out), " AdminComment="+text):
		return fmt.Errorf("setting the AdminComment, job %s: %w", job, ErrNoEffect)
	}
	return nil
}

// Notify writes a line to the standard error of a running job, or to the
// terminal of its srun. A pending job gives [ErrRefused]; one that has only just
// started may miss the message. It is not for a batch job that is configuring:
// slurmctld then looks for a slurmd that is not there, by the node's name, for a minute
// and more, and answers nobody else meanwhile (seen on 22.05).
func (c *Client) Notify(ctx context.Context, job, text string) error {
	text = Clean(text, MaxComment)
	if text == "" {
		return errors.New("notifying a job: the message is empty")
	}
	_, err := c.onJob(ctx, job, "notifying", "notify", "", text)
	return err
}

// Requeue stops a job and puts it back in the queue: CONT and TERM, then KILL
// after KillWait. A job submitted with --no-requeue gives [ErrRefused], one
// of salloc or srun [ErrNotBatch], a pending one [ErrJobPending]. Of a het job all
// components are requeued, whichever is named.
func (c *Client) Requeue(ctx context.Context, job string) error {
	_, err := c.onJob(ctx, wholeHetJob(job), "requeueing", "requeue", "")
	return err
}

// RequeueHold requeues a job so that it does not start again by itself.
func (c *Client) RequeueHold(ctx context.Context, job string) error {
	_, err := c.onJob(ctx, wholeHetJob(job), "requeueing held", "requeuehold", "")
	return err
}

// wholeHetJob is what requeue takes: it does not know a component ("Invalid job id").
func wholeHetJob(job string) string {
	whole, _, _ := strings.Cut(job, "+")
	return whole
}

// Hold keeps a pending job from starting until an administrator releases it.
func (c *Client) Hold(ctx context.Context, job string) error {
	return c.change(ctx, job, "holding", "%Q", isHeld, "hold", "")
}

// UserHold keeps a pending job from starting until its owner, or an administrator,
// releases it. A requeued job has a begin time for some seconds or minutes, and when that
// has passed Slurm takes the hold for an administrator's (seen on 24.11); so the begin
// time is taken away first.
func (c *Client) UserHold(ctx context.Context, job string) error {
	if _, err := c.onJob(ctx, job, "holding", "update", "jobid", "starttime=now"); err != nil {
		return err
	}
	return c.change(ctx, job, "holding", "%Q", isHeld, "uhold", "")
}

// isHeld reads a priority: 0 is a held job's.
func isHeld(priority string) bool { return priority == "0" }

// Begin keeps a pending job from starting before a time, in whole seconds.
func (c *Client) Begin(ctx context.Context, job string, at time.Time) error {
	return c.change(ctx, job, "setting the begin time", "%S", func(start string) bool {
		seconds, err := strconv.ParseInt(start, 10, 64) // Slurm's estimate, which is not before
		return err == nil && seconds >= at.Unix()
	}, "update", "jobid", fmt.Sprintf("starttime=uts%d", at.Unix()))
}

// Release undoes [Client.Hold] and [Client.RequeueHold].
func (c *Client) Release(ctx context.Context, job string) error {
	return c.change(ctx, job, "releasing", "%Q", func(p string) bool { return !isHeld(p) }, "release", "")
}

// change runs scontrol for one job and reads the result back: field is squeue's format
// of what the change must show in, which no user can write a text of his own into.
func (c *Client) change(ctx context.Context, job, what, field string, took func(text string) bool, verb, key string, args ...string) error {
	name, err := c.onJob(ctx, job, what, verb, key, args...)
	if err != nil {
		return err
	}
	out, err := c.run(ctx, "squeue", "--all", "--noheader", "--array", "--jobs="+name.base, "--format=%i|"+field)
	switch {
	case errors.Is(err, ErrNoJob):
		return nil // it has ended and is forgotten
	case err != nil:
		return fmt.Errorf("%s, job %s: reading it back: %w", what, job, err)
	}
	there := map[string]string{}
	for line := range strings.SplitSeq(string(out), "\n") {
		row, text, _ := strings.Cut(line, "|")
		there[row] = text
	}
	for _, row := range name.rows {
		if text, ok := there[row]; ok && !took(text) {
			return fmt.Errorf("%s, job %s: %w (%s)", what, row, ErrNoEffect, quote(text))
		}
	}
	return nil
}

// onJob runs scontrol VERB [KEY=]JOB ARGS. The "--" keeps a text that begins with a
// hyphen from being read as an option.
func (c *Client) onJob(ctx context.Context, job, what, verb, key string, args ...string) (jobName, error) {
	name, err := parseJobName(job)
	if err != nil {
		return name, fmt.Errorf("%s: %w", what, err)
	}
	argument := name.argument
	if key != "" {
		argument = key + "=" + argument
	}
	if _, err := c.run(ctx, "scontrol", append([]string{"--", verb, argument}, args...)...); err != nil {
		return name, fmt.Errorf("%s, job %s: %w", what, job, err)
	}
	return name, nil
}
