package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Job is one record of squeue: a job, a task of an array, the tasks of an array that are still pending together, or
// one component of a heterogeneous job.
//
// Name and Comment hold text that a user typed. A user can change the comment, a pending job's limit and its
// partition at any time. The text may hold newlines; bytes that are not UTF-8 are U+FFFD.
type Job struct {
	// ID is unique, except that the last task of an array has the id of the whole array. Shown is the id as squeue
	// shows it: "12", "12_3", "12+1" or, for tasks that are pending together, "12_[1-4%2]". Every change names the job
	// by Shown.
	ID           int
	Shown        string
	HetJobID     int    // of the whole heterogeneous job; 0: not heterogeneous
	Partition    string // a comma-separated list while the job is pending
	Account      string
	QOS          string
	User         string // as the machine that runs squeue knows it
	Comment      string
	AdminComment string // written by administrators and programs such as ours, for the job's owner
	State        string // base state: PENDING, RUNNING, COMPLETED, …; unknown ones verbatim
	StateFlag    string // the one flag that squeue shows: CONFIGURING, COMPLETING, REQUEUED, …
	Reason       string // why it is pending: Slurm's code or, if there is one, its sentence; they differ by version
	TimeLimit    Limit
	TimeMin      Limit     // --time-min
	Eligible     time.Time // the earliest start, such as --begin
	Start        time.Time // of a pending job: Slurm's estimate, zero if it has none
	End          time.Time // Start + TimeLimit until the job has ended; not final while it is Configuring
	Deadline     time.Time // --deadline; zero if none
	Restarts     int
	Held         bool // priority 0: someone has to release it
	Requeue      bool // false: --no-requeue
	Batch        bool // from sbatch: no terminal, and Slurm can requeue it
	Nodes        []string
	NumNodes     int    // the requested nodes, as Slurm counts them
	Constraint   string // --constraint
	Reservation  string // the requested Slurm reservation
	Unread       string // what squeue shows and nobody can read; "" if the rest of this is all
}

// Batch is a batch job over whole nodes, for root in a Slurm reservation of his.
type Batch struct {
	Name        string
	Partition   string
	Account     string // "" for root's default
	Reservation string
	Nodes       []string
	Minutes     int
	Script      string // begins with #!
}

// ResumeJob is a job for which slurmctld powers nodes up, as SLURM_RESUME_FILE tells ResumeProgram. The file never
// carries the job's comment or account: ask squeue for those.
type ResumeJob struct {
	ID    int
	Nodes []string // those to power up
}

// Pending reports whether the job waits for its start and holds no node. A requeued job is not pending until its last
// run has been cleaned up.
func (j Job) Pending() bool { return j.State == "PENDING" }

// DependencyNeverSatisfied is Slurm's reason for a job that stays pending until its owner changes or cancels it: one
// that it depends on did not end as --dependency demands.
const DependencyNeverSatisfied = "DependencyNeverSatisfied"

// CanStart reports whether the job is pending and Slurm may start it some time as it is, or after a release.
func (j Job) CanStart() bool { return j.Pending() && j.Reason != DependencyNeverSatisfied }

// Completing reports whether the job's run is over while its nodes still clean up. State is COMPLETING too: squeue does
// not show how the job ended.
func (j Job) Completing() bool { return j.StateFlag == "COMPLETING" }

// LacksNodes reports whether the job waits for nodes, or behind jobs that do, as far as Slurm's reason shows.
func (j Job) LacksNodes() bool {
	return slices.ContainsFunc([]string{"Resources", "Priority", "ReqNodeNotAvail", "Nodes required for job are DOWN"},
		func(reason string) bool { return strings.HasPrefix(j.plainReason(), reason) })
}

// PendingTasks returns the number of tasks that the job stands for, at most as many as may run at a time: squeue shows
// the pending tasks of an array as one job. It is 1 for any other job.
func (j Job) PendingTasks() int {
	_, list, together := strings.Cut(j.Shown, "_[")
	if !together {
		return 1
	}

	list, limit, limited := strings.Cut(strings.TrimSuffix(list, "]"), "%")

	tasks, _ := hostlist.Expand("[" + list + "]")
	if most, err := strconv.Atoi(limit); limited && err == nil {
		return max(1, min(most, len(tasks)))
	}

	return max(1, len(tasks))
}

