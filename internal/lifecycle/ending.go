package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// warnMinutes are the minutes before the fence at which a job that cannot be requeued is warned.
var warnMinutes = []int{5, 15, 60}

// maxRequeues is the number of fences at which a job is requeued before it is held: a job that saves nothing would use
// up every later block. Its owner is informed and can release it.
const maxRequeues = 5

// decideRequeues requeues, holds or warns the jobs whose fence is near. It saves the records of requeued jobs first, so
// the pass after a killed one knows what is left to do.
func decideRequeues(s View) (actions []Action) {
	byNode := fencedNodes(s)
	ending := map[string]state.JobRecord{}
	requeued := map[string]bool{}
	for _, j := range s.Jobs {
		f, fenced := s.earliestFence(j, byNode)
		if !fenced || !j.Allocated() {
			continue
		}

		// Slurm requeues all components of a het job together.
		whole, _, _ := strings.Cut(j.Shown, "+")
		record := s.JobRecords[j.Shown]
		due := !s.SlurmNow().Before(s.requeueAt(f))

		switch {
		case due && j.State == "SUSPENDED":
			actions = append(actions, resumeJob(s, j, f))
		case !j.CanRequeue():
			actions = append(actions, warnJob(s, j, f, record)...)
		case due && !requeued[whole] && f.isRequeued(j, record):
			r := planRequeue(s, j, f, record)
			actions = append(actions, r.action(s))
			ending[j.Shown] = r.record
			requeued[whole] = true
		}
	}

	return append(saveJobRecords(s, ending), actions...)
}

// resumeJob lets a suspended job run, so that the next pass, or its limit, can end it like others: a signal does not
// reach it, its limit does not run out, and Slurm keeps its priority at 0, which a requeue would take along as a hold.
func resumeJob(s View, j capacity.Job, f fencedSlot) Action {
	text := fmt.Sprintf("resume job %s on slot %s, which is suspended, so that it ends by %s", j.Shown, f.slot,
		s.formatFence(f))

	return jobAction("resume-job", f.slot, j, text,
		func(was, now capacity.Job) bool { return now.State == "SUSPENDED" && isSameRun(was, now) },
		func(ctx context.Context, w World) error { return w.Slurm.ResumeJob(ctx, j.Shown) })
}

// offNodes returns the jobs that these actions took off their nodes, or found off them.
func offNodes(done []Action) map[string]bool {
	off := map[string]bool{}
	for _, a := range done {
		off[a.About.Job] = off[a.About.Job] || a.Code == "requeue-job" || a.Code == "hold-job"
	}

	return off
}

// afterRequeue lists the changes that must follow a requeue at a fence.
type afterRequeue struct {
	limit int       // the next block's whole window in minutes; 0 keeps the limit
	fence time.Time // the fence before which the job must not start again; zero if it could not
	held  bool      // the job is held until all of this is done, then released
}

// finish makes these changes. What it returns is left to a later pass: a job that could not be released.
func (r afterRequeue) finish(ctx context.Context, w World, j capacity.Job) (rest *state.Ending, err error) {
	var errs []error
	if r.limit > 0 {
		errs = append(errs, w.Slurm.SetTimeLimit(ctx, j.Shown, r.limit))
	}

	// Before the fence Slurm could start the job on the same nodes again.
	if j.Eligible.Before(r.fence) && r.fence.After(w.MachineTime()) {
		errs = append(errs, w.Slurm.SetBeginTime(ctx, j.Shown, r.fence))
	}

	// Last: released any earlier, the job could start with its old limit.
	if r.held && !isHeldByHook(j) {
		err := w.Slurm.Release(ctx, j.Shown)

		errs = append(errs, err)
		if err != nil {
			rest = &state.Ending{Release: true}
		}
	}

	return rest, errors.Join(errs...)
}

// requeue takes a job off its nodes at their fence, and tells its owner why.
type requeue struct {
	fencedSlot
	job    capacity.Job
	record state.JobRecord // saved before the requeue is sent: a pass that is killed in between finishes it
	hold   bool            // the job stays held, for its owner to release
	rest   afterRequeue
	note   capacity.AdminNote
}

