package lifecycle

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// launches reports whether nodes are launched by us, so that jobs can be refused and held.
func (s Seen) launches() bool {
	return slices.ContainsFunc(s.Snap.Partitions, func(part capacity.Partition) bool { return part.Provider == capacity.ProviderEC2 })
}

// relabels is for how long after a requeue Slurm may make any hold an administrator's: when
// what the job's last run has left is cleaned up, and then when its scheduler comes by (seen
// on 24.11: up to 5 s on a busy machine).
const relabels = 10 * time.Second

// endedHolds ends our holds of jobs whose time is over, or which were refused and changed so
// that they are admitted: their owners can release them then. The note that it is our hold stays
// for a moment, in which Slurm may make it an administrator's again. What an administrator
// holds later stays so. A hold on one that administrators alone can release changes nothing that
// Slurm shows (22.05 to 25.11): who places one clears our note as well.
func endedHolds(seen Seen) []capacity.Effect {
	now := seen.SlurmNow()
	var effects []capacity.Effect
	for _, j := range seen.left() {
		until, rest, ours := capacity.ReadHoldNote(j.AdminComment)
		if !ours || !j.Settled() || until.After(now) && !admitted(seen, j) {
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
		e := EndHold{Job: j.Shown, Admin: j.AdminHeld() && (over || !j.HoldUntold()), Over: over && !(early && j.AdminHeld()), Note: rest}
		if e.Admin || e.Over { // else a later pass does
			effects = append(effects, e)
		}
	}
	return effects
}

// admitted reports whether a job would be let through as it is, and not only because the
// settings or an old snapshot make warnings of refusals.
func admitted(seen Seen, j capacity.Job) bool {
	v := capacity.Admit(seen.Snap.Request(j), seen.Snap, seen.Now)
	return v.Code == capacity.OK || v.Code == capacity.NotManaged
}
