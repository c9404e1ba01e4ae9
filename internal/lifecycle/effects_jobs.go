package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// The effects on jobs. A job is named as Slurm shows it. Times are in Slurm's clock, except those that appear only in
// a sentence.

// onJob is an effect on a job that is read again first. A hook, the job's owner or an administrator may have changed
// the job since the pass read it; above all, a hook may have held it, and its note says which hold is ours.
type onJob interface {
	// read is the job as the pass has read it.
	read() capacity.Job
	// still reports whether the effect is right for the job as it is now.
	still(now capacity.Job) bool
}

// unchanged reports whether a job is as it was, as far as a decision on it depends on what others change.
func unchanged(was, now capacity.Job) bool {
	return now.Unread == "" && now.State == was.State && now.Restarts == was.Restarts && now.Held == was.Held &&
		now.AdminComment == was.AdminComment && now.Comment == was.Comment && now.Partition == was.Partition &&
		now.Constraint == was.Constraint && now.TimeLimit == was.TimeLimit && now.TimeMin == was.TimeMin
}

// inRun reports whether a job is still in the run in which it was read, and no hook is about to hold it.
func inRun(was, now capacity.Job) bool {
	return now.Allocated() && now.Restarts == was.Restarts && (now.AdminComment == was.AdminComment || !hookHeld(now))
}

// hookHeld reports whether a hook's note says that a job is held, or will be.
func hookHeld(j capacity.Job) bool {
	_, _, held := capacity.ReadHoldNote(j.AdminComment)
	return held
}

// KeepMarks records what the next pass must know about jobs, above all before a requeue. Before is the file's content.
type KeepMarks struct{ Marks, Before map[string]state.Mark }

// Code is stable.
func (KeepMarks) Code() string { return "keep-marks" }

// About is empty: the file is ours alone.
func (KeepMarks) About() capacity.Subject { return capacity.Subject{} }

// Sentence is empty: the file is ours alone.
func (KeepMarks) Sentence(capacity.Tense) string { return "" }

// Requeued is what remains to be done after a requeue at a fence.
type Requeued struct {
	// Limit is the next block's whole window in minutes; 0 keeps the limit.
	Limit int
	// Fence is the fence before which the job must not start again; zero if it could not.
	Fence time.Time
	// Held: the job is held until all of this is done, then released.
	Held bool
}

// RequeueJob takes a job off its nodes at their fence, and tells its owner why. The reason is written first, so a
// waiting job has it even if the pass is killed.
type RequeueJob struct {
	Slot string
	Job  capacity.Job // as it was seen
	// Hold leaves the job held, for its owner to release.
	Hold bool
	Note string
	Requeued
	// Jobs on Reservation must end by By.
	Reservation string
	By          time.Time // AWS's
}

func (e RequeueJob) read() capacity.Job { return e.Job }

func (e RequeueJob) still(now capacity.Job) bool { return inRun(e.Job, now) }

// Code is stable.
func (e RequeueJob) Code() string {
	if e.Hold {
		return "hold-job"
	}
	return "requeue-job"
}

// About is the job.
func (e RequeueJob) About() capacity.Subject {
	return capacity.Subject{Slot: e.Slot, Job: e.Job.Shown, Reservation: e.Reservation}
}

// Sentence is for people.
func (e RequeueJob) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("job %s on slot %s: %s, jobs on %s must end by %s", e.Job.Shown, e.Slot, requeueVerb(e.Hold, t),
		e.Reservation, capacity.FormatUTC(e.By))
}

func requeueVerb(hold bool, t capacity.Tense) string {
	if hold {
		return t.Verb("requeue and hold", "requeued and held")
	}
	return t.Verb("requeue", "requeued")
}

// FinishRequeue completes a requeue of a pass that was killed.
type FinishRequeue struct {
	Job capacity.Job
	Requeued
}

func (e FinishRequeue) read() capacity.Job { return e.Job }

func (e FinishRequeue) still(now capacity.Job) bool { return unchanged(e.Job, now) }

// Code is stable.
func (FinishRequeue) Code() string { return "finish-requeue" }

// About is the job.
func (e FinishRequeue) About() capacity.Subject { return capacity.Subject{Job: e.Job.Shown} }

