package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file tells the owners of waiting jobs, in AdminComments, what squeue does not show: that a job can never start
// as it is, or cannot as things are, or that hosts of its block have failed.

// maxNotesPerPass bounds the owners that one pass tells: each takes one scontrol, about 7 ms.
const maxNotesPerPass = 200

// waiter judges waiting jobs, equal ones once, as the tasks of an array are.
type waiter struct {
	snap   *capacity.Snapshot
	now    time.Time
	before *capacity.Snapshot // of the last pass, if a refusal has to be its as well; else nil
	known  map[jobKey]stuckReason
}

// stuckReason says why a job of ours waits forever; zero if it does not.
type stuckReason struct {
	refused capacity.Verdict
	timeMin capacity.Limit // with which the job need not wait for an end; unset if it has to, or does not
	few     string         // what is left of its hosts, if too many have failed
	usable  int            // the nodes that could start now instead; 0 for none
	unsure  bool           // this pass alone refuses it
}

func (w *waiter) judge(j *capacity.Job) stuckReason {
	key := keyOf(j, w.now)
	c, known := w.known[key]
	if !known {
		c = w.why(j)
		w.known[key] = c
	}

	return c
}

func (w *waiter) why(j *capacity.Job) (c stuckReason) {
	req := w.snap.Request(*j)
	ours := 0
	for _, name := range req.Partitions {
		if _, managed := w.snap.Partition(name); managed {
			ours++
		}
	}

	if ours == 0 {
		return c
	}

	v := capacity.Admit(req, w.snap, w.now)
	if v.Refused && ours == len(req.Partitions) {
		// A clock, settings or a fence that one pass alone has read is no reason to tell anybody.
		if w.before != nil && !capacity.Admit(w.before.Request(*j), w.before, w.before.TakenAt).Refused {
			c.unsure = true
			return c
		}

		c.refused = v

		return c
	}

	if !v.Edits.TimeLimit.Set {
		c.timeMin = v.Edits.TimeMin
	}

	// The job is admitted. Failed hosts are the one reason that squeue does not show.
	few, short := capacity.HostShortage(capacity.Prospects(req, w.snap, w.now), w.now)
	if !short {
		return c
	}

	c.few = few.ShortageText()
	c.usable = few.Usable

	return c
}

// note returns the AdminComment that a waiting job needs; false if the present one may stay.
func (w *waiter) note(j capacity.Job) (want capacity.AdminNote, needed bool) {
	says, _ := capacity.ParseAdminNote(j.AdminComment)
	told := says.Refuses() || says.Kind == capacity.NoteFailedHosts

	ours := told || says.Kind == capacity.NoteStartsAgain || says.Kind == capacity.NoteNotLaunched ||
		says.Kind == capacity.NoteStated // the record has it too
	if !j.CanStart() || j.HeldByAdmin() || j.AdminComment != "" && !ours {
		return want, false // it waits for another reason, which its owner knows
	}

	switch c := w.judge(&j); {
	case c.refused.Refused && says.Refuses():
		return want, false // told once, even if the numbers change
	case c.unsure:
		return want, false // the next pass knows
	case c.refused.Refused:
		want = capacity.AdminNote{Kind: capacity.NoteCannotStart, Text: c.refused.Sentence}
		if c.refused.Code.Never() {
			want.Kind = capacity.NoteNeverStarts
		}
	case c.few != "":
		want = capacity.AdminNote{Kind: capacity.NoteFailedHosts, Text: c.few}
		if c.usable > 0 {
			want.Text += fmt.Sprintf("; to start now, ask for fewer: scontrol update numnodes=%d jobid=%s", c.usable,
				j.Shown)
		}
	case told:
		want.Kind = capacity.NoteStartsAgain
	}

	return want, want.Kind != "" && want.String() != j.AdminComment
}

// maxFitsPerPass bounds the jobs to which one pass gives a limit: each takes one scontrol, about 7 ms, and the pass has
// more to do.
const maxFitsPerPass = 1000

// editedJob has a pending job that the submit filter would edit, but did not: it never saw the job, had no snapshot, or
// the job or the settings have changed since.
type editedJob struct {
	job   capacity.Job
	edits capacity.Edits
}

