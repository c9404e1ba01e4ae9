package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// ourWord begins an AdminComment that a program of ours wrote.
const ourWord = "pcs-capacity: "

// aYear: from this far ahead, Slurm's estimate of a start is the end of an infinite fence.
const aYear = 300 * 24 * time.Hour

// OfJob says why a job does not start, or what happens to it. now is AWS's time.
func OfJob(j capacity.Job, snap *capacity.Snapshot, records []state.Record, now time.Time) Explanation {
	e := Explanation{Subject: "job " + j.Shown, Facts: []Fact{}}
	req := snap.Request(j)
	j = j.ByClock(snap.ClockOffset.Duration)
	prospects := capacity.Prospects(req, snap.Within(req.Constraint), now)
	e.fact("partition", "%s", strings.Join(req.Partitions, ", "))
	limit := req.TimeLimit.String()
	if req.TimeMin.Bounded() {
		limit += ", at least " + req.TimeMin.String()
	}
	e.fact("time limit", "%s", limit)
	managed := slices.ContainsFunc(req.Partitions, func(name string) bool { _, ours := snap.Partition(name); return ours })
	if managed {
		e.fact("limit", "%s", limitOf(j, snap, now))
		e.fact("begin time", "%s", beginOf(j))
	}
	e.fact("constraint", "%s", req.Constraint)
	switch {
	case j.State == "RUNNING" && j.Configuring():
		e.boots(j)
	case j.State == "RUNNING" || j.State == "SUSPENDED":
		e.runs(j, snap, now)
	case j.State != "PENDING":
		e.say(Ended, "Job %s is over: %s.", j.Shown, j.State)
		e.advise("See `sacct -j %s` for how it went.", j.Shown)
	case !managed:
		e.say(Unmanaged, "Job %s waits in a partition that pcs-capacity does not manage.", j.Shown)
		e.advise("Ask Slurm: `scontrol show job %s`.", j.Shown)
	default:
		e.waits(j, req, prospects, snap, records, now)
	}
	for _, p := range prospects {
		if p.Reservation.ID != "" && j.State == "PENDING" {
			e.fact("reservation", "%s", window(p.Reservation.ID, p.Window, now))
		}
	}
	if j.State == "PENDING" && e.Code != string(capacity.Mismatched) {
		for _, m := range capacity.PassedOver(req, snap, now) {
			e.fact("passed over", "%s", m.Text())
		}
	}
	if _, rest, ours := capacity.ReadHoldNote(j.AdminComment); ours {
		e.fact("told", "%s", strings.TrimPrefix(rest, ourWord))
	} else {
		e.fact("told", "%s", strings.TrimPrefix(j.AdminComment, ourWord))
	}
	if j.State == "PENDING" {
		said := j.Reason
		switch {
		case j.Start.Sub(now) > aYear:
			said += fmt.Sprintf("; start %s: that is how it shows a fence without an end", j.Start.UTC().Format(time.DateOnly))
		case j.Start.After(now):
			said += "; start " + capacity.FormatUTC(j.Start)
		}
		e.fact("squeue says", "%s", said)
	}
	e.age(snap, now)
	return e
}

// limitOf says what sync did, or may yet do, to a job's time limit; "" if nothing.
func limitOf(j capacity.Job, snap *capacity.Snapshot, now time.Time) string {
	fitted := snap.Fitted(j)
	if j.State == "PENDING" && fitted {
		return "fitted to what a block leaves, and by sync to the fence once the job runs"
	}
	if j.State != "RUNNING" || j.Configuring() || !j.TimeLimit.Bounded() || j.End.IsZero() {
		return ""
	}
	var fence time.Time
	for _, name := range j.Partitions() {
		if t := snap.FenceOf(name, j.Nodes, now); !t.IsZero() && (fence.IsZero() || t.Before(fence)) {
			fence = t
		}
	}
	left := fence.Sub(j.End)
	switch {
	case fence.IsZero():
		return ""
	case left.Abs() <= atFence && fitted:
		return "fitted by sync to the fence, " + capacity.FormatUTC(fence)
	case left.Abs() <= atFence:
		return "ends at the fence, " + capacity.FormatUTC(fence) + ": sync lowers one that crosses it"
	case left > 0 && fitted:
		return "sync may raise it to the fence, " + capacity.FormatUTC(fence)
	}
	return ""
}