func (r requeue) action(s View) Action {
	code := "requeue-job"
	verb := "requeue"
	if r.hold {
		code = "hold-job"
		verb = "requeue and hold"
	}

	text := fmt.Sprintf("%s job %s on slot %s: jobs on %s must end by %s", verb, r.job.Shown, r.slot, r.reservation,
		s.formatFence(r.fencedSlot))
	about := capacity.Subject{
		Slot:        r.slot,
		Job:         r.job.Shown,
		Reservation: r.reservation,
	}

	return newAction(code, about, text, func(ctx context.Context, w World) (err error) {
		w.Outcome.Records[r.job.Shown], err = r.do(ctx, w)
		return err
	})
}

// do writes the reason first, so a waiting job has it even if the pass is killed. The steps after the requeue may fail:
// a later pass finishes them, or raises the limit when the job runs again.
func (r requeue) do(ctx context.Context, w World) (record state.JobRecord, err error) {
	record = r.record

	// Read again: the job may have ended, or run anew, since the decision.
	now, err := w.Slurm.Job(ctx, r.job.Shown)
	if err != nil {
		record.Ending = &state.Ending{}
		return record, err
	}

	record.Ending = nil
	if !isSameRun(r.job, now) {
		return record, errMoot
	}

	if r.hold {
		r.note.Held = w.MachineTime()
	}

	told := w.Slurm.SetAdminComment(ctx, r.note.String(), r.job.Shown)
	after, err := w.Slurm.RequeueJob(ctx, r.job, r.hold || r.rest.held)

	// A refused requeue may have happened anyway; then a later pass finishes it.
	if r.rest.held || err != nil {
		record.Ending = &state.Ending{Release: r.rest.held}
	}

	if err == nil && r.hold {
		record.FenceRequeues = 0 // its owner releases it
	}

	if err == nil && after.Shown != "" {
		// Only after the requeue: a job still running with this limit would cross the fence.
		record.Ending, err = r.rest.finish(ctx, w, after)
	}

	return record, errors.Join(told, err)
}

// decideUnfinished completes the requeues of a pass that was killed.
func decideUnfinished(s View) (actions []Action) {
	for _, j := range s.Jobs {
		record := s.JobRecords[j.Shown]
		if record.Ending == nil || j.State != "PENDING" {
			continue
		}

		var rest afterRequeue

		// Only a limit that we set is replaced; the owner's own stays.
		if req := s.Snap.Request(j); !record.HasOwnLimit(j.TimeLimit) {
			req.TimeLimit = record.StatedLimit(req.TimeLimit)
			rest.limit = fullLimit(capacity.Admit(req, s.Snap, s.Now), record)
		}

		// The killed pass held the job to keep it from starting, so releasing it is ours to do.
		if record.Ending.Release {
			rest.fence = time.Unix(record.LastFence, 0)
			rest.held = j.Held
		}

		actions = append(actions,
			jobAction("finish-requeue", "", j, "", isUnchanged, func(ctx context.Context, w World) error {
				var err error

				record.Ending, err = rest.finish(ctx, w, j)
				record.SetMinutes = rest.limit
				if rest.fence.IsZero() && j.HeldByAdmin() {
					record.FenceRequeues = 0
				}

				w.Outcome.Records[j.Shown] = record

				return err
			}))
	}

	return actions
}

// decideCutShort requeues jobs that ended by a limit which was not their owner's: this program did not run when it
// should have raised that, or requeued them. Slurm forgets a job some minutes after its end (MinJobAge).
func decideCutShort(s View) (actions []Action) {
	changed := map[string]state.JobRecord{}
	for _, j := range s.Ended {
		part := s.partition(j.Partition)
		record := recordStarted(j, newRecord(s.Snap, j, s.SavedRecords), s.SavedRecords)
		stated := record.StatedLimit(j.TimeLimit)
		onEnd := fencedSlot{onEnd: part.OnEnd}.onEndFor(j, record)

		// A limit that sync itself chose, however short, or that no pass may raise, has ended the job rightly.
		_, metered := s.Snap.Walls.MaxWall(j.User, j.Account, j.QOS, part)
		short := stated.Minutes > j.TimeLimit.Minutes
		if !stated.Set {
			short = j.TimeLimit == j.TimeMin && s.knownLimit(j) > j.TimeLimit.Minutes
		}

		if j.State != "TIMEOUT" || !j.CanRequeue() || !short || metered || onEnd == capacity.StopAtEnd {
			continue
		}

		req := s.Snap.Request(j)
		req.TimeLimit = stated
		rest := afterRequeue{limit: fullLimit(capacity.Admit(req, s.Snap, s.Now), record)}
		note := capacity.AdminNote{
			Kind: capacity.NoteRequeued,
			At:   s.Now,
			Text: fmt.Sprintf("it ended after %s, and nobody had raised its time limit", j.TimeLimit),
		}
		record.Ending = &state.Ending{}
		changed[j.Shown] = record
		text := fmt.Sprintf("requeue job %s, which ended by a time limit of %s that is not its owner's", j.Shown,
			j.TimeLimit)
		actions = append(actions, jobAction("requeue-job", "", j, text,
			func(was, now capacity.Job) bool { return now.State == was.State && now.Restarts == was.Restarts },
			func(ctx context.Context, w World) error {
				after, err := w.Slurm.RequeueJob(ctx, j, onEnd == capacity.HoldAtEnd)
				if err != nil {
					return err
				}

				record.Ending, err = rest.finish(ctx, w, after)
				w.Outcome.Records[j.Shown] = record

				return errors.Join(err, w.Slurm.SetAdminComment(ctx, note.String(), j.Shown))
			}))
	}

	return append(saveJobRecords(s, changed), actions...)
}