// edits returns what a waiting job lacks; zero for most. record is what earlier passes know of it.
func (w *waiter) edits(j capacity.Job, record state.JobRecord, defaults map[string]capacity.Limit) capacity.Edits {
	if lacks := w.missingLimit(j, defaults); lacks.TimeLimit.Bounded() {
		return lacks
	}

	// A run has shortened its limit.
	isShort := j.TimeLimit.Bounded() && j.TimeLimit.Minutes < record.Minutes
	if record.Fit && record.Ending == nil && isShort {
		return capacity.Edits{TimeLimit: capacity.Minutes(record.Minutes)}
	}

	// Its owner may have taken away what sync gave.
	if record.HadTimeMin {
		return capacity.Edits{}
	}

	return capacity.Edits{TimeMin: w.judge(&j).timeMin}
}

// missingLimit returns the filter's edits for a waiting job that cannot start only because a limit of its own is
// missing: the submit filter never saw it, or accepted it without a snapshot, or it moved to our partition later.
// defaults are the limits of partitions for jobs that state none.
func (w *waiter) missingLimit(j capacity.Job, defaults map[string]capacity.Limit) (none capacity.Edits) {
	req := w.snap.Request(j)
	isDefault := func(partition string) bool { return j.TimeLimit == defaults[partition] }
	if j.TimeLimit.Bounded() && !slices.ContainsFunc(req.Partitions, isDefault) {
		return none
	}

	if !req.TimeLimit.Set {
		req.TimeLimit = capacity.NoLimit
	}

	// It can start as it is.
	if v := capacity.Admit(req, w.snap, w.now); v.Code == capacity.OK || v.Code == capacity.NotManaged {
		return none
	}

	// Asked as if it had been submitted without --time: do the filter's edits help?
	req.TimeLimit = capacity.Limit{}

	return capacity.Admit(req, w.snap, w.now).Edits
}

// decideWaiting handles jobs that wait and cannot start as they are: it gives them what they lack, and tells the owners
// of the others, each once. A later pass handles the rest. Without AWS nobody knows which jobs could start.
func decideWaiting(s View) []Action {
	if s.NoAWS {
		return nil
	}

	defaults := map[string]capacity.Limit{}
	for _, part := range s.Cluster.Partitions {
		defaults[part.Name] = part.DefaultTime
	}

	w := waiter{s.Snap, s.Now, s.old(), map[jobKey]stuckReason{}}

	var (
		fits []editedJob
		tell []Action
	)
	for _, j := range s.remainingJobs() {
		if !j.CanStart() {
			continue
		}

		// Mended, not reported.
		edits := w.edits(j, s.JobRecords[recordKey(j.Shown)], defaults)
		if edits != (capacity.Edits{}) && len(fits) == maxFitsPerPass {
			continue
		}

		if edits != (capacity.Edits{}) {
			fits = append(fits, editedJob{j, edits})
			j = edits.Apply(j)
		}

		if len(tell) == maxNotesPerPass {
			continue
		}

		if note, needed := w.note(j); needed {
			text := fmt.Sprintf("tell the owner of job %s: %s", j.Shown, note.Sentence())
			tell = append(tell, noteAction(j, note, text))
		}
	}

	return slices.Concat(recordEdits(s, fits), setLimitActions(fits), tell)
}

// recordEdits saves what is about to be edited: the next pass must not take our limit for somebody else's.
func recordEdits(s View, fits []editedJob) []Action {
	records := map[string]state.JobRecord{}
	for _, u := range fits {
		key := recordKey(u.job.Shown)
		record := s.JobRecords[key]
		switch {
		case u.edits.TimeLimit.Set && record.Fit:
			record.SetMinutes = u.edits.TimeLimit.Minutes
		case !u.edits.TimeLimit.Set: // Slurm may start it before the next pass
			record.Fit = true
			record.Minutes = u.job.TimeLimit.Minutes
			record.SeenMinutes = record.Minutes
		}

		if record != s.JobRecords[key] {
			records[key] = record
		}
	}

	return saveJobRecords(s, records)
}

// jobKey holds all of a job that its verdict depends on: jobs that ask for the same get the same verdict.
type jobKey struct {
	partition, account, user, qos, comment, constraint, reservation string
	limit, timeMin                                                  capacity.Limit
	begin, deadline                                                 time.Time // no begin if it is past
	nodes                                                           int
	batch, requeue                                                  bool
}

func keyOf(j *capacity.Job, now time.Time) jobKey {
	a := jobKey{
		partition:   j.Partition,
		account:     j.Account,
		user:        j.User,
		qos:         j.QOS,
		comment:     j.Comment,
		constraint:  j.Constraint,
		reservation: j.Reservation,
		limit:       j.TimeLimit,
		timeMin:     j.TimeMin,
		begin:       j.Eligible,
		deadline:    j.Deadline,
		nodes:       j.NumNodes,
		batch:       j.Batch,
		requeue:     j.Requeue,
	}
	if a.begin.Before(now.Add(-time.Hour)) { // more than any clock error: no verdict depends on it
		a.begin = time.Time{}
	}

	return a
}