// atFence is the largest distance from its fence at which a job ends whose limit was fitted to the fence in whole
// minutes.
const atFence = time.Minute

// beginOf describes the begin time that sync gave a job when it requeued it at a fence.
func beginOf(j capacity.Job) string {
	why, requeued := toldThat(j.AdminComment, "requeued")
	begin := capacity.FormatUTC(j.Eligible)
	if j.State != "PENDING" || !requeued || !strings.HasSuffix(why, " by "+begin) {
		return ""
	}
	return begin + ", set by sync: the fence"
}

func (e *Explanation) boots(j capacity.Job) {
	e.say(Boots, "Job %s has its nodes, %s, and waits until they have booted.", j.Shown, j.Hostlist())
	e.Advice = "Nothing to do."
}

func (e *Explanation) runs(j capacity.Job, snap *capacity.Snapshot, now time.Time) {
	on := j.Hostlist()
	e.say(Runs, "Job %s runs on %s.", j.Shown, on)
	if !j.End.IsZero() && j.TimeLimit.Bounded() {
		e.Answer = fmt.Sprintf("Job %s runs on %s until %s at the latest.", j.Shown, on, at(j.End, now))
	}
	e.Advice = "Nothing to do."
	for _, name := range j.Partitions() {
		if snap.FenceOf(name, j.Nodes, now).IsZero() {
			continue
		}
		if p, ours := snap.Partition(name); ours {
			onEnd := p.OnEnd
			if wish, _ := j.Wish(); wish.OnEnd != "" {
				onEnd = wish.OnEnd
			}
			if fence := snap.FenceOf(name, j.Nodes, now); j.State == "SUSPENDED" {
				e.fact("suspended", "sync resumes it at %s, so that it ends by the fence",
					capacity.FormatUTC(capacity.RequeueAt(fence, snap.KillWait.Duration)))
			} else if limitOf(j, snap, now) == "" && j.TimeLimit.Bounded() && !j.End.After(fence) {
				onEnd = capacity.StopAtEnd // its owner's limit
			}
			switch {
			case !j.Requeues():
				e.fact("at the fence", "its time limit ends it; it cannot be requeued")
			case onEnd == capacity.RequeueAtEnd:
				e.fact("at the fence", "it is requeued, and goes on in the next block")
			case onEnd == capacity.HoldAtEnd:
				e.fact("at the fence", "it is requeued and held")
			default:
				e.fact("at the fence", "its time limit ends it")
				e.Advice = "Nothing to do. Save what you need before its limit: `sbatch --signal=B:USR1@600` sends a signal."
			}
		}
	}
}

// accountNotKnown begins Slurm's words for a job of no association, in a partition with
// AllowAccounts: part_policy_valid_acct of 22.05. From 24.11 on such a job is let in, unless
// associations are enforced, in which case it is never submitted.
const accountNotKnown = "Job's account not known"

