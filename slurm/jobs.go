package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Job is one record of squeue: a job, a task of an array, the tasks of an
// array that are still pending together, or one component of a heterogeneous
// job.
//
// Name and Comment hold what a user typed, and a user can change the comment,
// a pending job's limit and its partition at any time. They may hold newlines;
// bytes that are not UTF-8 are U+FFFD.
type Job struct {
	ID           int    // unique; what scontrol takes
	ArrayJobID   int    // 0: not an array
	ArrayTaskID  int    // -1: not one task
	ArrayTasks   string // the pending tasks, such as "1-4%2"
	HetJobID     int    // 0: not heterogeneous
	HetOffset    int
	Partition    string // several with commas, as long as the job is pending
	Account      string
	UserID       int
	User         string // as the machine that runs squeue knows it
	Name         string
	Comment      string
	AdminComment string
	State        string   // base state: PENDING, RUNNING, COMPLETED, …; unknown ones as they are
	StateFlags   []string // CONFIGURING, COMPLETING, POWER_UP_NODE, REQUEUED, …
	Reason       string   // why it is pending; texts differ by version
	TimeLimit    capacity.Limit
	TimeMin      capacity.Limit // --time-min
	Submit       time.Time
	Eligible     time.Time
	Start        time.Time // of a pending job: Slurm's estimate, zero if it has none
	End          time.Time // Start + TimeLimit until it has ended
	Restarts     int
	Held         bool // priority 0
	Requeue      bool // may be requeued
	Batch        bool
	Nodes        string // hostlist; empty while pending
	NumNodes     int
	Features     string // --constraint
	Reservation  string // the Slurm reservation that it asked for
}

// Pending is true for a job that waits for its start and holds no node. A
// requeued job is not pending until its last run has cleaned up.
func (j Job) Pending() bool { return j.State == "PENDING" && !j.Completing() }

// Completing is true for a job whose run is over and whose nodes still clean
// up. Newer versions show how it ended in State; 22.05 shows COMPLETING there.
func (j Job) Completing() bool { return slices.Contains(j.StateFlags, "COMPLETING") }

// Configuring is true for a job that has its nodes, of which some still boot.
func (j Job) Configuring() bool { return slices.Contains(j.StateFlags, "CONFIGURING") }

// Running is true for a job whose program runs: it has booted its nodes and
// Start is when that was. Suspended jobs are not running.
func (j Job) Running() bool { return j.State == "RUNNING" && !j.Configuring() }

// Active is true for a job that holds nodes, or will: it has not ended, or is
// still completing.
func (j Job) Active() bool {
	switch j.State {
	case "PENDING", "RUNNING", "SUSPENDED":
		return true
	}
	return j.Completing()
}

// DisplayID is the id as squeue shows it: "12", "12_3" or "12+1".
func (j Job) DisplayID() string {
	switch {
	case j.HetJobID != 0:
		return fmt.Sprintf("%d+%d", j.HetJobID, j.HetOffset)
	case j.ArrayJobID != 0 && j.ArrayTaskID >= 0:
		return fmt.Sprintf("%d_%d", j.ArrayJobID, j.ArrayTaskID)
	case j.ArrayJobID != 0 && j.ArrayTasks != "":
		return fmt.Sprintf("%d_[%s]", j.ArrayJobID, j.ArrayTasks)
	}
	return strconv.Itoa(j.ID)
}

// Elapsed is how long a job has held its nodes; zero before its start. Time in
// suspension is not taken off.
func (j Job) Elapsed(now time.Time) time.Duration {
	if j.Pending() || j.Start.IsZero() || j.Start.After(now) {
		return 0
	}
	return now.Sub(j.Start)
}

// Jobs returns all jobs that slurmctld knows, in one call. Slurm 22.05 also
// shows jobs that ended within MinJobAge (5 minutes); see [Job.Active]. There
// squeue ignores --jobs together with --json, so callers pick by id.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	out, err := c.run(ctx, "squeue", "--all", "--json")
	if err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	jobs, err := parseJobs(out)
	if err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	return jobs, nil
}

