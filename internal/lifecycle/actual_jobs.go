package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// doJob carries out an effect on a job, if it still fits the job.
func (x *actual) doJob(ctx context.Context, e capacity.Effect) Answer {
	if e, one := e.(onJob); one {
		if now, err := x.Job(ctx, e.read().Shown); err != nil || !e.still(now) {
			return Answer{Err: err, NotTried: err == nil}
		}
	}
	switch e := e.(type) {
	case RequeueJob:
		return x.requeueJob(ctx, e)
	case FinishRequeue:
		var a Answer
		x.finish(ctx, e.Job, e.Requeued, &a)
		return a
	case TellJob:
		return Answer{Err: x.tellJob(ctx, e)}
	case ResumeJob:
		return Answer{Err: x.ResumeJob(ctx, e.Job.Shown)}
	case SetLimit:
		return Answer{Err: x.setLimit(ctx, e)}
	case FitJobs:
		return Answer{Each: x.fitJobs(ctx, e)}
	case TellOwner:
		return Answer{Err: x.SetAdminComment(ctx, e.Job.Shown, e.Text)}
	case EndHold:
		return Answer{Err: x.endHold(ctx, e)}
	}
	return Answer{Err: fmt.Errorf("pcs-capacity: nobody carries out %T", e)}
}

// setLimit carries out a SetLimit.
func (x *actual) setLimit(ctx context.Context, e SetLimit) error {
	if err := x.SetTimeLimit(ctx, e.Job.Shown, e.Minutes); err != nil || e.Job.TimeLimit.Bounded() {
		return err
	}
	now, err := x.Job(ctx, e.Job.Shown)
	if minutes := e.over(now); err == nil && minutes > 0 {
		err = x.SetTimeLimit(ctx, e.Job.Shown, minutes)
	}
	return err
}

// requeueJob carries out a RequeueJob. The steps after the requeue may fail: a later pass finishes them, or raises
// the limit when the job runs again.
func (x *actual) requeueJob(ctx context.Context, e RequeueJob) Answer {
	var a Answer
	a.also(x.SetAdminComment(ctx, e.Job.Shown, noteOf(e.Hold, x.machineTime(), e.Note)))
	after, err := x.RequeueJob(ctx, e.Job, e.Hold || e.Held)
	a.Err, a.Held = err, e.Held
	if err == nil && after.Shown != "" {
		// Only after the requeue: a job still running with this limit would cross the fence.
		x.finish(ctx, after, e.Requeued, &a)
	}
	return a
}

// finish does the steps that follow a requeue.
func (x *actual) finish(ctx context.Context, j capacity.Job, r Requeued, a *Answer) {
	if r.Limit > 0 {
		a.also(x.SetTimeLimit(ctx, j.Shown, r.Limit))
	}
	if j.Eligible.Before(r.Fence) && r.Fence.After(x.machineTime()) {
		a.also(x.Begin(ctx, j.Shown, r.Fence))
	}
	a.Held = false
	if r.Held && !hookHeld(j) {
		err := x.Release(ctx, j.Shown)
		a.also(err)
		a.Held = err != nil
	}
}

// fitJobs sets the limits of jobs in one call, because one call reads them all back.
func (x *actual) fitJobs(ctx context.Context, jobs FitJobs) []Answer {
	answers := make([]Answer, len(jobs))
	now, err := x.Client.Jobs(ctx)
	edits := jobs.edits(now)
	var failed map[string]error
	if len(edits) > 0 {
		failed = x.Edit(ctx, edits)
	}
	for i, e := range jobs {
		job := e.Job.Shown
		if _, tried := edits[job]; !tried {
			answers[i] = Answer{Err: err, NotTried: err == nil}
			continue
		}
		answers[i].Err = failed[job]
		if text := e.note(failed[job]); text != "" {
			answers[i].also(x.SetAdminComment(ctx, job, text))
		}
	}
	return answers
}

// endHold carries out an EndHold.
func (x *actual) endHold(ctx context.Context, e EndHold) error {
	if e.Admin {
		if err := x.UserHold(ctx, e.Job.Shown); err != nil {
			return err
		}
		if now, err := x.Job(ctx, e.Job.Shown); err != nil {
			return err
		} else if e.released(now) {
			return x.Release(ctx, e.Job.Shown)
		} else if now.AdminComment != e.Job.AdminComment {
			return nil
		}
	}
	if !e.Over {
		return nil
	}
	return x.SetAdminComment(ctx, e.Job.Shown, e.Note)
}

// tellJob carries out a TellJob.
func (x *actual) tellJob(ctx context.Context, e TellJob) error {
	if err := x.Notify(ctx, e.Job, e.Text); !e.Deaf {
		return err
	}
	return nil
}

// noteOf is what a job's AdminComment says of its requeue, at a time of Slurm's clock.
func noteOf(hold bool, at time.Time, note string) string {
	if hold {
		return capacity.HoldNote(at, note)
	}
	return "pcs-capacity: " + note
}
