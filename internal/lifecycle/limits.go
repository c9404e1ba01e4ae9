package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// limitChange gives a running job another time limit, so that it ends at its fence, or because that has moved.
type limitChange struct {
	fencedSlot // Its fence is zero where the reservation no longer has an end.
	job        capacity.Job
	minutes    int
}

// fencedSlot is a slot whose jobs must end by the fence, if there is one. Times are in Slurm's clock.
type fencedSlot struct {
	slot, reservation string
	start             time.Time // of the slot's turn; zero if it always had it
	fence             time.Time // zero if the reservation has no end
	maxTime           capacity.Limit
	minTime           time.Duration
	onEnd             capacity.OnEnd // of jobs whose comment has none
}

// fencedNodes names the slot of each node whose slot has a reservation. If Slurm's own time of a fence is the same
// within sameTime, it is used, so the coarse clock offset does not move limits back and forth.
func fencedNodes(s View) map[string]fencedSlot {
	byNode := map[string]fencedSlot{}
	for _, v := range s.slotStates() {
		if v.Reservation.ID == "" {
			continue
		}

		f := fencedSlot{
			slot:        v.Slot.Name,
			reservation: v.Reservation.ID,
			start:       v.Window.Start.Add(s.slurmOffset()),
			maxTime:     v.Partition.MaxTime,
			minTime:     v.Partition.MinTime.Duration,
			onEnd:       v.Partition.OnEnd,
		}
		if !v.Window.Unbounded() {
			f.fence = v.Window.Fence.Add(s.slurmOffset())
		}

		// Slurm's own time is exact; ours follows from a clock offset in whole seconds.
		if r, there := s.Cluster.fence(v.Slot.Name, v.Reservation.ID); there && isNear(r.Start, f.fence) {
			f.fence = r.Start
		}

		for _, name := range s.Cluster.SlotNodes(v.Slot.Name) {
			byNode[name] = f
		}
	}

	return byNode
}

// limitChanges finds the running jobs whose time limit does not end where it should; byNode names the fenced slot of
// each node. All times are in Slurm's clock.
func (s View) limitChanges(jobs []capacity.Job, byNode map[string]fencedSlot) (changes []limitChange) {
	now := s.SlurmNow()
	for _, j := range jobs {
		f, ok := s.earliestFence(j, byNode)
		if !ok || j.State != "RUNNING" || j.Configuring() {
			continue
		}

		elapsed := elapsed(j, now)
		end := now.Add(-elapsed).Add(j.TimeLimit.Duration())
		crosses := !j.TimeLimit.Bounded() || end.After(f.fence)

		// A limit of 0 would mean none; 1 minute ends the job at once if it has already run longer.
		minutes := max(1, capacity.FitLimit(now, f.fence, elapsed, f.maxTime))

		// Whoever set it (R2): after boot, Slurm sets the end to boot done + limit, and does not look at reservations
		// again.
		lower := crosses && (!j.TimeLimit.Bounded() || minutes < j.TimeLimit.Minutes)

		raise := false
		if !crosses && f.fence.Sub(end) > time.Minute && !j.IsPreempted() {
			minutes = s.raisedLimit(j, f, minutes)
			raise = minutes > j.TimeLimit.Minutes
		}

		if lower || raise {
			changes = append(changes, limitChange{f, j, minutes})
		}
	}

	return changes
}

// raisedLimit returns the limit that a job with time left before its fence should have, at most minutes: its present
// one unless sync has chosen or lowered that. No limit is raised past what the owner asked for, and none that sync has
// chosen past what accounting allows, or where that meters use.
func (s View) raisedLimit(j capacity.Job, f fencedSlot, minutes int) int {
	record := s.JobRecords[j.Shown]

	// A job from before the slot's turn runs on instances of the previous block, and ends at that block's fence,
	// whatever fence its nodes have now: slurmctld ends a job over its limit up to 30 s late (PERIODIC_TIMEOUT).
	former := j.Start.Before(f.start.Add(-startSlack))
	if record.HasOwnLimit(j.TimeLimit) || former {
		return j.TimeLimit.Minutes
	}

	bounds := []int{record.Wanted.Minutes}
	if record.Cut != nil {
		bounds = append(bounds, record.Cut.Own.Minutes)
	}

	if record.Fit {
		wall, metered := s.Snap.Walls.MaxWall(j.User, j.Account, j.QOS, s.partition(j.Partition))
		if metered {
			return j.TimeLimit.Minutes
		}

		bounds = append(bounds, wall.Minutes)
	}

	for _, bound := range bounds {
		if bound > 0 {
			minutes = min(minutes, bound)
		}
	}

	return minutes
}

