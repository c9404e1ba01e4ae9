package capacity

import (
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

// requeueMargin is kept beside KillWait: a limit is in whole minutes, so the job's own limit
// may end it up to a minute before the fence. A job that its limit ends is never requeued.
const requeueMargin = time.Minute

// RequeueAt is when jobs in front of a fence have to be requeued, so that Slurm has killed
// what does not end by itself before their limits do. killWait is Slurm's KillWait.
func RequeueAt(fence time.Time, killWait time.Duration) time.Time {
	return fence.Add(-killWait - requeueMargin)
}
