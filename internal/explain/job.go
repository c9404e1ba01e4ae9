package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// aYear: from this far ahead, Slurm's estimate of a start is the end of an infinite fence.
const aYear = 300 * 24 * time.Hour

// atFence bounds how far from its fence a job ends whose limit was fitted to the fence in whole minutes.
const atFence = time.Minute

const slurmStarts = nothingToDo + ": Slurm starts it then."

// screen makes the explanation of a job.
type screen struct {
	Explanation
	j         capacity.Job
	req       capacity.Request
	prospects []capacity.Prospect
	snap      *capacity.Snapshot
	now       time.Time
	note      capacity.AdminNote
	noted     bool // by a program of ours
}

// OfJob says why a job does not start, or what happens to it. now is AWS's time.
func OfJob(j capacity.Job, snap *capacity.Snapshot, records []state.Record, now time.Time) Explanation {
	req := snap.Request(j)
	j = j.ShiftTimes(snap.ClockOffset.Duration)
	note, noted := capacity.ParseAdminNote(j.AdminComment)
	e := &screen{
		Explanation: newExplanation("job " + j.Shown),
		j:           j,
		req:         req,
		prospects:   capacity.Prospects(req, snap, now),
		snap:        snap,
		now:         now,
		note:        note,
		noted:       noted,
	}

	e.add("partition", "%s", strings.Join(req.Partitions, ", "))

	limit := req.TimeLimit.String()
	if req.TimeMin.Bounded() {
		limit += ", at least " + req.TimeMin.String()
	}

	e.add("time limit", "%s", limit)
	fitted := e.fittedLimit()
	e.add("limit", "%s", fitted)
	e.add("constraint", "%s", req.Constraint)

	waits := j.State == "PENDING"
	managed := func(name string) bool {
		_, ours := snap.Partition(name)
		return ours
	}

	switch {
	case j.State == "RUNNING" && j.Configuring():
		e.explainBoot()
	case j.State == "RUNNING" || j.State == "SUSPENDED":
		e.explainRun(fitted != "")
	case j.State == capacity.Revoked:
		e.answer(capacity.Ended, "See `squeue --federation -j {}` for where it is.",
			"is not in this cluster's queue: another cluster of the federation runs it.")
	case !waits:
		e.answer(capacity.Ended, "See `sacct -j {}` for how it went.", "is over: %s.", j.State)
	case !slices.ContainsFunc(req.Partitions, managed):
		e.answer(capacity.NotManaged, "Ask Slurm: `scontrol show job {}`.",
			"waits in a partition that pcs-capacity does not manage.")
	default:
		e.explainPending(records)
	}

	if waits {
		e.reservations()
		e.add("expected", "%s", capacity.DescribeRuns(e.req, capacity.Admit(e.req, snap, now), snap, now))
	}

	for name := range strings.SplitSeq(j.Reservation, ",") {
		if fence, past := snap.FenceBypasses[name]; past && j.Active() {
			e.add("past the fence", "Slurm starts it in reservation %s even if it does not end before the fence; "+
				"sync then lowers its limit to end by %s", name, capacity.FormatUTC(fence))
		}
	}

	e.add("message", "%s", note.Sentence())

	if waits {
		e.add("squeue", "%s", squeueReason(j, now))
	}

	e.addAge(snap, now)

	return e.Explanation
}

// reservations lists those that a job may wait for, and those that are passed over.
func (e *screen) reservations() {
	for _, p := range e.prospects {
		if p.Reservation.ID != "" {
			e.add("reservation", "%s", describeWindow(p.Reservation.ID, p.Window, e.now))
		}
	}

	if e.Code == capacity.Mismatched {
		return // the answer names them
	}

	for _, m := range capacity.MismatchProblems(e.req, e.snap, e.now) {
		e.add("skipped", "%s", m.Text())
	}
}

// squeueReason returns Slurm's reason for a job that waits, and its estimate of the start.
func squeueReason(j capacity.Job, now time.Time) string {
	switch {
	case j.Start.Sub(now) > aYear:
		return j.Reason + "; start " + j.Start.UTC().Format(time.DateOnly) +
			": that is how it shows a fence without an end"
	case j.Start.After(now):
		return j.Reason + "; start " + capacity.FormatUTC(j.Start)
	}

	return j.Reason
}

