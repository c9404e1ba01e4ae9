package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// launches reports whether nodes are launched by us, so that jobs can be refused and held.
func (p *pass) launches() bool {
	return slices.ContainsFunc(p.snap.Partitions, func(part capacity.Partition) bool { return part.Provider == capacity.ProviderEC2 })
}

// leaveToOwners ends our holds of jobs whose time is over, or which were refused and changed so
// that they are admitted: their owners can release them then. It does so once, when what a
// job's last run has left is cleaned up: until then Slurm can make any hold an
// administrator's. What an administrator holds later stays so.
func (p *pass) leaveToOwners(ctx context.Context, jobs []Job) {
	for _, j := range jobs {
		until, rest, ours := capacity.ReadHoldNote(j.AdminComment)
		if !ours || !j.Settled || until.After(p.MachineTime()) && !p.admitted(j) {
			continue
		}
		var err error
		if j.AdminHeld {
			err = p.Slurm.UserHold(ctx, j.Shown)
			p.did(Done{Do: "end-hold", Job: j.Shown, Message: fmt.Sprintf("job %s, which was held: its owner can release it now", j.Shown)}, err)
		}
		if err == nil { // else the next pass tries again
			p.fail(p.Slurm.SetAdminComment(ctx, j.Shown, rest))
		}
	}
}

// admitted reports whether a job would be let through as it is, and not only because the
// settings or an old snapshot make warnings of refusals.
func (p *pass) admitted(j Job) bool {
	v := capacity.Admit(j.Request(p.snap), p.snap, p.now)
	return v.Code == capacity.OK || v.Code == capacity.NotManaged
}
