package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Quick is a partition in terms simple enough for the Lua scripts, which judge a job by it as
// [Admit] does: one of this partition alone, whose comment asks for nothing but a reservation.
type Quick struct {
	Partition string
	// Accounts that the job may run under; empty means every one.
	Accounts []string
	// Floor is the --time-min of a job that states no limit, Most the partition's MaxTime, 0 if
	// it has none, both in minutes. Wall is the shortest limit of accounting, 0 if there is none:
	// whether it is one for the job is left to Admit.
	Floor, Most, Wall int
	Rooms             []QuickRoom
}

// QuickRoom is a reservation that has not ended, open now or later.
type QuickRoom struct {
	// ID is "" for nodes on demand.
	ID string
	// From is when the reservation opens, Last when a job must have ended, its boot not counted,
	// Fence when the reservation must be free of jobs; the two are zero if it has no end.
	From, Last, Fence time.Time
	// Nodes is the most that one job may have, Usable how many of them have not failed, 0 before
	// the reservation is active. GPUs is how many a node has, 0 if nobody knows.
	Nodes, Usable, GPUs int
}

// Quicks are those of a snapshot. A partition is left out if more than sizes, accounts and times
// decides about jobs there: if they need a constraint, or their users' groups are looked up.
func Quicks(snap *Snapshot) []Quick {
	var all []Quick
	for _, p := range snap.Partitions {
		in := candidates(p, snap)
		if len(features(in)) > 1 || len(p.AllowGroups) > 0 || p.MaxTime.Bounded() && p.MaxTime.Minutes < 1 {
			continue
		}
		q := Quick{Partition: p.Name, Accounts: slices.Clone(p.AllowAccounts), Floor: LimitOf(p.MinTime.Duration).Minutes,
			Most: p.MaxTime.Minutes, Wall: snap.Walls.shortest().Minutes}
		for _, c := range named(in) {
			live := c.onDemand() || c.reservation.State.Live()
			if c.unknown || c.never || !live || len(c.mismatches()) > 0 {
				continue
			}
			room := QuickRoom{ID: c.reservation.ID, From: c.window.Start, Last: c.last(snap), Fence: c.window.Fence, Nodes: c.size(), GPUs: c.group.GPUs}
			if c.onDemand() || c.reservation.State == StateActive {
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

// last is when a job that starts in the candidate must have ended, its boot not counted; zero
// if it has no end.
func (c candidate) last(snap *Snapshot) time.Time {
	if c.boots && !c.window.Fence.IsZero() {
		return c.window.Fence.Add(-snap.Timing.BootAllowance.Duration)
	}
	return c.window.Fence
}

// Sentence is what a job hears from the Lua scripts, as from [Admit]: a template for
// string.format of Lua.
type Sentence struct {
	// Name is the code of a refusal; others have names of their own.
	Name string
	// Refuses: it refuses the job, RefusesLater: with an old snapshot as well. Else it warns.
	Refuses, RefusesLater bool
	Text                  string
}

// Sentences are those of a snapshot.
func Sentences(snap *Snapshot) []Sentence {
	later := snap.TakenAt.Add(snap.Submit.StaleAfter.Duration + 1)
	refusal := func(code Code, text string) Sentence {
		v := refuse(code, text)
		return Sentence{Name: string(code), Refuses: soften(v, snap, snap.TakenAt).Refused, RefusesLater: soften(v, snap, later).Refused, Text: text}
	}
	all := []Sentence{
		refusal(TooLong, fmt.Sprintf(longestFit, "the job", "%s", "%s"+mustBeFree, "%s", "%s")),
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