// fence returns that of a job that has nodes; zero if there is none. The first of several partitions is theirs:
// sbatch(1).
func (e *screen) fence() time.Time {
	return e.snap.EarliestFence(e.req.Partitions[0], e.j.Nodes, e.now)
}

// fittedLimit says that the end of a job is that of its fence, set by sync; "" if it is not.
func (e *screen) fittedLimit() string {
	j := e.j
	fence := e.fence()

	fitted, stated := e.snap.IsFitted(j)

	switch {
	case stated && j.Pending():
		return "Slurm starts it with less, and sync raises that to what fits before the fence"
	case fitted && j.Pending(), fitted && j.Running() && !fence.IsZero():
		return "sync fits it to the fence while the job runs"
	case j.Running() && j.TimeLimit.Bounded() && !j.End.IsZero() && fence.Sub(j.End).Abs() <= atFence:
		return "ends at the fence: sync lowers one that crosses it"
	}

	return ""
}

// explainBoot says how long a job waits for its nodes at most. Some may boot for longer than the job has them.
func (e *screen) explainBoot() {
	j := e.j
	e.answer(capacity.Boots, nothingToDo+".", "got nodes %s at %s, and waits for them to boot.",
		j.Hostlist(), formatTime(j.Start, e.now))

	p, _ := e.snap.Partition(e.req.Partitions[0])
	if p.ResumeTimeout.Duration <= 0 || p.ResumeTimeout.Duration > aYear {
		return
	}

	then := "ends the job"
	if j.CanRequeue() {
		then = "requeues the job"
	}

	gaveUp := j.Start.Add(p.ResumeTimeout.Duration)
	e.add("at the latest", "%s: Slurm gives up on nodes that have not booted by then (ResumeTimeout), and %s",
		formatTime(gaveUp, e.now), then)
}

func (e *screen) explainRun(limitIsOurs bool) {
	j := e.j

	until := ""
	if !j.End.IsZero() && j.TimeLimit.Bounded() {
		until = " until " + formatTime(j.End, e.now) + " at the latest"
	}

	e.answer(capacity.Runs, nothingToDo+".", "runs on %s%s.", j.Hostlist(), until)

	fence := e.fence()
	if fence.IsZero() {
		return
	}

	p, _ := e.snap.Partition(e.req.Partitions[0])
	wish, _ := j.Wish()
	onEnd := cmp.Or(wish.OnEnd, p.OnEnd)
	if j.State == "SUSPENDED" {
		e.add("suspended", "sync resumes it at %s, so that it ends by the fence",
			capacity.FormatUTC(capacity.RequeueAt(fence, e.snap.KillWait.Duration)))
	} else if !limitIsOurs && j.TimeLimit.Bounded() && !j.End.After(fence) {
		onEnd = capacity.StopAtEnd // its owner's limit
	}

	end := "its time limit ends it"
	switch {
	case !j.CanRequeue():
		end += "; it cannot be requeued"
	case onEnd == capacity.RequeueAtEnd:
		end = "it is requeued, and goes on in the next block"
	case onEnd == capacity.HoldAtEnd:
		end = "it is requeued and held"
	default:
		e.Advice += " Save what you need before its limit: `sbatch --signal=B:USR1@600` sends a signal."
	}

	e.add("at the fence", "%s: %s", capacity.FormatUTC(fence), end)
}

// explainPending explains a job that waits in a partition of ours: first what prevents any start, then what the job
// waits for.
func (e *screen) explainPending(records []state.Record) {
	j := e.j
	verdict := capacity.Admit(e.req, e.snap, e.now)
	failed := lastFailure(j.Shown, records)

	if least := verdict.Edits.TimeMin; least.Set && e.req.TimeLimit.Set {
		e.add("limit", "sync lets Slurm start it with less, %s, as it is requeued at the fence", least)
	}

	few, short := capacity.HostShortage(e.prospects, e.now)
	fits := slices.DeleteFunc(slices.Clone(e.prospects), func(p capacity.Prospect) bool { return !p.Fits })
	_, bySlurm := j.HeldBySlurm()

	switch {
	case bySlurm, j.Held:
		e.explainHold()
	case !j.CanStart():
		e.answer(capacity.NeverByRule,
			"Cancel it: `scancel {}`; or let it run without that job: `scontrol update jobid={} dependency=`.",
			"never starts: a job that it depends on did not end as --dependency demands, or is not known.")
	case verdict.Refused:
		e.explainRefusal(verdict)
	case short:
		do := fmt.Sprintf("Wait until the others are back, or ask for fewer: `scontrol update jobid={} numnodes=%d`.",
			few.Usable)
		e.answer(capacity.WaitsForHosts, do, "asks for %d nodes, but only %d of the %d hosts of %s can be used.",
			few.Needs, few.Usable, few.Reservation.Size(), few.Reservation.ID)
	case e.note.Kind == capacity.NoteNotLaunched, e.noted && failed.Code != "":
		e.explainFailedLaunch(failed)
	case j.Eligible.After(e.now):
		e.explainPause(fits)
	default:
		e.explainWait(fits, verdict)
	}
}

