package capacity

import (
	"fmt"
	"slices"
	"time"
)

// Quick describes jobs that [Admit] accepts as they are, without edits and warnings, in
// terms simple enough for the Lua shims: of one partition, with a time limit, without a
// word for us in the comment, and small enough for what is open now. A job that it does not
// describe is judged by Admit; so it may leave out whatever is not simple.
type Quick struct {
	Partition string
	// Accounts that the job may run under; empty means every one.
	Accounts []string
	// From is when the reservation opens. The job must end by Last if it starts at once, its
	// boot not counted; zero if there is no such time.
	From, Last time.Time
	// Nodes is the most that the job may need, GPUs the most of each; 0 if any number will do.
	Nodes, GPUs int
}

// Quicks are those of a snapshot, for as long as it is the last one.
func Quicks(snap *Snapshot) []Quick {
	var all []Quick
	for _, p := range snap.Partitions {
		in, simple := quickCandidates(p, snap)
		if !simple {
			continue
		}
		for _, c := range in {
			open := c.reservation.ID == "" || c.reservation.State == StateActive
			nodes := min(c.size(), c.healthy())
			if !open || nodes < 1 {
				continue
			}
			all = append(all, Quick{Partition: p.Name, Accounts: slices.Clone(p.AllowAccounts), From: c.window.Start, Last: c.last(snap), Nodes: nodes, GPUs: c.group.GPUs})
		}
	}
	return all
}

// quickCandidates are those of a partition that a job without a wish may use until they end;
// simple is false if more than its size and its account decides about a job there.
func quickCandidates(p Partition, snap *Snapshot) (in []candidate, simple bool) {
	in = candidates(p, snap)
	if len(features(in)) > 1 || len(p.AllowGroups) > 0 {
		return nil, false // the job needs a constraint, or its user's groups are looked up
	}
	return slices.DeleteFunc(in, func(c candidate) bool {
		live := c.onDemand() || c.reservation.State.Live()
		return c.unknown || c.never || !live || len(c.mismatches()) > 0
	}), true
}

// last is when a job that starts in the candidate must have ended, its boot not counted; zero
// if it has no end.
func (c candidate) last(snap *Snapshot) time.Time {
	if c.boots && !c.window.Fence.IsZero() {
		return c.window.Fence.Add(-snap.Timing.BootAllowance.Duration)
	}
	return c.window.Fence
}

// QuickFit is how [Admit] fits the limit of a job that states none, in terms simple enough
// for the Lua shims: a job that a [Quick] describes for Floor minutes gets as many as the
// longest of the Rooms that are large enough for it has, at most Most.
type QuickFit struct {
	Partition string
	// Floor is the --time-min in minutes.
	Floor int
	// Most is the partition's MaxTime in minutes, 0 if it has none. Wall is the shortest limit
	// of accounting, 0 if there is none: whether it is one for the job is left to Admit.
	Most, Wall int
	// Until is when Admit begins to warn of an old snapshot; zero if it does not.
	Until time.Time
	Rooms []QuickRoom
}

// QuickRoom is a reservation, open now or later, from From to Last as in [Quick]. Minutes are
// those in between, 0 if it has no end; Nodes and GPUs as in Quick, but with failed hosts.
// Fence is when the reservation ID must be free of jobs, zero if it has no end.
type QuickRoom struct {
	ID                   string
	Fence                time.Time
	From, Last           time.Time
	Minutes, Nodes, GPUs int
}

// QuickFits are those of a snapshot, for as long as it is the last one.
func QuickFits(snap *Snapshot) []QuickFit {
	var all []QuickFit
	for _, p := range snap.Partitions {
		in, simple := quickCandidates(p, snap)
		if !simple || p.MaxTime.Bounded() && p.MaxTime.Minutes < 1 {
			continue
		}
		f := QuickFit{Partition: p.Name, Floor: LimitOf(p.MinTime.Duration).Minutes, Most: p.MaxTime.Minutes, Wall: snap.Walls.shortest().Minutes}
		if snap.TimeMinCollapses {
			f.Until = snap.TakenAt.Add(snap.Submit.StaleAfter.Duration)
		}
		for _, c := range in {
			room := QuickRoom{ID: c.reservation.ID, Fence: c.window.Fence, From: c.window.Start, Last: c.last(snap), Nodes: c.size(), GPUs: c.group.GPUs}
			if !room.Last.IsZero() {
				room.Minutes = max(0, int(room.Last.Sub(room.From)/time.Minute))
			}
			f.Rooms = append(f.Rooms, room)
		}
		if len(f.Rooms) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// QuickTooLong is what [Admit] says of a job that a [Quick] describes but for its limit, and
// whose limit is longer than the longest room, at least a minute, of the [QuickRoom]s that are
// large enough for it. Its %s stand for the limit, for the room's ID, the partition and the
// Fence, and for the room's length, twice. It is "" where jobs are not refused; from until on
// Admit says more.
func QuickTooLong(snap *Snapshot) (says string, until time.Time) {
	if !snap.Submit.Strict {
		return "", time.Time{}
	}
	return fmt.Sprintf(longestFit, "the job", "%s", mustBeFree, "%s", "%s"), snap.TakenAt.Add(snap.Submit.StaleAfter.Duration)
}