// elapsed returns the used part of a running job's limit. It comes from Slurm's end, which accounts for boot time and
// suspension; an unlimited job's end is far away.
func elapsed(j capacity.Job, now time.Time) time.Duration {
	if j.TimeLimit.Bounded() && !j.End.IsZero() {
		return now.Sub(j.End.Add(-j.TimeLimit.Duration()))
	}
	return now.Sub(j.Start)
}

// startSlack is the tolerated difference between a job's start in Slurm's clock and a block's in AWS's. The previous
// block was closed to jobs for longer than that: from its fence, minutes earlier.
const startSlack = time.Minute

func (c limitChange) isRaise() bool {
	return c.job.TimeLimit.Bounded() && c.minutes > c.job.TimeLimit.Minutes
}

// earliestFence returns the slot whose fence the job has to end by; false if none of its nodes has one.
func (s View) earliestFence(j capacity.Job, byNode map[string]fencedSlot) (fencedSlot, bool) {
	var first fencedSlot

	found := false
	for _, name := range j.Nodes {
		if f := byNode[name]; !f.fence.IsZero() && (!found || f.fence.Before(first.fence)) {
			first = f
			found = true
		}
	}

	// Nodes are in the lender's slot, also for a job of its spare partition.
	if p, ours := s.Snap.Partition(j.Partition); ours {
		first.maxTime = p.MaxTime
		first.onEnd = p.OnEnd
	}

	return first, found
}

// note tells the owner of the job about the change; false if the job's AdminComment is about something else. by is the
// fence in AWS's time.
func (c limitChange) note(by time.Time) (note capacity.AdminNote, needed bool) {
	says, _ := capacity.ParseAdminNote(c.job.AdminComment)
	if c.job.AdminComment != "" && says.Kind != capacity.NoteLimit && says.Kind != capacity.NoteStated {
		return note, false
	}

	note.Kind = capacity.NoteLimit
	note.Text = fmt.Sprintf("%s, not %s: jobs on %s must end by %s", capacity.FormatMinutes(c.minutes),
		c.job.TimeLimit, c.reservation, capacity.FormatUTC(by))
	if c.isRaise() {
		note.Text = capacity.FormatMinutes(c.minutes) + ", as the end of " + c.reservation + " has moved"
	}

	return note, true
}

func decideLimits(s View) (actions []Action) {
	changed := map[string]state.JobRecord{}
	jobs := s.remainingJobs()
	byNode := fencedNodes(s)
	for _, c := range append(s.limitChanges(jobs, byNode), s.restoredLimits(jobs, byNode)...) {
		record := s.JobRecords[c.job.Shown]
		by := c.fence.Add(-s.slurmOffset())

		// The owner of a job whose limit sync has chosen expects it to change.
		if note, needed := c.note(by); needed && !record.Fit {
			actions = append(actions, noteAction(c.job, note, ""))
		}

		changed[c.job.Shown] = c.record(record)
		actions = append(actions, c.action(by))
	}

	return append(saveJobRecords(s, changed), actions...)
}

// record returns the record of the job after the change.
func (c limitChange) record(before state.JobRecord) state.JobRecord {
	switch {
	case before.Fit:
		before.SetMinutes = c.minutes
	case c.fence.IsZero(): // restored
		before.Cut = nil
	default:
		before.RecordCut(c.minutes, c.job.TimeLimit)
	}

	return before
}

// action makes the change. by is the fence in AWS's time.
func (c limitChange) action(by time.Time) Action {
	code := "lower-limit"
	verb := "lower"
	if c.isRaise() {
		code = "raise-limit"
		verb = "raise"
	}

	why := ", so that it ends by " + capacity.FormatUTC(by)
	if c.fence.IsZero() {
		why = ", as before: its reservation no longer has an end"
	}

	text := fmt.Sprintf("%s the time limit of job %s on slot %s from %s to %s%s", verb, c.job.Shown, c.slot,
		c.job.TimeLimit, capacity.FormatMinutes(c.minutes), why)

	return jobAction(code, c.slot, c.job, text,
		func(was, now capacity.Job) bool { return isSameRun(was, now) && now.TimeLimit == was.TimeLimit }, c.apply)
}

