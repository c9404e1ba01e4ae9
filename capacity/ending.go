package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OnEnd says what happens to a job that still runs shortly before its reservation's fence.
type OnEnd string

// The values.
const (
	StopAtEnd    OnEnd = "stop"    // its time limit ends it
	RequeueAtEnd OnEnd = "requeue" // it waits in the queue for the next block
	HoldAtEnd    OnEnd = "hold"    // like requeue, but held until its owner releases it
)

// Known reports whether the value is one of the three.
func (o OnEnd) Known() bool {
	return slices.Contains([]OnEnd{StopAtEnd, RequeueAtEnd, HoldAtEnd}, o)
}

// Requeue says what may keep Slurm from requeuing a job: "" is nothing, as with --requeue, or unknown.
type Requeue string

// The values.
const (
	RequeueUnsaid Requeue = "unsaid" // JobRequeue of slurm.conf decides
	RequeueNo     Requeue = "no"     // --no-requeue
	RequeueNever  Requeue = "never"  // srun or salloc, which Slurm cannot requeue
)

// endsAnyway is the sentence for a job whose on_end Slurm cannot carry out; "" if it can.
func endsAnyway(req Request, wish Wish, snap *Snapshot) string {
	if wish.OnEnd != RequeueAtEnd && wish.OnEnd != HoldAtEnd {
		return ""
	}
	why := ""
	switch {
	case req.Requeue == RequeueNever:
		why = "Slurm requeues jobs of sbatch only"
	case req.Requeue == RequeueNo:
		why = "the job has --no-requeue; leave that out"
	case req.Requeue == RequeueUnsaid && snap.NoRequeue:
		why = "JobRequeue=0 in slurm.conf; add --requeue"
	default:
		return ""
	}
	return fmt.Sprintf("on_end=%s in --comment does nothing, and the job ends with its time limit: %s", wish.OnEnd, why)
}

// lateSignal is the sentence for a job whose signal would come after its requeue; "" for others. A job with a limit of its
// own and no --time-min is requeued only where that is lowered.
func lateSignal(req Request, wish Wish, snap *Snapshot) string {
	requeues := wish.OnEnd
	for _, name := range req.in(snap) {
		if p, ours := snap.Partition(name); ours {
			requeues = cmp.Or(requeues, p.OnEnd)
		}
	}
	lead := snap.KillWait.Duration + requeueMargin + time.Minute // limits are in whole minutes
	if req.Signal == 0 || req.Signal >= lead || req.TimeLimit.Set && !req.TimeMin.Set || req.Requeue == RequeueNo || req.Requeue == RequeueNever ||
		requeues != RequeueAtEnd && requeues != HoldAtEnd {
		return ""
	}
	return fmt.Sprintf("--signal comes %s before the time limit, and on_end=%s ends the job up to %s before it, with TERM: use @%d or more, or catch TERM",
		FormatExact(req.Signal), requeues, FormatExact(lead), int(lead.Seconds()))
}

// requeueMargin is added to KillWait. A limit is in whole minutes, so it may end the job up to a minute before the
// fence, and Slurm never requeues a job that its limit ended.
const requeueMargin = time.Minute

// RequeueAt is when to requeue jobs in front of a fence: early enough that Slurm has killed the slow ones before
// their limits end them. killWait is Slurm's KillWait.
func RequeueAt(fence time.Time, killWait time.Duration) time.Time {
	return fence.Add(-killWait - requeueMargin)
}

// A job that is refused at launch is held. Slurm may turn our hold into an administrator's some time later; `sync` gives
// such a job back to its owner. The start of the job's AdminComment, which no user can change, says which hold is ours
// and since when.
const (
	adminMark = "pcs-capacity: "
	ownerMark = "its owner can release it from "
	heldTime  = "2006-01-02 15:04:05 UTC"
)

// HoldNote is the AdminComment of a job that is held from a time on, in whole seconds. text gives the reason.
func HoldNote(since time.Time, text string) string {
	return adminMark + ownerMark + since.UTC().Format(heldTime) + " on: " + text
}

// ReadHoldNote reads an AdminComment; ours is false if it is not a HoldNote. rest is the AdminComment to restore when
// the hold is over.
func ReadHoldNote(comment string) (since time.Time, rest string, ours bool) {
	after, marked := strings.CutPrefix(comment, adminMark+ownerMark)
	at, text, complete := strings.Cut(after, " on: ")
	since, err := time.Parse(heldTime, at)
	if !marked || !complete || err != nil {
		return time.Time{}, "", false
	}
	return since, adminMark + text, true
}