// explainHold says who can release a job.
func (e *screen) explainHold() {
	const release = "`scontrol release {}`."

	j := e.j
	if j.Held && !e.note.Held.IsZero() { // our hold, which shows no other
		e.add("keep held", "administrators: `scontrol update jobid=%s admincomment=`, then `scontrol hold %s`",
			j.Shown, j.Shown)
	}

	hold, bySlurm := j.HeldBySlurm()
	switch {
	case bySlurm:
		e.answer(capacity.Held, hold.Do, "is held by Slurm: %s.", hold.Why)
	case e.noted && e.note.Kind != capacity.NoteStated:
		e.answer(capacity.Held, "To let it go on: "+release, "is held: %s.", strings.TrimSuffix(e.note.Sentence(), "."))
	case j.Reason == "JobHeldAdmin":
		e.answer(capacity.Held, "Administrators: "+release, "is held, and only an administrator can release it.")
	case j.Reason != "JobHeldUser" && !j.HeldByUnknown():
		e.answer(capacity.Held, "See `scontrol show job {}`, then "+release, "is held; Slurm gives the reason: %s.",
			j.Reason)
	default:
		e.answer(capacity.Held, "Release it: "+release, "is held, by its owner or by an administrator.")
	}
}

// explainFailedLaunch explains a job whose nodes could not be launched; failed is its last record, zero if there is
// none.
func (e *screen) explainFailedLaunch(failed state.Record) {
	code := cmp.Or(failed.Code, e.note.Code)
	if failed.Code != "" {
		e.add("last try", "%s on %s: %s", capacity.FormatUTC(failed.At), failed.Nodes, failed.Message)
	}

	again := "when Slurm next finds nodes for it"
	if e.j.Eligible.After(e.now) {
		again = "at " + formatTime(e.j.Eligible, e.now)
	}

	e.answer(capacity.LaunchFailed,
		nothingToDo+" yet. If it fails again and again, show an administrator this screen.",
		"waits because its nodes could not be launched (%s); it is tried again %s.", code, again)
}

// explainPause explains a job that may not start yet. fits are the prospects that take it.
func (e *screen) explainPause(fits []capacity.Prospect) {
	j := e.j
	begins := formatTime(j.Eligible, e.now)
	reason, _, _ := strings.Cut(e.note.Text, "; ")
	requeued := e.note.Kind == capacity.NoteRequeued

	why := "--begin"
	if j.Restarts > 0 {
		why = "Slurm's pause after a requeue, or --begin"
	}

	switch {
	case requeued && len(fits) > 0 && fits[0].Window.Start.After(j.Eligible):
		e.answer(capacity.NextBlock, slurmStarts, "was requeued: %s. It waits for the next block, %s.",
			reason, e.opens(fits[0]))
	case requeued:
		e.answer(capacity.WaitsToBegin, slurmStarts, "was requeued: %s. It may start again at %s.", reason, begins)
	default:
		e.answer(capacity.WaitsToBegin, nothingToDo+", or `scontrol update jobid={} starttime=now`.",
			"may not start before %s (%s).", begins, why)
	}
}

// opens names the reservation that a job waits for.
func (e *screen) opens(p capacity.Prospect) string {
	return fmt.Sprintf("%s, which opens at %s", p.Reservation.ID, formatTime(p.Window.Start, e.now))
}