// apply sets the limit. For a job that had none, Slurm counts it from when the old one was taken off, which it does not
// show: it is read back and set again.
func (c limitChange) apply(ctx context.Context, w World) error {
	if err := w.Slurm.SetTimeLimit(ctx, c.job.Shown, c.minutes); err != nil || c.job.TimeLimit.Bounded() {
		return err
	}

	// Slurm started to count a moment ago, so the limit ends a little after the fence: shorten it by that.
	now, err := w.Slurm.Job(ctx, c.job.Shown)
	if late := now.End.Sub(c.fence); err == nil && now.TimeLimit.Bounded() && late > 0 {
		return w.Slurm.SetTimeLimit(ctx, c.job.Shown,
			max(1, now.TimeLimit.Minutes-int((late+time.Minute-1)/time.Minute)))
	}

	return err
}

// restoredLimits gives jobs back the limit that sync has lowered where their reservation no longer ends.
func (s View) restoredLimits(jobs []capacity.Job, byNode map[string]fencedSlot) (changes []limitChange) {
	ends := func(node string) bool { f, known := byNode[node]; return !known || !f.fence.IsZero() }
	for _, j := range jobs {
		cut := s.JobRecords[j.Shown].Cut
		if cut == nil || !j.Running() || j.IsPreempted() || slices.ContainsFunc(j.Nodes, ends) {
			continue
		}

		minutes := cut.Own.Minutes
		// The job had no limit; Slurm takes none back from scontrol, but a very long one.
		if !cut.Own.Set {
			minutes = int(capacity.SlurmInfinite / time.Minute)
		}

		changes = append(changes, limitChange{byNode[j.Nodes[0]], j, minutes})
	}

	return changes
}

// on_end= in a comment says what happens to the job at the fence. Users can write it at any time, so it counts only
// from before the job's start (R7): each pass records it, and for a job that has started the last record from before
// counts; so does the limit that a job with --time-min stated, which Slurm forgets when it shortens the job.
//
// A limit that is neither the one that the last pass saw nor the one that it set is somebody else's: it counts as one
// that the job stated. Only at a start Slurm itself shortens limits, before 25.05.3 to --time-min.
//
// A job that is submitted and starts between two passes is first seen running, and its comment is trusted as it is, so
// for the length of one pass a user can still write on_end=. That gains nothing over writing it at submission. Where
// job_submit.lua is installed, it refuses such a change.

// trustRecords returns the job records that count, by Shown; before are those of the last pass.
func trustRecords(
	snap *capacity.Snapshot, jobs []capacity.Job, before map[string]state.JobRecord,
) map[string]state.JobRecord {
	records := make(map[string]state.JobRecord, len(jobs))
	for _, j := range jobs {
		switch j.State {
		case "PENDING":
			records[recordKey(j.Shown)] = recordPending(j, newRecord(snap, j, before), before)
		case "RUNNING", "SUSPENDED":
			records[j.Shown] = recordStarted(j, newRecord(snap, j, before), before)
		}
	}

	return records
}

// newRecord returns what Slurm shows of a job. Minutes is the limit of its owner, as far as that can be known: the one
// in a note from its submission, the one that an earlier pass saw, or that of a job which waits.
func newRecord(snap *capacity.Snapshot, j capacity.Job, before map[string]state.JobRecord) state.JobRecord {
	wish, _ := j.Wish()
	fitted, stated := snap.IsFitted(j)
	shrinks := j.TimeMin.Bounded() && j.TimeLimit.Bounded() && j.TimeMin.Minutes < j.TimeLimit.Minutes
	note, _ := capacity.ParseAdminNote(j.AdminComment)

	limit := note.Stated
	switch was := before[j.Shown].Wanted; {
	case limit.Set:
	case stated && was.Minutes > 0: // of an earlier start
		limit = capacity.Minutes(was.Minutes)
	case j.Pending() && (stated || shrinks && !fitted):
		limit = j.TimeLimit
	}

	return state.JobRecord{
		Restarts: j.Restarts,
		Wanted: state.Wanted{
			OnEnd:   wish.OnEnd,
			Fit:     fitted || limit.Set,
			Minutes: limit.Minutes,
		},
		RanMinutes:    before[j.Shown].RanMinutes,
		FenceRequeues: before[j.Shown].FenceRequeues,
		LastFence:     before[j.Shown].LastFence,
	}
}

