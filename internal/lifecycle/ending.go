package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// warnings are the minutes before the fence at which a job that cannot be requeued is warned.
var warnings = []int{5, 15, 60}

// mostEnds is the number of fences at which a job is requeued before it is held: a job that saves nothing would use
// up every later block. Its owner is informed and can release it.
const mostEnds = 5

// endings requeues, holds or warns the jobs whose fence is near. It records the marks of requeued jobs first, so the
// pass after a killed one knows what is left to do. A suspended job is resumed, so that the next pass, or its limit, can
// end it like others: a signal does not reach it, its limit does not run out, and Slurm keeps its priority at 0, which a
// requeue would take along as a hold.
func endings(seen Seen) []capacity.Effect {
	var effects []capacity.Effect
	byNode := fencedNodes(seen)
	keep := KeepMarks{maps.Clone(seen.Marks), seen.MarksFile}
	requeued := map[string]bool{}
	for _, j := range seen.Jobs {
		f, fenced := earliestFence(j, byNode)
		if !fenced || !j.Allocated() {
			continue
		}
		mark := seen.Marks[j.Shown]
		if j.State == "SUSPENDED" && !seen.SlurmNow().Before(seen.requeueAt(f)) {
			effects = append(effects, ResumeJob{Slot: f.slot, Job: j, By: f.fence.Add(-seen.toSlurm())})
			continue
		}
		if !j.Requeues() {
			effects = append(effects, warning(seen, j, f, mark)...)
			continue
		}
		// Slurm requeues all components of a het job together.
		whole, _, _ := strings.Cut(j.Shown, "+")
		onEnd := f.atEnd(j, mark)
		if f.endsItself(j, mark) {
			continue
		}
		if onEnd == capacity.StopAtEnd || seen.SlurmNow().Before(seen.requeueAt(f)) || requeued[whole] {
			continue
		}
		requeued[whole] = true
		// A job that an administrator held while it ran stays so: our hold would be its owner's to release.
		hold := onEnd == capacity.HoldAtEnd || mark.Ends >= mostEnds && !mark.EndedBy(f.fence) && !j.AdminHeld()
		e := requeue(seen, j, f, mark, hold)
		mark.Restarts, mark.Ending, mark.Release = j.Restarts, true, e.Held
		if !hold {
			mark.EndAt(f.fence)
		}
		keep.Marks[j.Shown] = mark
		effects = append(effects, e)
	}
	if len(requeued) > 0 {
		effects = slices.Insert(effects, 0, capacity.Effect(keep))
	}
	return effects
}

// endsItself reports whether a job ends by the fence by a limit that neither the submit filter nor sync has set: it is not
// requeued. A limit that was set ends a job up to a minute earlier than it could, and Slurm requeues none for that.
func (f fenced) endsItself(j capacity.Job, mark state.Mark) bool {
	return !mark.Fit && mark.From == 0 && j.TimeLimit.Bounded() && !j.End.IsZero() && !j.End.After(f.fence)
}

// atEnd is what happens to a job that loses its nodes: the on_end of its comment from before the start, or its
// partition's. It never turns an administrator's hold into one that the owner can release.
func (f fenced) atEnd(j capacity.Job, mark state.Mark) capacity.OnEnd {
	switch onEnd := cmp.Or(mark.OnEnd, f.onEnd); {
	case onEnd == capacity.HoldAtEnd && j.AdminHeld():
		return capacity.RequeueAtEnd
	case onEnd == capacity.HoldAtEnd, onEnd == capacity.RequeueAtEnd:
		return onEnd
	}
	return capacity.StopAtEnd
}

func (s Seen) requeueAt(f fenced) time.Time { return capacity.RequeueAt(f.fence, s.Cluster.KillWait) }