// waits explains a job that waits in a partition of ours: first what prevents any start, then what the job waits for.
func (e *Explanation) waits(j capacity.Job, req capacity.Request, prospects []capacity.Prospect,
	snap *capacity.Snapshot, records []state.Record, now time.Time) {
	_, why, ourHold := capacity.ReadHoldNote(j.AdminComment)
	verdict := capacity.Admit(req, snap, now)
	failed, hasFailed := lastFailure(j.Shown, records)
	notLaunched := strings.HasPrefix(j.AdminComment, ourWord) && strings.Contains(j.AdminComment, " were not launched: ")
	few, short := capacity.ShortOfHosts(req, snap, now)
	whyRequeued, requeued := toldThat(j.AdminComment, "requeued")
	release := fmt.Sprintf("`scontrol release %s`", j.Shown)
	if j.Held && ourHold { // which no hold on it shows
		e.fact("keep held", "administrators: `scontrol update jobid=%s admincomment=`, then `scontrol hold %s`",
			j.Shown, j.Shown)
	}
	switch {
	case j.Held && (ourHold || strings.HasPrefix(j.AdminComment, ourWord)):
		if !ourHold {
			why = j.AdminComment
		}
		e.say(Held, "Job %s is held: %s.", j.Shown, sentence(strings.TrimPrefix(why, ourWord)))
		e.Advice = "To let it go on: " + release + "."
	case j.Held && j.Reason == "JobHeldAdmin":
		e.say(Held, "Job %s is held, and only an administrator can release it.", j.Shown)
		e.Advice = "Administrators: " + release + "."
	case j.Held:
		e.say(Held, "Job %s is held, by its owner or by an administrator.", j.Shown)
		e.Advice = "Release it: " + release + "."
	case strings.HasPrefix(j.Reason, accountNotKnown):
		e.say(string(capacity.AccountNotAllowed), "Job %s can never start as it is: Slurm knows no account of it, and its partition is for certain accounts only.",
			j.Shown)
		e.Advice = "Administrators: give its user an account (`sacctmgr add user`); a Slurm without accounting knows none: there take allow_accounts out of the settings, and AllowAccounts off the partition."
	case verdict.Refused:
		e.never(j, req, verdict, snap, now)
	case short:
		r := few.Reservation
		e.say(WaitsForHost, "Job %s asks for %d nodes, but only %d of the %d hosts of %s are usable.", j.Shown, few.Needs, few.Usable,
			r.Size(), r.ID)
		e.advise("Wait until the others are back, or ask for fewer: `scontrol update jobid=%s numnodes=%d`.", j.Shown,
			few.Usable)
	case notLaunched || hasFailed && strings.HasPrefix(j.AdminComment, ourWord):
		e.Code = LaunchFailed
		code := "see below"
		if hasFailed {
			code = failed.Code
			e.fact("last try", "%s on %s: %s", capacity.FormatUTC(failed.At), failed.Nodes, failed.Message)
		} else if _, rest, ok := strings.Cut(j.AdminComment, " were not launched: "); ok {
			code, _, _ = strings.Cut(rest, ":")
		}
		again := "when Slurm next finds nodes for it"
		if j.Eligible.After(now) {
			again = "at " + at(j.Eligible, now)
		}
		e.Answer = fmt.Sprintf("Job %s waits because its nodes could not be launched (%s); it is tried again %s.",
			j.Shown, code, again)
		e.Advice = "Nothing to do yet. If it fails again and again, show an administrator this screen."
	case j.Eligible.After(now) && requeued:
		e.again(j, whyRequeued, prospects, now)
	case j.Eligible.After(now):
		why := "--begin"
		if j.Restarts > 0 {
			why = "Slurm's pause after a requeue, or --begin"
		}
		e.say(WaitsToBegin, "Job %s may not start before %s (%s).", j.Shown, at(j.Eligible, now), why)
		e.advise("Nothing to do, or `scontrol update jobid=%s starttime=now`.", j.Shown)
	default:
		e.forCapacity(j, req, prospects, verdict, snap, now)
		if requeued && strings.HasPrefix(whyRequeued, "EC2 ") {
			e.Answer = fmt.Sprintf("Job %s was requeued: %s. %s", j.Shown, whyRequeued, e.Answer)
		}
	}
}

// toldThat reads what sync wrote into a job's AdminComment when it took the job off its nodes or warned it: the
// reason after "requeued at TIME: ", without the rest.
func toldThat(adminComment, verb string) (why string, ours bool) {
	rest, ours := strings.CutPrefix(adminComment, ourWord+verb+" at ")
	_, why, found := strings.Cut(rest, " UTC: ")
	why, _, _ = strings.Cut(why, "; ")
	return why, ours && found
}

