package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// warnings are how many minutes before the fence jobs that cannot be requeued are told of it.
var warnings = []int{5, 15, 60}

// mostEnds is at how many fences a job is requeued before it is held: one that saves
// nothing would use up every block that comes. Its owner knows, and can release it.
const mostEnds = 5

// ending is what happens to a job because its fence is near.
type ending struct {
	job  capacity.Job
	at   fenced
	do   string // requeue, hold, tell
	warn int    // tell: minutes before the fence
	// again: Slurm could start it again in front of its fence. It is held while it gets a later
	// begin time.
	again bool
}

// startsBefore reports whether Slurm could start the job anew so that it ends before the fence:
// with a --requeue=expedite it does so at once.
func startsBefore(j capacity.Job, fence, now time.Time) bool {
	least := j.TimeMin
	if !least.Bounded() {
		least = j.TimeLimit
	}
	return !j.Held && least.Bounded() && !now.Add(least.Duration()).After(fence)
}

// endings finds the jobs whose fence is so near that something has to happen to them. Times
// are in Slurm's clock; marks are those that count.
func endings(jobs []capacity.Job, byNode map[string]fenced, marks map[string]state.Mark, killWait time.Duration, now time.Time) []ending {
	var all []ending
	seen := map[string]bool{}
	for _, j := range jobs {
		f, ok := earliestFence(j, byNode)
		if !ok || j.State != "RUNNING" && j.State != "SUSPENDED" {
			continue
		}
		mark := marks[j.Shown]
		onEnd := f.onEnd
		if mark.OnEnd != "" {
			onEnd = mark.OnEnd
		}
		requeueAt := capacity.RequeueAt(f.fence, killWait)
		// Of a het job all components are requeued together.
		whole, _, _ := strings.Cut(j.Shown, "+")
		switch {
		case j.Batch && j.Requeue:
			if onEnd != capacity.RequeueAtEnd && onEnd != capacity.HoldAtEnd || now.Before(requeueAt) || seen[whole] {
				continue
			}
			seen[whole] = true
			do := "requeue"
			// What an administrator holds while it runs stays held in the queue; a hold of ours
			// would be its owner's to release.
			if !j.AdminHeld() && (onEnd == capacity.HoldAtEnd || mark.Ends >= mostEnds && !mark.EndedBy(f.fence)) {
				do = "hold"
			}
			all = append(all, ending{job: j, at: f, do: do, again: do == "requeue" && startsBefore(j, f.fence, now)})
		case j.State != "RUNNING" || j.Configuring() || !now.Before(f.fence) || j.TimeLimit.Bounded() && j.End.Before(requeueAt):
			// It cannot be told, or its own limit ends it before.
		default:
			left := f.fence.Sub(now)
			i := slices.IndexFunc(warnings, func(minutes int) bool { return left <= time.Duration(minutes)*time.Minute })
			if i >= 0 && (mark.Told == 0 || warnings[i] < mark.Told) {
				all = append(all, ending{job: j, at: f, do: "tell", warn: warnings[i]})
			}
		}
	}
	return all
}

