package lifecycle

import (
	"context"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// doJob carries out an effect on a job.
func (x *executor) doJob(ctx context.Context, e capacity.Effect) Answer {
	switch e := e.(type) {
	case KeepMarks:
		return Answer{Err: x.State.KeepMarks(e.Marks, e.Before)}
	case RequeueJob:
		return x.requeueJob(ctx, e)
	case FinishRequeue:
		var a Answer
		x.finish(ctx, e.Job, e.Requeued, &a)
		return a
	case InterruptJob:
		return x.interruptJob(ctx, e)
	case TellJob:
		return Answer{Err: x.tellJob(ctx, e)}
	case SetLimit:
		return Answer{Err: x.Slurm.SetTimeLimit(ctx, e.Job, e.Minutes)}
	case FitJob:
		return x.fitJobs(ctx, []capacity.Effect{e})[0]
	case TellOwner:
		return Answer{Err: x.Slurm.SetAdminComment(ctx, e.Job, e.Text)}
	case EndHold:
		return Answer{Err: x.endHold(ctx, e)}
	}
	return Answer{Err: fmt.Errorf("pcs-capacity: nobody carries out %T", e)}
}

// requeueJob carries out a RequeueJob. The steps after the requeue may fail: a later pass finishes them, or raises
// the limit when the job runs again.
func (x *executor) requeueJob(ctx context.Context, e RequeueJob) Answer {
	note := "pcs-capacity: " + e.Note
	if e.Hold {
		note = capacity.HoldNote(x.MachineTime(), e.Note)
	}
	var a Answer
	a.also(x.Slurm.SetAdminComment(ctx, e.Job.Shown, note))
	after, err := x.Slurm.RequeueJob(ctx, e.Job, e.Hold || e.Held)
	a.Err, a.Held = err, e.Held
	if err == nil && after.Shown != "" {
		// Only after the requeue: a job still running with this limit would cross the fence.
		x.finish(ctx, after, e.Requeued, &a)
	}
	return a
}

// finish does the steps that follow a requeue.
func (x *executor) finish(ctx context.Context, j capacity.Job, r Requeued, a *Answer) {
	if r.Limit > 0 {
		a.also(x.Slurm.SetTimeLimit(ctx, j.Shown, r.Limit))
	}
	if j.Eligible.Before(r.Fence) && r.Fence.After(x.MachineTime()) {
		a.also(x.Slurm.Begin(ctx, j.Shown, r.Fence))
	}
	a.Held = false
	if r.Held {
		err := x.Slurm.Release(ctx, j.Shown)
		a.also(err)
		a.Held = err != nil
	}
}

// interruptJob carries out an InterruptJob.
func (x *executor) interruptJob(ctx context.Context, e InterruptJob) Answer {
	_, err := x.Slurm.RequeueJob(ctx, e.Job, e.Hold)
	a := Answer{Err: err}
	note := "pcs-capacity: " + e.Note
	if e.Hold {
		note = capacity.HoldNote(x.MachineTime(), e.Note)
	}
	a.also(x.Slurm.SetAdminComment(ctx, e.Job.Shown, note))
	return a
}

// fitJobs sets the limits of jobs in one call, because one call reads them all back.
func (x *executor) fitJobs(ctx context.Context, jobs []capacity.Effect) []Answer {
	edits := map[string]capacity.Edits{}
	for _, e := range jobs {
		edits[e.(FitJob).Job] = e.(FitJob).Edits
	}
	failed := x.Slurm.Edit(ctx, edits)
	answers := make([]Answer, len(jobs))
	for i, e := range jobs {
		e := e.(FitJob)
		a, why := &answers[i], ""
		if a.Err = failed[e.Job]; a.Err != nil {
			why = a.Err.Error()
		}
		if text := fitNote(e.Says, why); text != "" {
			a.also(x.Slurm.SetAdminComment(ctx, e.Job, text))
		}
	}
	return answers
}

// endHold carries out an EndHold.
func (x *executor) endHold(ctx context.Context, e EndHold) error {
	if e.Admin {
		if err := x.Slurm.UserHold(ctx, e.Job); err != nil {
			return err
		}
	}
	if !e.Over {
		return nil
	}
	return x.Slurm.SetAdminComment(ctx, e.Job, e.Note)
}

// tellJob carries out a TellJob.
func (x *executor) tellJob(ctx context.Context, e TellJob) error {
	if err := x.Slurm.Notify(ctx, e.Job, e.Text); !e.Deaf {
		return err
	}
	return nil
}