func (e *Explanation) again(j capacity.Job, why string, prospects []capacity.Prospect, now time.Time) {
	e.say(WaitsToBegin, "Job %s was requeued: %s. It may start again at %s.", j.Shown, why, at(j.Eligible, now))
	e.Advice = "Nothing to do: Slurm starts it then."
	for _, p := range prospects {
		if p.Fits && p.Window.Start.After(j.Eligible) {
			e.Code = NextBlock
			e.Answer = fmt.Sprintf("Job %s was requeued: %s. It waits for the next block, %s, which opens at %s.",
				j.Shown, why, p.Reservation.ID, at(p.Window.Start, now))
		}
		if p.Fits {
			return
		}
	}
}

func (e *Explanation) never(j capacity.Job, req capacity.Request, v capacity.Verdict, snap *capacity.Snapshot,
	now time.Time) {
	e.say(string(v.Code), "Job %s can never start as it is: %s.", j.Shown, sentence(v.Message))
	e.advise("Cancel it, `scancel %s`, and submit it as the first line says.", j.Shown)
	req.TimeLimit, req.TimeMin = capacity.Limit{}, capacity.Limit{}
	switch fits := capacity.Admit(req, snap, now); {
	case v.Code == capacity.TooLong && fits.Edits.TimeLimit.Bounded():
		e.advise("Shorten it: `scontrol update jobid=%s timelimit=%s`.", j.Shown, fits.Edits.TimeLimit)
	case v.Code == capacity.AccountNotAllowed:
		e.advise("Give it an account that may: `scontrol update jobid=%s account=NAME`; or ask an administrator.", j.Shown)
	case v.Code == capacity.TooLong, v.Code == capacity.NoReservation:
		e.Advice = "Leave it until an administrator has the next block, or cancel it: `scancel " + j.Shown + "`."
	case v.Code == capacity.Mismatched:
		e.Advice = "Leave it until an administrator has mended that (`pcs-capacity check` says how), or cancel it: `scancel " + j.Shown + "`."
	}
}