// Sentence is empty: the requeue has been reported.
func (FinishRequeue) Sentence(capacity.Tense) string { return "" }

// TellJob writes to the standard error of a job, or to the terminal of its srun.
type TellJob struct {
	Slot, Job, Text string
	// That ends the sentence: the message to the job.
	That string
	// Deaf: a failed delivery is no failure, because the job may have no terminal.
	Deaf bool
	// Minutes before the fence, for a warning that is given once; 0 for other messages.
	Minutes int
}

// Code is stable.
func (TellJob) Code() string { return "tell-job" }

// About is the job.
func (e TellJob) About() capacity.Subject { return capacity.Subject{Slot: e.Slot, Job: e.Job} }

// Sentence is for people.
func (e TellJob) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("job %s on slot %s: %s that %s", e.Job, e.Slot, t.Verb("tell it", "told"), e.That)
}

// SetLimit changes the time limit of a running job.
type SetLimit struct {
	Slot    string
	Job     capacity.Job // as it was read
	Minutes int
	Fence   time.Time // AWS's; zero where the reservation no longer ends
	Until   time.Time // the same by Slurm's clock
}

// limitNote begins the AdminComment of a job whose limit sync has changed.
const limitNote = "pcs-capacity: the time limit is "

// note tells the owner of the job about the change; "" if the job's AdminComment is about something else.
func (e SetLimit) note(reservation string) string {
	if says := e.Job.AdminComment; says != "" && !strings.HasPrefix(says, limitNote) {
		return ""
	}
	text := limitNote + capacity.FormatMinutes(e.Minutes)
	if e.raises() {
		return text + ", as the end of " + reservation + " has moved"
	}
	return fmt.Sprintf("%s, not %s: jobs on %s must end by %s", text, e.Job.TimeLimit, reservation, capacity.FormatUTC(e.Fence))
}

// over is the limit of a job that had none, after the first attempt to set it; 0 if it is right. Slurm counts the limit
// from when the old one was taken off, which it does not show.
func (e SetLimit) over(now capacity.Job) int {
	late := now.End.Sub(e.Until)
	if e.Job.TimeLimit.Bounded() || !now.TimeLimit.Bounded() || late <= 0 {
		return 0
	}
	return max(1, now.TimeLimit.Minutes-int((late+time.Minute-1)/time.Minute))
}

func (e SetLimit) read() capacity.Job { return e.Job }

func (e SetLimit) still(now capacity.Job) bool {
	return inRun(e.Job, now) && now.TimeLimit == e.Job.TimeLimit
}

func (e SetLimit) raises() bool {
	return e.Job.TimeLimit.Bounded() && e.Minutes > e.Job.TimeLimit.Minutes
}

// Code is stable.
func (e SetLimit) Code() string {
	if e.raises() {
		return "raise-limit"
	}
	return "lower-limit"
}

// About is the job.
func (e SetLimit) About() capacity.Subject {
	return capacity.Subject{Slot: e.Slot, Job: e.Job.Shown}
}

// Sentence is for people.
func (e SetLimit) Sentence(t capacity.Tense) string {
	verb, why := t.Verb("lower", "lowered"), ", so that it ends by "+capacity.FormatUTC(e.Fence)
	if e.Fence.IsZero() {
		why = ", as it was: its reservation no longer ends"
	}
	if e.raises() {
		verb = t.Verb("raise", "raised")
	}
	return fmt.Sprintf("job %s on slot %s: %s the time limit from %s to %s%s", e.Job.Shown, e.Slot, verb,
		e.Job.TimeLimit, capacity.FormatMinutes(e.Minutes), why)
}

// ResumeJob resumes a suspended job in front of its fence, so that it can end like others.
type ResumeJob struct {
	Slot string
	Job  capacity.Job // as it was read
	By   time.Time    // AWS's
}

func (e ResumeJob) read() capacity.Job { return e.Job }

func (e ResumeJob) still(now capacity.Job) bool { return now.State == "SUSPENDED" && inRun(e.Job, now) }

// Code is stable.
func (ResumeJob) Code() string { return "resume-job" }

// About is the job.
func (e ResumeJob) About() capacity.Subject { return capacity.Subject{Slot: e.Slot, Job: e.Job.Shown} }

