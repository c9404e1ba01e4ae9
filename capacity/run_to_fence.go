package capacity

import (
	"cmp"
	"fmt"
	"time"
)

// A job that its owner wants back in the queue at the fence runs up to it, however long its limit is: the last hours of
// a block are paid for. Slurm shortens the limit when it starts the job, down to --time-min; sync gives the job what
// fits, and its whole limit again when it requeues it.

// orRunToFence tells the owner of a job that does not fit the other way out.
const orRunToFence = "--comment on_end=requeue if it can go on from a checkpoint"

// RequeueTimeMin returns the --time-min that marks a job with a limit of its own which is requeued at the fence: a
// value that nobody writes, and another one than [Partition.FitTimeMin].
func (p Partition) RequeueTimeMin() Limit { return Minutes(p.FitTimeMin().Minutes + 1) }

// GoesOn reports whether a job that runs until the fence of the turn is requeued there.
func (c Turn) GoesOn(req Request, snap *Snapshot) bool {
	return !c.Window.Unbounded() && req.onEnd(c.Partition).Requeues() && req.whyNotRequeued(snap) == ""
}

// onEnd returns what happens to a job at a fence of the partition.
func (r Request) onEnd(p *Partition) OnEnd {
	wish, _ := r.Wish()
	return cmp.Or(wish.OnEnd, p.OnEnd)
}

// CouldRunToFence reports whether a job that does not fit could start in the turn, if its owner let it be requeued at
// the fence.
func (c Prospect) CouldRunToFence(req Request, snap *Snapshot) bool {
	requeues := *c.Partition
	requeues.OnEnd = RequeueAtEnd
	c.Partition = &requeues
	least := c.timeMinToFence(req, snap)

	return !c.Fits && least.Set && least.Duration() <= c.Room
}

// timeMinToFence returns the --time-min with which a job may run up to the fence of the turn; unset for a job that has
// to fit. One with a deadline has to, and one of several components, which Slurm does not shorten. Where accounting
// limits use over time, a limit is also a budget, so nobody but its owner changes it.
func (c Turn) timeMinToFence(req Request, snap *Snapshot) Limit {
	least := c.Partition.RequeueTimeMin()
	_, metered := snap.Walls.MaxWall(req.User, req.Account, req.QOS, *c.Partition)

	if !c.GoesOn(req, snap) || metered || req.Component || !req.Deadline.IsZero() ||
		!req.TimeLimit.Bounded() || req.TimeLimit.Minutes <= least.Minutes || req.TimeMin.Set {
		return Limit{}
	}

	return least
}

// NoteStatedLimit returns the note that keeps the limit of a job which may start with less; false for other jobs. v is
// its verdict.
func NoteStatedLimit(req Request, v Verdict, snap *Snapshot) (note AdminNote, needed bool) {
	least := cmp.Or(v.Edits.TimeMin, req.TimeMin)
	if v.Refused || v.Code == NotManaged || v.Edits.TimeLimit.Set || !req.TimeLimit.Bounded() || !least.Bounded() ||
		least.Minutes >= req.TimeLimit.Minutes {
		return note, false
	}

	// The limit of a job that stated none is ours.
	for _, name := range req.targetPartitions(snap) {
		p, ours := snap.Partition(name)
		if ours && least == p.FitTimeMin() {
			return note, false
		}
	}

	return AdminNote{Kind: NoteStated, Stated: req.TimeLimit}, true
}

// ExpectedRun is one of the runs of a job that is requeued at each fence.
type ExpectedRun struct {
	Reservation string    `json:"reservation"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	// AtEnd is what happens to the job at the fence; "" if its own limit ends it.
	AtEnd OnEnd `json:"on_end,omitempty"`
}

// ExpectedRuns returns the runs of a job with a limit of its own, as far as reservations are known, if each begins as
// early as it can. Most jobs have one.
func ExpectedRuns(req Request, snap *Snapshot, now time.Time) (runs []ExpectedRun) {
	rest := req.TimeLimit.Duration()
	earliest := later(now, req.Begin)
	free := earliest

	for _, p := range Prospects(req, snap, now) {
		start := later(free, p.Window.Start)
		room := rest
		if !p.Until.IsZero() {
			room = p.Room - start.Sub(later(earliest, p.Window.Start))
		}

		// The reservation is over by then, or too short.
		if room < min(rest, p.need(req, snap).Duration()) {
			continue
		}

		if room >= rest {
			return append(runs, ExpectedRun{Reservation: p.Reservation.ID, From: start, To: start.Add(rest)})
		}

		run := ExpectedRun{Reservation: p.Reservation.ID, From: start, To: p.Until, AtEnd: StopAtEnd}
		if p.GoesOn(req, snap) {
			run.AtEnd = req.onEnd(p.Partition)
		}

		runs = append(runs, run)
		free = run.To
		rest -= room

		if run.AtEnd != RequeueAtEnd {
			break
		}
	}

	return runs
}

// DescribeRuns says when a job with a verdict runs, if it may start with less than its limit and is requeued at a
// fence; "" for other jobs. The sentence lacks its subject.
func DescribeRuns(req Request, v Verdict, snap *Snapshot, now time.Time) string {
	runs := ExpectedRuns(req, snap, now)
	if v.Refused || !req.TimeMin.Set && !v.Edits.TimeMin.Set || len(runs) == 0 || !runs[0].AtEnd.Requeues() {
		return ""
	}

	starts := "can start now"
	if runs[0].From.After(now) {
		starts = "starts at " + FormatUTC(runs[0].From)
	}

	then := "goes on in the next block"
	switch {
	case runs[0].AtEnd == HoldAtEnd:
		then = "is then held until you release it"
	case len(runs) > 1:
		then = "goes on from " + FormatUTC(runs[1].From)
	}

	return fmt.Sprintf("%s, runs until %s, and %s", starts, FormatUTC(runs[0].To), then)
}