// endJobs requeues, holds and tells the jobs in front of their fence, and notes it in their
// marks. It returns the jobs that it has taken off their nodes.
func (p *pass) endJobs(ctx context.Context, jobs []capacity.Job, byNode map[string]fenced, marks map[string]state.Mark, now time.Time, toSlurm time.Duration) map[string]bool {
	off := map[string]bool{}
	p.goOnEnding(ctx, jobs, marks, now)
	var taken []ending
	var errs []error
	all := endings(jobs, byNode, marks, p.cluster.KillWait, now.Add(toSlurm))
	p.begin(all, marks)
	for _, e := range all {
		fence := e.at.fence.Add(-toSlurm)
		if e.do == "tell" {
			p.tell(ctx, e, fence, now, marks)
			continue
		}
		taken, errs = append(taken, e), append(errs, p.requeue(ctx, e, fence, now, marks[e.job.Shown]))
	}
	if len(taken) == 0 {
		return off
	}
	// An exit status says little: what counts is what the jobs do then.
	after, _, err := p.Slurm.Jobs(ctx, nil, func(j capacity.Job) bool {
		return slices.ContainsFunc(taken, func(e ending) bool { return e.job.Shown == j.Shown })
	})
	for i, e := range taken {
		err := errors.Join(errs[i], err)
		j := slices.IndexFunc(after, func(j capacity.Job) bool { return j.Shown == e.job.Shown })
		if err == nil && j >= 0 && after[j].State == e.job.State && after[j].Restarts == e.job.Restarts {
			err = errors.New("Slurm took the change, and the job still runs")
		} else if j >= 0 && after[j].State == "PENDING" {
			err = nil // as one of several jobs that a call is for
		}
		mark := marks[e.job.Shown]
		verb := "requeued"
		if e.do == "hold" {
			verb = "requeued and held"
		} else if err == nil && j >= 0 {
			mark.Release = p.startsAfter(ctx, after[j], e.at.fence, mark.Release)
		}
		mark.Ending = mark.Release // for the next pass
		if err == nil {
			off[e.job.Shown] = true
			if e.do == "hold" {
				mark.Ends = 0
			}
		}
		marks[e.job.Shown] = mark
		p.did(Done{Do: e.do + "-job", Slot: e.at.slot, Job: e.job.Shown, Message: fmt.Sprintf("job %s on slot %s: %s, %s must be free of jobs by %s",
			e.job.Shown, e.at.slot, verb, e.at.reservation, capacity.FormatUTC(e.at.fence.Add(-toSlurm)))}, err)
	}
	return off
}

// startsAfter keeps a requeued job from starting again in front of its fence, and then ends the hold
// of one that is held for that. It reports whether that is still to be done.
func (p *pass) startsAfter(ctx context.Context, j capacity.Job, fence time.Time, held bool) (stillHeld bool) {
	if j.Eligible.Before(fence) && fence.After(p.MachineTime()) {
		if err := p.Slurm.Begin(ctx, j.Shown, fence); err != nil {
			p.problem(capacity.ChangeFailed, err)
		}
	}
	if !held {
		return false
	}
	err := p.Slurm.Release(ctx, j.Shown)
	if err != nil {
		p.problem(capacity.ChangeFailed, err)
	}
	return err != nil
}

// goesOn names the reservation in which a job can start next after its fence.
func goesOn(req capacity.Request, snap *capacity.Snapshot, fence time.Time) string {
	for _, p := range capacity.Prospects(req, snap.Within(req.Constraint), fence) {
		switch {
		case !p.Fits || p.Reservation.ID == "":
		case p.Window.Start.After(fence):
			return fmt.Sprintf("%s, which opens at %s", p.Reservation.ID, capacity.FormatUTC(p.Window.Start))
		default:
			return p.Reservation.ID + ", which is open"
		}
	}
	return "the next one"
}

// requeue puts a job back into the queue, with the limit of the next block if its limit is
// ours. Its owner is told first: whatever ends this pass, a job that waits has the reason.
func (p *pass) requeue(ctx context.Context, e ending, fence, now time.Time, mark state.Mark) error {
	req := p.snap.Request(e.job)
	if mark.Fit {
		req.TimeLimit = capacity.Limit{}
	}
	next := capacity.Admit(req, p.snap, fence)
	why := fmt.Sprintf("requeued at %s: reservation %s must be free of jobs by %s", capacity.FormatUTC(now), e.at.reservation, capacity.FormatUTC(fence))
	switch {
	case e.job.AdminHeld():
		why += "; an administrator holds it"
	case next.Refused:
		why += "; it cannot start again as it is: " + next.Message
	case e.do == "hold" && mark.Ends >= mostEnds:
		why += fmt.Sprintf("; it was requeued %d times so, and is held now: release it if it goes on from where it was", mark.Ends)
	case e.do == "hold":
		why += "; release it to go on"
	default:
		why += "; it goes on in " + goesOn(req, p.snap, fence)
	}
	can := func(err error) { // be done without
		if err != nil {
			p.problem(capacity.ChangeFailed, err)
		}
	}
	note, requeue := "pcs-capacity: "+why, p.Slurm.Requeue
	switch {
	case e.do == "hold":
		note, requeue = capacity.HoldNote(p.MachineTime(), why), p.Slurm.RequeueHold
	case e.again:
		requeue = p.Slurm.RequeueHold
	}
	can(p.Slurm.SetAdminComment(ctx, e.job.Shown, note))
	err := requeue(ctx, e.job.Shown)
	// Only now: a job that still ran with this limit would cross the fence.
	if err == nil && mark.Fit {
		can(p.setWhole(ctx, e.job, next, mark))
	}
	return err
}

