package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// launches reports whether nodes are launched by us, so that jobs can be refused and held.
func (p *pass) launches() bool {
	return slices.ContainsFunc(p.snap.Partitions, func(part capacity.Partition) bool { return part.Provider == capacity.ProviderEC2 })
}

// relabels is for how long after a requeue Slurm may make any hold an administrator's: when
// what the job's last run has left is cleaned up, and then when its scheduler comes by (seen
// on 24.11: up to 5 s on a busy machine).
const relabels = 10 * time.Second

// leaveToOwners ends our holds of jobs whose time is over, or which were refused and changed so
// that they are admitted: their owners can release them then. The note that it is our hold stays
// for a moment, in which Slurm may make it an administrator's again. What an administrator
// holds later stays so. A hold on one that administrators alone can release changes nothing that
// Slurm shows (22.05 to 25.11): who places one clears our note as well.
func (p *pass) leaveToOwners(ctx context.Context, jobs []capacity.Job) {
	now := p.MachineTime()
	for _, j := range jobs {
		until, rest, ours := capacity.ReadHoldNote(j.AdminComment)
		if !ours || !j.Settled() || until.After(now) && !p.admitted(j) {
			continue
		}
		early := until.After(now) // changed before its time
		var since time.Time       // of the requeue or of a hold, from which Slurm has Begin
		for _, t := range []time.Time{until, j.Eligible} {
			if !t.After(now) && t.After(since) {
				since = t
			}
		}
		over := !since.Add(relabels).After(now)
		var err error
		if j.AdminHeld() && (over || !j.HoldUntold()) {
			err = p.Slurm.UserHold(ctx, j.Shown)
			p.did(Done{Do: "end-hold", Job: j.Shown, Message: fmt.Sprintf("job %s, which was held: its owner can release it now", j.Shown)}, err)
		}
		if err == nil && over && !(early && j.AdminHeld()) { // else a later pass does
			p.fail(p.Slurm.SetAdminComment(ctx, j.Shown, rest))
		}
	}
}

// admitted reports whether a job would be let through as it is, and not only because the
// settings or an old snapshot make warnings of refusals.
func (p *pass) admitted(j capacity.Job) bool {
	v := capacity.Admit(p.snap.Request(j), p.snap, p.now)
	return v.Code == capacity.OK || v.Code == capacity.NotManaged
}