// warning tells a job that cannot be requeued how much time it has left, unless it has been told, cannot be told, or
// ends earlier by its own limit.
func warning(seen Seen, j capacity.Job, f fenced, mark state.Mark) []capacity.Effect {
	now := seen.SlurmNow()
	if j.Configuring() || !now.Before(f.fence) ||
		j.Running() && j.TimeLimit.Bounded() && j.End.Before(seen.requeueAt(f)) {
		return nil
	}
	left := f.fence.Sub(now)
	i := slices.IndexFunc(warnings, func(minutes int) bool { return left <= time.Duration(minutes)*time.Minute })
	if i < 0 || mark.Told != 0 && warnings[i] >= mark.Told {
		return nil
	}
	by := capacity.FormatUTC(f.fence.Add(-seen.toSlurm()))
	return []capacity.Effect{TellJob{Slot: f.slot, Job: j.Shown, Minutes: warnings[i], That: "it ends by " + by,
		Text: fmt.Sprintf(
			"pcs-capacity: jobs on %s must end by %s, in %s; this job ends by then and cannot be requeued: save your work",
			f.reservation, by, capacity.FormatDuration(left))}}
}

// requeue takes a job off its nodes at the fence. If we fit the job's limit, the job gets the limit of the next
// block. The owner is told where the job continues.
func requeue(seen Seen, j capacity.Job, f fenced, mark state.Mark, hold bool) RequeueJob {
	fence := f.fence.Add(-seen.toSlurm())
	req := seen.Snap.Request(j)
	req.TimeLimit = mark.Stated(req.TimeLimit)
	next := capacity.Admit(req, seen.Snap, fence)
	why := fmt.Sprintf("requeued at %s: jobs on %s must end by %s", capacity.FormatUTC(seen.Now), f.reservation,
		capacity.FormatUTC(fence))
	switch {
	case j.AdminHeld():
		why += "; an administrator holds it"
	case next.Refused:
		why += "; it cannot start again as it is: " + next.Message
	case hold && mark.Ends >= mostEnds:
		why += fmt.Sprintf("; it was requeued %d times so, and is held now: release it if it goes on from where it was",
			mark.Ends)
	case hold:
		why += "; release it to go on"
	default:
		why += "; it goes on in " + goesOn(req, seen.Snap, fence)
	}
	e := RequeueJob{Slot: f.slot, Job: j, Hold: hold, Note: why, Reservation: f.reservation, By: fence}
	e.Limit = wholeLimit(next, mark)
	if !hold {
		e.Fence, e.Held = f.fence, startsBefore(j, f.fence, seen.SlurmNow())
	}
	return e
}

// startsBefore reports whether Slurm could start the job again so that it ends before the fence, as it does at once
// with --requeue=expedite.
func startsBefore(j capacity.Job, fence, now time.Time) bool {
	least := j.TimeMin
	if !least.Bounded() {
		least = j.TimeLimit
	}
	return !j.Held && least.Bounded() && !now.Add(least.Duration()).After(fence)
}

// goesOn names the next reservation in which a job can start after its fence.
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

// wholeLimit is the limit, in minutes, of the whole window that a job waits for, if we fit the job's limit, or the one
// that it had before sync lowered it, if that fits; else 0, which keeps the limit.
func wholeLimit(next capacity.Verdict, mark state.Mark) int {
	switch {
	case next.Refused:
		return 0
	case !mark.Fit && mark.From >= 0:
		return mark.From
	case mark.UpTo > 0:
		return mark.UpTo // Slurm shortens it again
	}
	return next.Edits.TimeLimit.Minutes
}

// unfinished completes the requeues of a pass that was killed.
func unfinished(seen Seen) []capacity.Effect {
	var effects []capacity.Effect
	for _, j := range seen.Jobs {
		mark := seen.Marks[j.Shown]
		if !mark.Ending || j.State != "PENDING" {
			continue
		}
		e := FinishRequeue{Job: j}
		if req := seen.Snap.Request(j); mark.Fit || mark.From != 0 {
			req.TimeLimit = mark.Stated(req.TimeLimit)
			e.Limit = wholeLimit(capacity.Admit(req, seen.Snap, seen.Now), mark)
		}
		if mark.Release {
			e.Fence, e.Held = time.Unix(mark.EndedAt, 0), j.Held
		}
		effects = append(effects, e)
	}
	return effects
}