// setLimitActions sets the limits of jobs. The first action sets all of them, because one call reads them all, and one
// reads them all back.
func setLimitActions(fits []editedJob) (actions []Action) {
	var failed map[string]error
	for _, u := range fits {
		job := u.job.Shown
		text := u.describe()
		set := func(ctx context.Context, w World) error {
			if failed == nil {
				failed = setLimits(ctx, w, fits)
			}
			return failed[job]
		}
		actions = append(actions, newAction("set-limit", capacity.Subject{Job: job}, text, set))
	}

	return actions
}

func (u editedJob) describe() string {
	switch {
	case !u.edits.TimeMin.Set:
		return fmt.Sprintf("set the time limit of job %s back to its own, %s", u.job.Shown, u.edits.TimeLimit)
	case !u.edits.TimeLimit.Set:
		return fmt.Sprintf("set --time-min=%s for job %s, which is requeued at a fence and need not fit before it",
			u.edits.TimeMin, u.job.Shown)
	}

	return fmt.Sprintf("set the time limit of job %s, which has none of its own, to %s with --time-min=%s",
		u.job.Shown, u.edits.TimeLimit, u.edits.TimeMin)
}

// setLimits sets the limits of those jobs that are as they were read. The errors are by job.
func setLimits(ctx context.Context, w World, fits []editedJob) map[string]error {
	// One call for all: a scontrol for each job would take the pass minutes.
	live, _, err := w.Slurm.JobsOf(ctx, nil, func(j capacity.Job) bool { return j.State == "PENDING" })
	now := make(map[string]capacity.Job, len(live))
	for _, j := range live {
		now[j.Shown] = j
	}

	edits := map[string]capacity.Edits{}
	failed := map[string]error{}
	for _, u := range fits {
		if job := u.job.Shown; isUnchanged(u.job, now[job]) {
			edits[job] = u.edits
		} else {
			failed[job] = cmp.Or(err, errMoot)
		}
	}

	if len(edits) > 0 {
		maps.Copy(failed, w.Slurm.Edit(ctx, edits))
	}

	return failed
}

// relabels bounds the time after a requeue in which Slurm may turn any hold into an administrator's: when the job's
// last run has been cleaned up, and again when the scheduler next runs (seen on 24.11: up to 5 s on a busy machine).
const relabels = 10 * time.Second

// decideHeldJobs gives our holds to the jobs' owners, who can then release them. The note that the hold is ours stays
// for a moment, in which Slurm may turn the hold into an administrator's again. A later hold by an administrator stays.
// If an administrator holds a job that only administrators can release, Slurm shows no difference (22.05 to 25.11):
// whoever places such a hold must clear our note as well.
func decideHeldJobs(s View) []Action {
	now := s.SlurmNow()

	var actions []Action
	for _, j := range s.remainingJobs() {
		note, _ := capacity.ParseAdminNote(j.AdminComment)
		if note.Held.IsZero() || !j.Settled() || note.Held.After(now) {
			continue
		}

		since := note.Held // of the requeue or of a hold; Slurm sets Begin from it
		if !j.Eligible.After(now) && j.Eligible.After(since) {
			since = j.Eligible
		}

		over := !since.Add(relabels).After(now)
		admin := j.HeldByAdmin() && (over || !j.HeldByUnknown())
		if admin || over { // else a later pass does
			note.Held = time.Time{}
			actions = append(actions, endHold(j, admin, over, note))
		}
	}

	return actions
}

// endHold turns our hold into one that the job's owner can release, if it is still an administrator's. With over
// nothing can make it an administrator's again, so note, which has no hold any more, replaces ours.
func endHold(j capacity.Job, admin, over bool, note capacity.AdminNote) Action {
	text := ""
	if admin {
		text = fmt.Sprintf("let the owner of job %s release it", j.Shown)
	}

	return jobAction("end-hold", "", j, text, isUnchanged, func(ctx context.Context, w World) error {
		if admin {
			if err := w.Slurm.UserHold(ctx, j.Shown); err != nil {
				return err
			}

			// Somebody has written another note since: it stays.
			if now, err := w.Slurm.Job(ctx, j.Shown); err != nil || now.AdminComment != j.AdminComment {
				return err
			}
		}

		if !over {
			return nil
		}

		return w.Slurm.SetAdminComment(ctx, note.String(), j.Shown)
	})
}