// recordPending completes the record of a pending job. What was done to its limit counts only while a requeue is
// unfinished.
func recordPending(j capacity.Job, said state.JobRecord, before map[string]state.JobRecord) state.JobRecord {
	was, known := before[recordKey(j.Shown)]
	if !known {
		was = before[tasksKey(j.Shown)] // a task that somebody has changed waits apart from the others
	}

	said.HadTimeMin = was.HadTimeMin || j.TimeMin.Set
	if was.Restarts == j.Restarts {
		said.Unused = was.Unused
	}

	switch {
	case was.Ending != nil:
		said.Ending = was.Ending
		said.Cut = was.Cut
		said.Fit = was.Fit
		said.Wanted.Minutes = was.Wanted.Minutes
	case said.Fit && was.ChangedByOthers(j.TimeLimit, j.Restarts, false):
		said.Wanted.Minutes = j.TimeLimit.Minutes
	case said.Fit && was.Wanted.Minutes > 0: // Slurm may have shortened the limit in an earlier run
		said.Wanted.Minutes = was.Wanted.Minutes
	}

	if said.Fit {
		said.SeenMinutes = j.TimeLimit.Minutes
	}

	return said
}

// recordStarted completes the record of a started job. What its user writes after the start does not count: the
// last record of the same run does.
func recordStarted(j capacity.Job, said state.JobRecord, before map[string]state.JobRecord) state.JobRecord {
	was, known := before[j.Shown]

	// The job has left the queue, so nothing of its requeue holds it there.
	if was.Ending != nil {
		said.Ending = &state.Ending{}
	}

	// A task that has just started was recorded with its array.
	if !known || was.Restarts != j.Restarts {
		was, known = before[tasksKey(j.Shown)]
	}

	// The same run: what counts is what was recorded before it started.
	if known && was.Restarts == j.Restarts {
		said.Wanted = was.Wanted
		said.WarnedMinutes = was.WarnedMinutes

		if was.IsOwnCut(j.TimeLimit) { // else somebody has set another
			said.Cut = was.Cut
		}

		if was.ChangedByOthers(j.TimeLimit, j.Restarts, true) {
			said.Wanted.Minutes = j.TimeLimit.Minutes
		}
	}

	if said.Fit {
		said.SeenMinutes = j.TimeLimit.Minutes
		said.Started = true
	}

	return said
}

// tasksKey returns the key of the pending tasks of an array, for one of its tasks.
func tasksKey(shown string) string {
	array, _, _ := strings.Cut(shown, "_")
	return array + "_"
}

// recordKey returns the key of a pending job: tasks that wait together, 12_[1-4], become jobs of their own, 12_1, one
// by one.
func recordKey(shown string) string {
	if strings.Contains(shown, "_[") {
		return tasksKey(shown)
	}
	return shown
}

// trustedRecords returns the job records that count now, for the jobs that a pass may change: jobs in our partitions,
// and jobs on nodes that they will lose.
func trustedRecords(s View) map[string]state.JobRecord {
	byNode := fencedNodes(s)
	records := trustRecords(s.Snap, excludeJobs(s.Jobs, func(j capacity.Job) bool {
		_, ends := s.earliestFence(j, byNode)

		return !ends &&
			!slices.ContainsFunc(j.Partitions(),
				func(name string) bool { _, ours := s.Snap.Partition(name); return ours })
	}), s.SavedRecords)

	listed := map[string]bool{}
	for _, j := range slices.Concat(s.Jobs, s.Unread, s.Elsewhere) {
		listed[recordKey(j.Shown)] = true
	}

	// Any other job keeps its record as long as Slurm may have it: it may be ours again in the next pass.
	for key, record := range s.SavedRecords {
		_, counts := records[key]
		if !counts && (listed[key] || s.OursOnly) {
			records[key] = record
		}
	}

	return records
}

// saveJobRecords saves the job records, with those that have changed, before the changes that they describe: the pass
// after a killed one knows what is left to do. If changed is empty and not nil, there is nothing to save.
func saveJobRecords(s View, changed map[string]state.JobRecord) []Action {
	if changed != nil && len(changed) == 0 {
		return nil
	}

	return []Action{newAction("keep-marks", capacity.Subject{}, "", func(_ context.Context, w World) error {
		maps.Copy(w.Outcome.Records, changed)
		return w.State.JobRecords().Save(mergeRecords(s.JobRecords, changed))
	})}
}

// mergeRecords returns the records with those that have changed.
func mergeRecords(records, changed map[string]state.JobRecord) map[string]state.JobRecord {
	if len(changed) == 0 {
		return records
	}

	all := maps.Clone(records)
	maps.Copy(all, changed)

	return all
}

// partition returns one of Slurm's partitions with what decides about its jobs' limits: a partition that is not ours
// may share nodes with ours.
func (s View) partition(name string) capacity.Partition {
	if part, ours := s.Snap.Partition(name); ours || s.Cluster == nil {
		part.Name = name
		return part
	}

	sp, _ := s.Cluster.partition(name)

	return capacity.Partition{Name: name, MaxTime: sp.MaxTime, QOS: sp.QOS}
}