// knownLimit returns the longest limit, in minutes, that the last pass saw or set; 0 if it did not know the job.
func (s View) knownLimit(j capacity.Job) int {
	was, known := s.SavedRecords[j.Shown]
	if !known {
		was = s.SavedRecords[tasksKey(j.Shown)]
	}

	return max(was.SeenMinutes, was.SetMinutes)
}

// isRequeued reports whether a job goes back into the queue when its fence comes, held or not. One that ends by the
// fence by a limit that neither the submit filter nor sync has set does not. A limit that was set ends a job up to a
// minute earlier than it could, and Slurm requeues none for that.
func (f fencedSlot) isRequeued(j capacity.Job, record state.JobRecord) bool {
	endsItself := record.HasOwnLimit(j.TimeLimit) && j.TimeLimit.Bounded() && !j.End.IsZero() && !j.End.After(f.fence)
	return !endsItself && f.onEndFor(j, record) != capacity.StopAtEnd
}

// onEndFor decides what happens to a job that loses its nodes: the on_end of its comment from before the start, or its
// partition's. It never turns an administrator's hold into one that the owner can release.
func (f fencedSlot) onEndFor(j capacity.Job, record state.JobRecord) capacity.OnEnd {
	switch onEnd := cmp.Or(record.OnEnd, f.onEnd); {
	case onEnd == capacity.HoldAtEnd && j.HeldByAdmin():
		return capacity.RequeueAtEnd
	case onEnd == capacity.HoldAtEnd, onEnd == capacity.RequeueAtEnd:
		return onEnd
	}

	return capacity.StopAtEnd
}

// formatFence writes the time of a fence for people.
func (s View) formatFence(f fencedSlot) string {
	return capacity.FormatUTC(f.fence.Add(-s.slurmOffset()))
}

func (s View) requeueAt(f fencedSlot) time.Time {
	return capacity.RequeueAt(f.fence, s.Cluster.KillWait)
}

// warnJob tells a job that cannot be requeued how much time it has left, unless it has been told, cannot be told, or
// ends earlier by its own limit.
func warnJob(s View, j capacity.Job, f fencedSlot, record state.JobRecord) []Action {
	now := s.SlurmNow()
	if j.Configuring() || !now.Before(f.fence) ||
		j.Running() && j.TimeLimit.Bounded() && j.End.Before(s.requeueAt(f)) {
		return nil
	}

	left := f.fence.Sub(now)

	// Each warning is sent once, the shortest that applies: passes may be minutes apart.
	i := slices.IndexFunc(warnMinutes, func(minutes int) bool { return left <= time.Duration(minutes)*time.Minute })
	if i < 0 || record.WarnedMinutes != 0 && warnMinutes[i] >= record.WarnedMinutes {
		return nil
	}

	by := s.formatFence(f)
	message := fmt.Sprintf(
		"pcs-capacity: jobs on %s must end by %s, in %s; this job ends by then and cannot be requeued: save your work",
		f.reservation, by, capacity.FormatDuration(left))

	return []Action{newAction("tell-job", capacity.Subject{Slot: f.slot, Job: j.Shown}, fmt.Sprintf(
		"warn job %s on slot %s that it must end by %s", j.Shown, f.slot, by), func(ctx context.Context, w World) error {
		record.WarnedMinutes = warnMinutes[i]
		w.Outcome.Records[j.Shown] = record
		return w.Slurm.Notify(ctx, j.Shown, message)
	})}
}

