package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	ID           int    // unique; to change a job, name it by its DisplayID
	ArrayJobID   int    // 0: not an array
	ArrayTaskID  int    // -1: not one task
	ArrayTasks   string // the pending tasks, such as "1-4%2"
	HetJobID     int    // 0: not heterogeneous
	HetOffset    int
	Partition    string // several with commas, as long as the job is pending
	Account      string
	QOS          string
	UserID       int
	User         string // as the machine that runs squeue knows it
	Name         string
	Comment      string
	AdminComment string
	State        string   // base state: PENDING, RUNNING, COMPLETED, …; unknown ones as they are
	StateFlags   []string // CONFIGURING, COMPLETING, POWER_UP_NODE, REQUEUED, …
	Reason       string   // why it is pending: Slurm's code or, if it has one, its sentence; they differ by version
	TimeLimit    capacity.Limit
	TimeMin      capacity.Limit // --time-min
	Submit       time.Time
	Eligible     time.Time
	Start        time.Time // of a pending job: Slurm's estimate, zero if it has none
	End          time.Time // Start + TimeLimit until it has ended
	Deadline     time.Time // --deadline; zero if none
	Restarts     int
	Held         bool // priority 0
	Requeue      bool // may be requeued
	Batch        bool
	Nodes        string // hostlist; empty while pending
	NumNodes     int
	Features     string        // --constraint
	Reservation  string        // the Slurm reservation that it asked for
	TRES         capacity.TRES // what it holds; of Held alone
}

// Pending is true for a job that waits for its start and holds no node. A
// requeued job is not pending until its last run has cleaned up.
func (j Job) Pending() bool { return j.State == "PENDING" && !j.Completing() }

// Completing is true for a job whose run is over and whose nodes still clean
// up. State is COMPLETING then too: squeue does not say how the job ended.
func (j Job) Completing() bool { return slices.Contains(j.StateFlags, "COMPLETING") }

// Settled is true for a pending job of whose last run nothing is left: one that was
// requeued keeps the start of that run, or "Cleaning" as its reason, until its
// PrologSlurmctld has ended and its nodes are free (seen on 22.05). Only then is a hold what
// it stays.
func (j Job) Settled() bool {
	return j.Pending() && j.Reason != "Cleaning" && (!j.Held || j.Start.IsZero())
}

// HoldUntold is true for a job that was requeued held, as long as Slurm says no more than that:
// up to 24.11 until its last run is cleaned up, on 22.05 also for ever. Whose hold it is only
// slurmctld knows then.
func (j Job) HoldUntold() bool {
	return j.Held && strings.ReplaceAll(j.Reason, "_", " ") == "job requeued in held state"
}

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

// endedStates are the base states of jobs that have ended: JOB STATE CODES of squeue(1).
var endedStates = []string{"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}

// Ended is true for a job that is over and whose nodes are clean.
func (j Job) Ended() bool { return slices.Contains(endedStates, j.State) && !j.Completing() }

// DisplayID is the id as squeue shows it: "12", "12_3", "12+1" or, for tasks that are
// pending together, "12_[1-4%2]". It is what changes of a job take, and names nothing
// beside it: the last task of array 12 has the id 12, and so has the array.
func (j Job) DisplayID() string {
	switch {
	case j.HetJobID != 0:
		return strconv.Itoa(j.HetJobID) + "+" + strconv.Itoa(j.HetOffset)
	case j.ArrayJobID != 0 && j.ArrayTaskID >= 0:
		return strconv.Itoa(j.ArrayJobID) + "_" + strconv.Itoa(j.ArrayTaskID)
	case j.ArrayJobID != 0 && j.ArrayTasks != "":
		return strconv.Itoa(j.ArrayJobID) + "_[" + j.ArrayTasks + "]"
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

// Jobs returns all jobs that have not ended, by their ids, in one call.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) { return c.jobs(ctx, allFields) }

// BriefJobs is Jobs for who cannot wait for all of it, in three quarters of the time: of
// each job there are ID and what DisplayID shows, Account, Partition, Comment, AdminComment,
// State and StateFlags, TimeLimit, Eligible, Restarts, Requeue, Batch and Nodes, and no more.
func (c *Client) BriefJobs(ctx context.Context) ([]Job, error) { return c.jobs(ctx, briefFields) }

// NamedNodes are the nodes that a job must have and those that it must not, as hostlists; "" is
// none. It asks about one job: few name nodes.
func (c *Client) NamedNodes(ctx context.Context, job string) (required, excluded string, err error) {
	name, err := parseJobName(job)
	if err != nil {
		return "", "", fmt.Errorf("reading the nodes that a job names: %w", err)
	}
	out, err := c.run(ctx, "squeue", "--all", "--noheader", "--jobs="+name.base, "--format=%n|%x")
	if err != nil {
		return "", "", fmt.Errorf("reading the nodes that job %s names: %w", job, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	required, excluded, _ = strings.Cut(strings.ReplaceAll(line, "(null)", ""), "|")
	return required, excluded, nil
}

func (c *Client) jobs(ctx context.Context, fields jobFields) ([]Job, error) {
	jobs := []Job{}
	if err := c.eachJob(ctx, fields, func(j Job) error { jobs = append(jobs, j); return nil }); err != nil {
		return nil, err
	}
	return jobs, nil
}

// EachJob takes the jobs of the partitions, or of all if none is given, that have not ended, and
// those that have ended within MinJobAge (slurm.conf(5): 5 minutes unless set), in one call, by
// their ids; tasks of an array come one after the other. A job that waits for one of several
// partitions is among those of each. A requeued job is among those that have ended only when its
// last run has. After an error, which may be that of take, what was taken is not all. Name, Submit
// and UserID are not asked for.
func (c *Client) EachJob(ctx context.Context, partitions []string, take func(Job) error) error {
	more := []string{"--states=all"}
	if len(partitions) > 0 {
		more = append(more, "--partition="+strings.Join(partitions, ","))
	}
	return c.eachJob(ctx, eachFields, take, more...)
}

func (c *Client) eachJob(ctx context.Context, fields jobFields, take func(Job) error, more ...string) error {
	mark := newMark()
	r := jobReader{fields: fields, mark: []byte(mark), take: take}
	err := c.runInto(ctx, &r, []string{"SQUEUE_FORMAT2=" + fields.format(mark)}, "squeue", append([]string{"--all", "--noheader", "--noconvert", "--sort=i"}, more...)...)
	if err = r.end(err); err != nil {
		return fmt.Errorf("listing jobs: %w", err)
	}
	return nil
}
