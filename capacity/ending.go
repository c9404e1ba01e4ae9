package capacity

import (
	"fmt"
	"slices"
	"time"
)

// OnEnd is what happens to a job that still runs when its reservation's fence is near.
type OnEnd string

// What can happen.
const (
	StopAtEnd    OnEnd = "stop"    // its time limit ends it
	RequeueAtEnd OnEnd = "requeue" // it waits in the queue for the next block
	HoldAtEnd    OnEnd = "hold"    // the same, until its owner releases it
)

// Known reports whether it is one of the three.
func (o OnEnd) Known() bool {
	return slices.Contains([]OnEnd{StopAtEnd, RequeueAtEnd, HoldAtEnd}, o)
}

// Requeue is what a job says of being requeued, "" if nobody knows.
type Requeue string

// What it can say.
const (
	RequeueUnsaid Requeue = "unsaid" // JobRequeue of slurm.conf decides
	RequeueYes    Requeue = "yes"    // --requeue
	RequeueNo     Requeue = "no"     // --no-requeue
	RequeueNever  Requeue = "never"  // of srun or salloc, which Slurm cannot requeue
)

// endsAnyway is a sentence for a job that asks for what cannot be done with it at the fence; ""
// if it can.
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

// requeueMargin is kept beside KillWait: a limit is in whole minutes, so the job's own limit
// may end it up to a minute before the fence. A job that its limit ends is never requeued.
const requeueMargin = time.Minute

// RequeueAt is when jobs in front of a fence have to be requeued, so that Slurm has killed
// what does not end by itself before their limits do. killWait is Slurm's KillWait.
func RequeueAt(fence time.Time, killWait time.Duration) time.Time {
	return fence.Add(-killWait - requeueMargin)
}