// ArrayID returns the id of the job's array; ID for a job of none.
func (j Job) ArrayID() int {
	array, _, _ := strings.Cut(j.Shown, "_")
	if id, err := strconv.Atoi(array); err == nil {
		return id
	}

	return j.ID
}

// Settled reports whether the job is pending and its last run has left nothing behind. On 22.05 a requeued job keeps
// the start of its last run, or "Cleaning" as its reason, until PrologSlurmctld has ended and its nodes are free. Until
// then Slurm may change a hold.
func (j Job) Settled() bool {
	return j.Pending() && j.Reason != "Cleaning" && (!j.Held || j.Start.IsZero())
}

// HeldByAdmin reports whether an administrator holds the job, as far as Slurm's reason shows: neither its owner nor
// Slurm.
func (j Job) HeldByAdmin() bool {
	_, slurms := j.HeldBySlurm()
	return j.Held && j.Reason != "JobHeldUser" && !slurms
}

// HeldByUnknown reports whether the job was requeued held and Slurm does not say whose hold it is: up to 24.11 until
// the last run is cleaned up, on 22.05 possibly forever. Meanwhile only slurmctld knows whose hold it is.
func (j Job) HeldByUnknown() bool {
	return j.Held && j.plainReason() == "job requeued in held state"
}

// plainReason returns the reason without the underscores that some versions write for spaces.
func (j Job) plainReason() string { return strings.ReplaceAll(j.Reason, "_", " ") }

// Configuring reports whether the job has its nodes while some of them still boot.
func (j Job) Configuring() bool { return j.StateFlag == "CONFIGURING" }

// Running reports whether the job's program runs: its nodes have booted, and Start is when they had. A suspended job is
// not running.
func (j Job) Running() bool { return j.State == "RUNNING" && !j.Configuring() }

// IsPreempted reports whether the job is about to be preempted: Slurm has told it to end within GraceTime, before its
// limit, and refuses to change that.
func (j Job) IsPreempted() bool {
	return j.Running() && j.TimeLimit.Bounded() && j.Start.Add(j.TimeLimit.Duration()).Sub(j.End) > time.Second
}

// Allocated reports whether the job holds nodes, booted or not.
func (j Job) Allocated() bool { return j.State == "RUNNING" || j.State == "SUSPENDED" }

// Active reports whether the job holds nodes or will hold them: it has not ended, or is still completing.
func (j Job) Active() bool { return j.Pending() || j.Allocated() || j.Completing() }

// Revoked is the state of a job that another cluster of the federation runs: it does not wait here.
const Revoked = "REVOKED"

// EndedStates lists the base states of jobs that have ended here: JOB STATE CODES of squeue(1).
var EndedStates = []string{
	"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
	"PREEMPTED", Revoked, "TIMEOUT",
}

// Ended reports whether the job is over and its nodes are cleaned up.
func (j Job) Ended() bool { return slices.Contains(EndedStates, j.State) && !j.Completing() }

// CanRequeue reports whether Slurm can requeue the job.
func (j Job) CanRequeue() bool { return j.Batch && j.Requeue }

// InPartition reports whether the job runs or waits in a partition, perhaps in others too. It takes a pointer because
// callers ask it for many jobs: a copy costs more than the answer.
func (j *Job) InPartition(partition string) bool {
	for name := range strings.SplitSeq(j.Partition, ",") {
		if name == partition {
			return true
		}
	}

	return false
}

// HasID reports whether name means this job: 7, 7_3, or 7 for every part of an array or a heterogeneous job.
func (j Job) HasID(name string) bool {
	return j.Shown == name || strings.HasPrefix(j.Shown, name+"_") || strings.HasPrefix(j.Shown, name+"+")
}

// Partitions lists the partitions that the job runs in or may start in.
func (j Job) Partitions() []string { return strings.Split(j.Partition, ",") }

// Hostlist returns the job's nodes as a hostlist: gpu-[1-4].
func (j Job) Hostlist() string { return hostlist.Compress(j.Nodes) }

// Request returns the job as Admit takes it, with times in AWS's clock.
func (s *Snapshot) Request(j Job) Request {
	j = j.ShiftTimes(s.ClockOffset.Duration)

	return Request{
		Partitions:   j.Partitions(),
		Account:      j.Account,
		AccountKnown: true,
		User:         j.User,
		QOS:          j.QOS,
		Comment:      j.Comment,
		TimeLimit:    j.TimeLimit,
		TimeMin:      j.TimeMin,
		Begin:        j.Eligible,
		Deadline:     j.Deadline,
		Nodes:        j.NumNodes,
		Counted:      true,
		Constraint:   j.Constraint,
		Reservation:  j.Reservation,
		Requeue:      j.requeue(),
	}
}

