package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Quick is a partition in terms simple enough for the Lua scripts. With it they decide as [Admit] does about a job in
// this partition alone whose comment asks for at most a reservation.
type Quick struct {
	Partition string
	// Accounts that the job may run under; empty means every account.
	Accounts []string
	// Floor is the --time-min of a job without a limit; Most is the partition's MaxTime, 0 for none; both in minutes.
	// Wall is the shortest limit of accounting, 0 for none; Admit decides whether it applies to the job.
	Floor, Most, Wall int
	Rooms             []QuickRoom
}

// QuickRoom is a reservation that has not ended, open now or later.
type QuickRoom struct {
	// ID is "" for on-demand nodes.
	ID string
	// From is when the reservation opens. Last is when a job must have ended, boot not counted. Fence is when the
	// reservation must be free of jobs. Last and Fence are zero if the reservation has no end.
	From, Last, Fence time.Time
	// Nodes is the most nodes that one job may have. Usable is how many of them have not failed, 0 before the
	// reservation is active. GPUs and CPUs are the numbers in a node, 0 if unknown.
	Nodes, Usable, GPUs, CPUs int
}

// Quicks returns the snapshot's simple partitions. It omits a partition where more than sizes, accounts and times
// decides about jobs: where jobs need a constraint.
func Quicks(snap *Snapshot) (all []Quick) {
	for _, p := range snap.Partitions {
		in := candidates(p, snap)
		if len(features(in)) > 1 || p.MaxTime.Bounded() && p.MaxTime.Minutes < 1 {
			continue
		}
		q := Quick{Partition: p.Name, Accounts: slices.Clone(p.AllowAccounts), Floor: LimitOf(p.MinTime.Duration).Minutes,
			Most: p.MaxTime.Minutes, Wall: snap.Walls.shortest().Minutes}
		for _, c := range named(in) {
			live := c.onDemand() || c.Reservation.State.Live()
			if c.Unknown || c.Never || !live || len(c.mismatches()) > 0 {
				continue
			}
			room := QuickRoom{ID: c.Reservation.ID, From: c.Window.Start, Last: c.last(snap),
				Fence: c.Window.Fence, Nodes: c.size(), GPUs: c.Group.GPUs, CPUs: c.Group.CPUs}
			if c.onDemand() || c.Reservation.State == StateActive {
				room.Usable = c.healthy()
			}
			q.Rooms = append(q.Rooms, room)
		}
		if len(q.Rooms) > 0 {
			all = append(all, q)
		}
	}
	return all
}

// last is when a job that starts in the candidate must have ended, boot not counted; zero if the candidate has no end.
func (c Turn) last(snap *Snapshot) time.Time {
	if c.boots() && !c.Window.Fence.IsZero() {
		return c.Window.Fence.Add(-snap.Timing.BootAllowance.Duration)
	}
	return c.Window.Fence
}

// Sentence is a message to a job from the Lua scripts, the same as from [Admit]: a template for Lua's string.format.
type Sentence struct {
	// Name is the code of a refusal; other sentences have their own names.
	Name string
	// Refuses: the sentence refuses the job. RefusesLater: it refuses even with a stale snapshot. Otherwise it is a
	// warning.
	Refuses, RefusesLater bool
	Text                  string
}

// Sentences returns the sentences for a snapshot.
func Sentences(snap *Snapshot) []Sentence {
	later := snap.TakenAt.Add(snap.Submit.StaleAfter.Duration + 1)
	refusal := func(code Code, text string) Sentence {
		v := refuse(code, "%s", text)
		return Sentence{Name: string(code), Refuses: soften(v, snap, snap.TakenAt).Refused,
			RefusesLater: soften(v, snap, later).Refused, Text: text}
	}
	all := []Sentence{
		refusal(TooLong, fmt.Sprintf(longestFit, jobNeeds, "%s"+mustBeFree, "%s")),
		refusal(TooManyNodes, strings.Replace(tooManyNodes, "%s", largestHas, 1)),
		{Name: "begins", Text: beginsAt},
		{Name: "waits", Text: waitsForNext},
		{Name: "age", Text: knownFor},
	}
	if snap.TimeMinCollapses {
		all = append(all, Sentence{Name: "raised", Text: raisedLater})
	}
	return all
}
