package capacity

import (
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
		in := candidates(p, snap)
		if len(features(in)) > 1 || len(p.AllowGroups) > 0 {
			continue // the job needs a constraint, or its user's groups are looked up
		}
		for _, c := range in {
			open := c.reservation.ID == "" || c.reservation.State == StateActive
			nodes := min(c.size(), c.healthy())
			if c.unknown || c.never || !open || nodes < 1 || len(c.mismatches()) > 0 {
				continue
			}
			q := Quick{Partition: p.Name, Accounts: slices.Clone(p.AllowAccounts), From: c.window.Start, Last: c.window.Fence, Nodes: nodes, GPUs: c.group.GPUs}
			if c.boots && !q.Last.IsZero() {
				q.Last = q.Last.Add(-snap.Timing.BootAllowance.Duration)
			}
			all = append(all, q)
		}
	}
	return all
}