// explainRefusal explains a job that is refused as it is.
func (e *screen) explainRefusal(v capacity.Verdict) {
	do := "Cancel it, `scancel {}`, and submit it as the first line says."

	// The same job without a limit of its own shows which limit would be accepted.
	unlimited := e.req
	unlimited.TimeLimit = capacity.Limit{}
	unlimited.TimeMin = capacity.Limit{}

	fits := capacity.Admit(unlimited, e.snap, e.now).Edits.TimeLimit
	switch {
	case v.Code == capacity.TooLong && fits.Bounded():
		do = fmt.Sprintf("Shorten it: `scontrol update jobid={} timelimit=%s`%s.", fits, e.orRequeue())
	case v.Code == capacity.AccountNotAllowed:
		do = "Give it an account that is allowed: `scontrol update jobid={} account=NAME`; or ask an administrator."
	case v.Code == capacity.TooLong, v.Code == capacity.NoReservation:
		do = "Wait until an administrator has the next block, or cancel it: `scancel {}`."
	case v.Code == capacity.Mismatched:
		do = "Wait until an administrator has fixed that (`pcs-capacity check` says how), " +
			"or cancel it: `scancel {}`."
	}

	e.answer(v.Code, do, "%s: %s.", v.Outlook(), v.Sentence)
}

// orRequeue says how a job that waits for an end need not wait; "" if it has to.
func (e *screen) orRequeue() string {
	could := func(p capacity.Prospect) bool { return p.CouldRunToFence(e.req, e.snap) }
	if !slices.ContainsFunc(e.prospects, could) {
		return ""
	}

	return "; or, if it can go on from a checkpoint, add on_end=requeue to its comment: " +
		"`scontrol update jobid={} comment=...`"
}

// explainWait explains a job that is admitted and waits. fits are the prospects that take it.
func (e *screen) explainWait(fits []capacity.Prospect, v capacity.Verdict) {
	if len(fits) == 0 {
		e.explainNoProspect(v)
		return
	}

	j := e.j
	p := fits[0]
	later := func(p capacity.Prospect) bool { return p.Window.Start.After(e.now) }
	where := cmp.Or(p.Reservation.ID, "partition "+p.Partition.Name) + ", which is open"

	var out []string

	left := p.Usable
	for _, o := range p.Slot.Out {
		out = append(out, o.String())
		left -= o.Count
	}

	// Open reservations that are too short for the job: a shorter limit would start it now.
	here := slices.DeleteFunc(slices.Clone(e.prospects), later)
	switch {
	case !later(p) && rules.MatchString(j.Reason):
		e.answer(capacity.WaitsByRule, "See `scontrol show job {}`.",
			"fits into %s; Slurm holds it back: %s.", where, j.Reason)
	case !later(p) && p.Reservation.ID != "" && len(out) > 0 && left < p.Needs:
		e.answer(
			capacity.NodesOutOfService,
			"Ask an administrator; `pcs-capacity status` has the command that returns them to service.",
			"fits into %s, but too few of its nodes accept jobs: %s.",
			where,
			strings.Join(out, ", "),
		)
	case p.NeedsOpening(e.now):
		e.answer(capacity.WaitsToOpen, slurmStarts, "waits for its nodes: %s.",
			p.Slot.Opening.Describe(p.Reservation.ID))
	case !later(p) && p.LaunchesHeld():
		e.explainHolding(p.SlotRef)
	case !later(p) && j.HetJobID != 0:
		do := fmt.Sprintf("Make sure that there is room for all at once: `squeue -j %d`. "+
			"What holds them back is Slurm's reason above.", j.HetJobID)
		e.answer(
			capacity.WaitsInQueue,
			do,
			"by itself fits into %s; it starts together with the other components of job %d.",
			where,
			j.HetJobID,
		)
	case !later(p):
		do := nothingToDo + ". `squeue -p " + p.Partition.Name +
			" -t PD --sort=-p` shows the queue, the next job first."
		e.answer(
			capacity.WaitsInQueue,
			do,
			"fits into %s; it waits for free nodes, or for its turn in the queue.",
			where,
		)
	case len(here) > 0:
		h := slices.MaxFunc(here, func(a, b capacity.Prospect) int { return cmp.Compare(a.Room, b.Room) })

		do := slurmStarts
		if minutes := int(h.Room / time.Minute); minutes > 0 {
			do = fmt.Sprintf(nothingToDo+"; or shorten it, to run now: `scontrol update jobid={} timelimit=%s`%s.",
				capacity.FormatMinutes(minutes), e.orRequeue())
		}

		e.answer(
			capacity.BehindFence,
			do,
			"is too long for what is left of %s; it waits for %s.",
			h.Reservation.ID,
			e.opens(p),
		)
	default:
		e.answer(capacity.WaitsToOpen, slurmStarts, "waits for %s.", e.opens(p))
	}
}