// planRequeue plans the requeue of a job, and what follows it: if we fit the job's limit, it gets that of the next
// block.
func planRequeue(s View, j capacity.Job, f fencedSlot, record state.JobRecord) requeue {
	// It gets on: only runs that are over at once use up blocks for nothing.
	ran := s.SlurmNow().Sub(j.Start)
	if ran > f.minTime {
		record.FenceRequeues = 0
	}

	counted := record.HasCounted(f.fence)
	if !counted {
		record.RanMinutes += int(ran / time.Minute)
	}

	// A job that an administrator held while it ran stays so: our hold would be its owner's to release.
	hold := f.onEndFor(j, record) == capacity.HoldAtEnd ||
		record.FenceRequeues >= maxRequeues && !counted && !j.HeldByAdmin()

	rest, note := planNextRun(s, j, f, record, hold)

	// Only requeues count toward maxRequeues: a held job waits for its owner.
	if !hold {
		record.CountFence(f.fence)
	}

	record.Restarts = j.Restarts
	record.Ending = &state.Ending{Release: rest.held}

	return requeue{
		fencedSlot: f,
		job:        j,
		record:     record,
		hold:       hold,
		rest:       rest,
		note:       note,
	}
}

// planNextRun plans what follows a requeue, and what the job's owner is told.
func planNextRun(
	s View, j capacity.Job, f fencedSlot, record state.JobRecord, hold bool,
) (rest afterRequeue, note capacity.AdminNote) {
	fence := f.fence.Add(-s.slurmOffset())
	req := s.Snap.Request(j)
	req.TimeLimit = record.StatedLimit(req.TimeLimit)

	// Judged as of the fence: that is when the job comes back to the queue.
	next := capacity.Admit(req, s.Snap, fence)
	rest.limit = fullLimit(next, record)
	if !hold {
		rest.fence = f.fence
		rest.held = couldEndBefore(j, f.fence, s.SlurmNow())
	}

	then := "it goes on in " + nextReservation(req, s.Snap, fence)
	switch {
	case j.HeldByAdmin():
		then = "an administrator holds it"
	case next.Refused:
		then = "it cannot start again as it is: " + next.Sentence
	case hold && record.FenceRequeues >= maxRequeues:
		then = fmt.Sprintf(
			"it has been requeued like this %d times and is now held: release it if it resumes from where it stopped",
			record.FenceRequeues)
	case hold:
		then = "release it to go on"
	}

	if stated := record.StatedLimit(j.TimeLimit); record.Fit && stated.Set {
		then += fmt.Sprintf("; it has run for %s of its %s", capacity.FormatMinutes(record.RanMinutes), stated)
	}

	return rest, capacity.AdminNote{
		Kind: capacity.NoteRequeued,
		At:   s.Now,
		Text: fmt.Sprintf("jobs on %s must end by %s; %s", f.reservation, capacity.FormatUTC(fence), then),
	}
}

// couldEndBefore reports whether Slurm could start the job again so that it ends before the fence, as it does at once
// with --requeue=expedite.
func couldEndBefore(j capacity.Job, fence, now time.Time) bool {
	least := j.TimeMin
	if !least.Bounded() {
		least = j.TimeLimit
	}

	return !j.Held && least.Bounded() && !now.Add(least.Duration()).After(fence)
}

// nextReservation names the next reservation in which a job can start after its fence.
func nextReservation(req capacity.Request, snap *capacity.Snapshot, fence time.Time) string {
	for _, p := range capacity.Prospects(req, snap, fence) {
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

// fullLimit returns the limit, in minutes, of the whole window that a job waits for, if we fit the job's limit, or the
// one that it had before sync lowered it, if that fits; else 0, which keeps the limit.
func fullLimit(next capacity.Verdict, record state.JobRecord) int {
	switch {
	case record.Fit && record.Wanted.Minutes > 0:
		return record.Wanted.Minutes // Slurm shortens it again
	case next.Refused || record.Cut == nil && !record.Fit:
		return 0
	case record.Cut != nil && record.Cut.Own.Set:
		return record.Cut.Own.Minutes
	}

	return next.Edits.TimeLimit.Minutes
}