// setWhole gives a job that waits the limit of the whole window that it waits for, if its
// limit is ours. If it is not set, the limit is raised when the job runs again.
func (p *pass) setWhole(ctx context.Context, j capacity.Job, next capacity.Verdict, mark state.Mark) error {
	minutes := next.Edits.TimeLimit.Minutes
	if mark.UpTo > 0 {
		minutes = min(minutes, mark.UpTo)
	}
	if minutes <= 0 {
		return nil
	}
	return p.Slurm.SetTimeLimit(ctx, j.Shown, minutes)
}

// begin notes which jobs are about to be requeued, so that a pass after one that was killed
// knows what is left to do.
func (p *pass) begin(all []ending, marks map[string]state.Mark) {
	begun := false
	for _, e := range all {
		if e.do != "tell" {
			mark := marks[e.job.Shown]
			mark.Restarts, mark.Ending, mark.Release = e.job.Restarts, true, e.again
			if e.do == "requeue" {
				mark.EndAt(e.at.fence)
			}
			marks[e.job.Shown] = mark
			begun = true
		}
	}
	if begun {
		p.keepMarks(marks, nil)
		p.begun = true
	}
}

// goOnEnding does what a pass that was killed has left undone for jobs that it requeued.
func (p *pass) goOnEnding(ctx context.Context, jobs []capacity.Job, marks map[string]state.Mark, now time.Time) {
	for _, j := range jobs {
		mark := marks[j.Shown]
		if !mark.Ending || j.State != "PENDING" {
			continue
		}
		if req := p.snap.Request(j); mark.Fit {
			req.TimeLimit = capacity.Limit{}
			if err := p.setWhole(ctx, j, capacity.Admit(req, p.snap, now), mark); err != nil {
				p.problem(capacity.ChangeFailed, err)
			}
		}
		if mark.Release {
			mark.Release = p.startsAfter(ctx, j, time.Unix(mark.EndedAt, 0), j.Held)
		} else if j.AdminHeld() {
			mark.Ends = 0
		}
		mark.Ending = mark.Release
		marks[j.Shown] = mark
		p.begun = true
	}
}

// tell tells a job that cannot be requeued how much time it has.
func (p *pass) tell(ctx context.Context, e ending, fence, now time.Time, marks map[string]state.Mark) {
	err := p.Slurm.Notify(ctx, e.job.Shown, fmt.Sprintf("pcs-capacity: reservation %s must be free of jobs by %s, in %s; this job ends by then and cannot be requeued: save your work",
		e.at.reservation, capacity.FormatUTC(fence), capacity.FormatDuration(fence.Sub(now))))
	mark := marks[e.job.Shown]
	mark.Restarts, mark.Told = e.job.Restarts, e.warn
	marks[e.job.Shown] = mark
	p.did(Done{Do: "tell-job", Slot: e.at.slot, Job: e.job.Shown, Message: fmt.Sprintf("job %s on slot %s: told that it ends by %s",
		e.job.Shown, e.at.slot, capacity.FormatUTC(fence))}, err)
}