// Sentence is for people.
func (e ResumeJob) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("job %s on slot %s is suspended: %s it, so that it ends by %s", e.Job.Shown, e.Slot,
		t.Verb("resume", "resumed"), capacity.FormatUTC(e.By))
}

// FitJob gives a waiting job the time limit that it lacks. If Slurm refuses, the job's owner is told.
type FitJob struct {
	Job   capacity.Job // as it was read
	Edits capacity.Edits
}

// note is the job's AdminComment afterwards; "" if the present one may stay.
func (e FitJob) note(err error) string {
	if err != nil {
		return fitNote(e.Job.AdminComment, err.Error())
	}
	return fitNote(e.Job.AdminComment, "")
}

// Code is stable.
func (FitJob) Code() string { return "set-limit" }

// About is the job.
func (e FitJob) About() capacity.Subject { return capacity.Subject{Job: e.Job.Shown} }

// Sentence is for people.
func (e FitJob) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("job %s %s no time limit of its own: set %s, --time-min=%s", e.Job.Shown, t.Verb("has", "had"),
		e.Edits.TimeLimit, e.Edits.TimeMin)
}

// TellOwner writes into a job's AdminComment. A quiet one accompanies an effect that is reported itself.
type TellOwner struct {
	Job   capacity.Job // as it was read
	Text  string
	Quiet bool
}

func (e TellOwner) read() capacity.Job { return e.Job }

func (e TellOwner) still(now capacity.Job) bool { return unchanged(e.Job, now) }

// Code is stable.
func (TellOwner) Code() string { return "tell-owner" }

// About is the job.
func (e TellOwner) About() capacity.Subject { return capacity.Subject{Job: e.Job.Shown} }

// Sentence is for people.
func (e TellOwner) Sentence(t capacity.Tense) string {
	if e.Quiet {
		return ""
	}
	return fmt.Sprintf("job %s: %s its owner: %s", e.Job.Shown, t.Verb("tell", "told"), plainNote(e.Text))
}

// EndHold turns our hold into one that the job's owner can release.
type EndHold struct {
	Job capacity.Job // as it was read
	// Admin: the hold is still an administrator's. Otherwise only our note goes.
	Admin bool
	// Over: nothing can make the hold an administrator's again, so Note replaces our note.
	Over bool
	Note string
}

func (e EndHold) read() capacity.Job { return e.Job }

func (e EndHold) still(now capacity.Job) bool { return unchanged(e.Job, now) }

// released reports whether a launch released the job to go on elsewhere after it was read: our hold came too late.
func (e EndHold) released(now capacity.Job) bool {
	return now.Pending() && now.Held && now.AdminComment != e.Job.AdminComment && capacity.GoesOn(now.AdminComment)
}

// Code is stable.
func (EndHold) Code() string { return "end-hold" }

// About is the job.
func (e EndHold) About() capacity.Subject { return capacity.Subject{Job: e.Job.Shown} }

// Sentence is for people; empty if only our note goes.
func (e EndHold) Sentence(t capacity.Tense) string {
	if !e.Admin {
		return ""
	}
	return fmt.Sprintf("job %s, which %s", e.Job.Shown,
		t.Verb("is held: let its owner release it", "was held: its owner can release it now"))
}

// FitJobs are carried out together: one call reads them all anew, and one reads them all back.
type FitJobs []FitJob

// Code is that of each.
func (FitJobs) Code() string { return FitJob{}.Code() }

// About is several jobs.
func (FitJobs) About() capacity.Subject { return capacity.Subject{} }

// Sentence is empty: each has its own.
func (FitJobs) Sentence(capacity.Tense) string { return "" }

// edits are those of the jobs that are now as they were read, by their names.
func (e FitJobs) edits(now []capacity.Job) map[string]capacity.Edits {
	byName := make(map[string]capacity.Job, len(now))
	for _, j := range now {
		byName[j.Shown] = j
	}
	edits := map[string]capacity.Edits{}
	for _, one := range e {
		if unchanged(one.Job, byName[one.Job.Shown]) {
			edits[one.Job.Shown] = one.Edits
		}
	}
	return edits
}