// explainHolding explains a job that waits for nodes of a slot that are launched only into held capacity.
func (e *screen) explainHolding(at capacity.SlotRef) {
	e.add("capacity", "%s", at.DescribeHolding())

	var held capacity.Holding
	if at.Slot.Holding != nil {
		held = *at.Slot.Holding
	}

	again, paused := held.Paused[e.j.Shown]
	unread := slices.IndexFunc(e.snap.Problems, func(p capacity.Problem) bool {
		return p.Code == capacity.HoldGroupUnread && p.About.Slot == at.Slot.Name
	})

	switch {
	case e.snap.IsStale(e.now):
		e.answer(capacity.WaitsForHold, runSync, "waits for nodes: %s.", syncIsDown)
	case slices.Contains(held.Jobs, e.j.Shown):
		e.answer(capacity.WaitsInQueue, nothingToDo+": Slurm starts it within two minutes, or sync gives the capacity back.",
			"waits for Slurm to start it: capacity is held for it.")
	case paused:
		e.answer(capacity.WaitsForHold, "See `scontrol show job {}` for what else it waits for, such as --nodelist.",
			"waits: Slurm did not start it when capacity was held for it; sync holds some again at %s.",
			formatTime(again, e.now))
	case unread >= 0:
		e.answer(capacity.WaitsForHold, "Ask an administrator to look at `pcs-capacity status`.",
			"waits: no capacity could be held for it: %s.", e.snap.Problems[unread].Sentence)
	case e.note.Kind == capacity.NoteNoRoom:
		e.answer(capacity.WaitsForHold, nothingToDo+". There may be room for a job of fewer nodes.",
			"waits: no capacity could be held for it: %s.", e.note.Text)
	case e.j.Reservation != "":
		e.answer(capacity.WaitsForHold, "To have nodes launched, submit it without --reservation.",
			"waits for nodes that are up: no capacity is held for a job in a reservation, %s.", e.j.Reservation)
	default:
		e.answer(capacity.WaitsForHold, nothingToDo+": sync tries in each pass, in the order of submission.",
			"waits until capacity is held for it.")
	}
}

// explainNoProspect explains a job that no reservation takes, although it is admitted.
func (e *screen) explainNoProspect(v capacity.Verdict) {
	// Would it be admitted without its constraint?
	anywhere := e.req
	anywhere.Constraint = ""
	elsewhere := slices.DeleteFunc(capacity.Prospects(anywhere, e.snap, e.now), func(p capacity.Prospect) bool {
		return !p.Fits || p.Reservation.ID == ""
	})

	if len(elsewhere) > 0 {
		e.answer(capacity.Constrained, "Wait until those nodes have their next block, or let it run elsewhere: "+
			"`scontrol update jobid={} features=`.",
			"has the constraint %s, and no reservation of those nodes takes it now; %s would.",
			e.j.Constraint, elsewhere[0].Reservation.ID)

		return
	}

	e.answer(capacity.ReservationNotKnown, "Ask an administrator to look at `pcs-capacity status`.",
		"waits, and no reservation for it is known.")

	for _, w := range v.Warnings {
		e.add("warning", "%s", w)
	}
}

// rules begin Slurm's reasons that free nodes alone do not lift: job_reason_string of 22.05 to 26.05.
var rules = regexp.MustCompile(`^(Assoc|Dependency|Invalid|Job's account|JobArrayTaskLimit|Licenses|Partition|QOS)`)

// lastFailure returns the record of the last launch for a job; zero if that did not fail.
func lastFailure(shown string, records []state.Record) state.Record {
	for _, r := range slices.Backward(records) {
		isOurs := r.Hook == "resume" && slices.Contains(r.Jobs, shown)
		switch {
		case isOurs && r.Code == string(capacity.OK):
			return state.Record{}
		case isOurs:
			return r
		}
	}

	return state.Record{}
}