func (j Job) requeue() Requeue {
	switch {
	case !j.Batch:
		return RequeueNever
	case !j.Requeue:
		return RequeueNo
	}

	return ""
}

// ShiftTimes returns the job with its times in a clock that is offset ahead: AWS's instead of Slurm's.
func (j Job) ShiftTimes(offset time.Duration) Job {
	for _, t := range []*time.Time{&j.Eligible, &j.Start, &j.End, &j.Deadline} {
		if !t.IsZero() {
			*t = t.Add(offset)
		}
	}

	return j
}

// OnEnd says what happens to a job that still runs shortly before its reservation's fence.
type OnEnd string

// The values.
const (
	StopAtEnd    OnEnd = "stop"    // its time limit ends it
	RequeueAtEnd OnEnd = "requeue" // it waits in the queue for the next block
	HoldAtEnd    OnEnd = "hold"    // like requeue, but held until its owner releases it
)

// IsKnown reports whether the value is one of the three.
func (o OnEnd) IsKnown() bool {
	return slices.Contains([]OnEnd{StopAtEnd, RequeueAtEnd, HoldAtEnd}, o)
}

// Requeues reports whether the job goes back into the queue.
func (o OnEnd) Requeues() bool { return o == RequeueAtEnd || o == HoldAtEnd }

// Requeue says what may keep Slurm from requeuing a job: "" is nothing, as with --requeue, or unknown.
type Requeue string

// The values.
const (
	RequeueUnsaid Requeue = "unsaid" // JobRequeue of slurm.conf decides
	RequeueNo     Requeue = "no"     // --no-requeue
	RequeueNever  Requeue = "never"  // srun or salloc, which Slurm cannot requeue
)

// whyNotRequeued says why Slurm cannot requeue the job; "" if it can.
func (r Request) whyNotRequeued(snap *Snapshot) string {
	switch {
	case r.Requeue == RequeueNever:
		return "Slurm requeues jobs of sbatch only"
	case r.Requeue == RequeueNo:
		return "the job has --no-requeue; leave that out"
	case r.Requeue == RequeueUnsaid && snap.NoRequeue:
		return "JobRequeue=0 in slurm.conf; add --requeue"
	}

	return ""
}

// warnOnEnd returns the warning for a job whose on_end Slurm cannot carry out; "" if it can.
func warnOnEnd(req Request, wish Wish, snap *Snapshot) string {
	why := req.whyNotRequeued(snap)
	if !wish.OnEnd.Requeues() || why == "" {
		return ""
	}

	return fmt.Sprintf("on_end=%s in --comment does nothing, and the job ends with its time limit: %s", wish.OnEnd, why)
}

// warnLateSignal returns the warning for a job whose signal would come after its requeue; "" for others. A job with a
// limit of its own is requeued only where that may be shortened.
func warnLateSignal(req Request, wish Wish, snap *Snapshot) string {
	requeues := wish.OnEnd
	for _, name := range req.targetPartitions(snap) {
		if p, ours := snap.Partition(name); ours {
			requeues = cmp.Or(requeues, p.OnEnd)
		}
	}

	lead := snap.KillWait.Duration + requeueMargin + time.Minute // limits are in whole minutes
	switch {
	case req.Signal == 0, req.Signal >= lead,
		req.TimeLimit.Set && !req.TimeMin.Set,
		req.Requeue == RequeueNo, req.Requeue == RequeueNever,
		!requeues.Requeues():
		return ""
	}

	return fmt.Sprintf(
		"--signal comes %s before the time limit, and on_end=%s ends the job up to %s before it, with TERM: "+
			"use @%d or more, or catch TERM",
		FormatExact(req.Signal), requeues, FormatExact(lead), int(lead.Seconds()))
}

// requeueMargin is added to KillWait. A limit is in whole minutes, so it may end the job up to a minute before the
// fence, and Slurm never requeues a job that its limit ended.
const requeueMargin = time.Minute

// RequeueAt returns when to requeue jobs in front of a fence: early enough that Slurm has killed the slow ones before
// their limits end them. killWait is Slurm's KillWait.
func RequeueAt(fence time.Time, killWait time.Duration) time.Time {
	return fence.Add(-killWait - requeueMargin)
}