// forCapacity explains a job that is admitted and waits.
func (e *Explanation) forCapacity(j capacity.Job, req capacity.Request, prospects []capacity.Prospect,
	v capacity.Verdict, snap *capacity.Snapshot, now time.Time) {
	open := func(p capacity.Prospect) bool { return !p.Window.Start.After(now) }
	var here, fits []capacity.Prospect
	for _, p := range prospects {
		if open(p) {
			here = append(here, p)
		}
		if p.Fits {
			fits = append(fits, p)
		}
	}
	e.Advice = "Nothing to do: Slurm starts it then."
	elsewhere := slices.DeleteFunc(capacity.Prospects(req, snap, now),
		func(p capacity.Prospect) bool { return !p.Fits || p.Reservation.ID == "" })
	switch {
	case len(fits) == 0 && len(elsewhere) > 0:
		e.say(Constrained, "Job %s has the constraint %s, and no reservation of those nodes takes it now; %s would.", j.Shown,
			j.Constraint, elsewhere[0].Reservation.ID)
		e.advise("Leave it until those nodes have their next block, or let it run elsewhere: `scontrol update jobid=%s features=`.",
			j.Shown)
	case len(fits) == 0:
		e.say(NotKnown, "Job %s waits, and nothing is known of a reservation for it.", j.Shown)
		e.Advice = "Ask an administrator to look at `pcs-capacity status`."
		for _, w := range v.Warnings {
			e.fact("warning", "%s", w)
		}
	case open(fits[0]):
		where := fits[0].Reservation.ID
		if where == "" {
			where = "partition " + fits[0].Partition.Name
		}
		if rule(j.Reason) {
			e.say(WaitsByRule, "Job %s fits into %s, which is open; Slurm keeps it back: %s.", j.Shown, where, j.Reason)
			e.advise("See what Slurm has of it: `scontrol show job %s`.", j.Shown)
			return
		}
		if out, few := nodesOut(fits[0]); few {
			e.say(NodesOut, "Job %s fits into %s, which is open, but too few of its nodes get jobs: %s.", j.Shown, where,
				strings.Join(out, ", "))
			e.Advice = "Ask an administrator; `pcs-capacity status` has the command that gives them back."
			return
		}
		e.say(WaitsInQueue, "Job %s fits into %s, which is open; it waits for free nodes, or for its turn in the queue.", j.Shown,
			where)
		e.advise("Nothing to do. `squeue -p %s` shows what is before it.", fits[0].Partition.Name)
		if j.HetJobID != 0 {
			e.Answer = fmt.Sprintf("Job %s by itself fits into %s, which is open; it starts together with the other components of job %d.",
				j.Shown, where, j.HetJobID)
			e.advise("See that there is room for all at once: `squeue -j %d`. What keeps them back is Slurm's reason above.", j.HetJobID)
		}
	case len(here) > 0:
		h := slices.MaxFunc(here,
			func(a, b capacity.Prospect) int { return int(a.Room/time.Second) - int(b.Room/time.Second) })
		e.say(BehindFence, "Job %s is too long for what is left of %s; it waits for %s, which opens at %s.", j.Shown, h.Reservation.ID,
			fits[0].Reservation.ID, at(fits[0].Window.Start, now))
		if minutes := int(h.Room / time.Minute); minutes > 0 {
			e.advise("Nothing to do; or shorten it, to run now: `scontrol update jobid=%s timelimit=%s`.",
				j.Shown, capacity.FormatMinutes(minutes))
		}
	default:
		e.say(WaitsToOpen, "Job %s waits for %s, which opens at %s.", j.Shown,
			fits[0].Reservation.ID, at(fits[0].Window.Start, now))
		if over := lastOver(fits[0], snap, now); over != "" {
			e.say(NextBlock, "Job %s waits for the next block, %s, which opens at %s: %s is over.",
				j.Shown, fits[0].Reservation.ID, at(fits[0].Window.Start, now), over)
		}
	}
}

// rules begin Slurm's reasons that free nodes alone do not lift: job_reason_string of 22.05 to 26.05.
var rules = []string{"Assoc", "Dependency", "Invalid", "JobArrayTaskLimit", "Licenses", "Partition", "QOS"}

func rule(reason string) bool {
	return slices.ContainsFunc(rules, func(word string) bool { return strings.HasPrefix(reason, word) })
}

// nodesOut are the nodes of a reservation's slot that get no job, and whether too few are left.
func nodesOut(p capacity.Prospect) (out []string, few bool) {
	left := p.Usable
	for _, o := range p.Slot.Out {
		out, left = append(out, o.String()), left-o.Count
	}
	return out, p.Reservation.ID != "" && len(out) > 0 && left < p.Needs
}

// lastOver is the reservation before a prospect that jobs can no longer use; "" if there is none.
func lastOver(p capacity.Prospect, snap *capacity.Snapshot, now time.Time) string {
	id, fence := "", time.Time{}
	for _, r := range snap.Reservations {
		w := snap.Timing.Window(r)
		if p.Partition.Has(r.ID) && !w.Unbounded() && !w.Fence.After(now) && w.Start.Before(now) && w.Fence.After(fence) {
			id, fence = r.ID, w.Fence
		}
	}
	return id
}

// lastFailure is the last power-up for a job, if it failed.
func lastFailure(shown string, records []state.Record) (state.Record, bool) {
	for _, r := range slices.Backward(records) {
		if r.Hook == "resume" && slices.Contains(r.Jobs, shown) {
			return r, r.Code != string(capacity.OK)
		}
	}
	return state.Record{}, false
}

func sentence(s string) string { return strings.TrimSuffix(strings.TrimSpace(s), ".") }