// SetTimeLimit sets a job's limit to whole minutes, at least 1. Root may raise
// the limit of a running job, and Slurm does not check it against reservations
// or the partition. While a job is configuring, the minutes count from the end
// of its boot.
func (c *Client) SetTimeLimit(ctx context.Context, job, minutes int) error {
	if minutes < 1 || minutes > maxMinutes {
		return fmt.Errorf("setting the time limit of job %d: %d minutes are out of range (1 to %d)", job, minutes, maxMinutes)
	}
	return c.onJob(ctx, job, "setting the time limit", "update", jobArgument(job), "timelimit="+strconv.Itoa(minutes))
}

// SetAdminComment replaces the job's AdminComment, which its user can see but
// not change. The text becomes one printable line of at most [MaxComment] bytes.
func (c *Client) SetAdminComment(ctx context.Context, job int, text string) error {
	return c.onJob(ctx, job, "setting the AdminComment", "update", jobArgument(job), "admincomment="+Clean(text, MaxComment))
}

// Notify writes a line to the standard error of a running job, or to the
// terminal of its srun. A pending job gives [ErrRefused]; one that has only just
// started may miss the message. It is not for a batch job that is configuring:
// slurmctld then looks for a slurmd that is not there, by the node's name, for a minute
// and more, and answers nobody else meanwhile (seen on 22.05).
func (c *Client) Notify(ctx context.Context, job int, text string) error {
	text = Clean(text, MaxComment)
	if text == "" {
		return errors.New("notifying a job: the message is empty")
	}
	return c.onJob(ctx, job, "notifying", "notify", strconv.Itoa(job), text)
}

// Requeue stops a job and puts it back in the queue: CONT and TERM, then KILL
// after KillWait. A job submitted with --no-requeue gives [ErrRefused], one
// of salloc or srun [ErrNotBatch], a pending one [ErrJobPending].
func (c *Client) Requeue(ctx context.Context, job int) error {
	return c.onJob(ctx, job, "requeueing", "requeue", strconv.Itoa(job))
}

// RequeueHold requeues a job so that it does not start again by itself.
func (c *Client) RequeueHold(ctx context.Context, job int) error {
	return c.onJob(ctx, job, "requeueing held", "requeuehold", strconv.Itoa(job))
}

// Hold keeps a pending job from starting until an administrator releases it.
func (c *Client) Hold(ctx context.Context, job int) error {
	return c.onJob(ctx, job, "holding", "hold", strconv.Itoa(job))
}

// UserHold keeps a pending job from starting until its owner, or an administrator,
// releases it. A requeued job has a begin time for some seconds or minutes, and when that
// has passed Slurm takes the hold for an administrator's (seen on 24.11); so the begin
// time is taken away first.
func (c *Client) UserHold(ctx context.Context, job int) error {
	if err := c.onJob(ctx, job, "holding", "update", jobArgument(job), "starttime=now"); err != nil {
		return err
	}
	return c.onJob(ctx, job, "holding", "uhold", strconv.Itoa(job))
}

// Release undoes [Client.Hold] and [Client.RequeueHold].
func (c *Client) Release(ctx context.Context, job int) error {
	return c.onJob(ctx, job, "releasing", "release", strconv.Itoa(job))
}

func jobArgument(job int) string { return "jobid=" + strconv.Itoa(job) }

// onJob runs scontrol for one job. The "--" keeps a text that begins with a
// hyphen from being read as an option.
func (c *Client) onJob(ctx context.Context, job int, what string, args ...string) error {
	if job <= 0 {
		return fmt.Errorf("%s, job %d: job ids are positive", what, job)
	}
	if _, err := c.run(ctx, "scontrol", append([]string{"--"}, args...)...); err != nil {
		return fmt.Errorf("%s, job %d: %w", what, job, err)
	}
	return nil
}
