package lifecycle

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// launches reports whether we launch nodes, so that a launch can refuse and hold a job.
func (s Seen) launches() bool {
	return slices.ContainsFunc(s.Snap.Partitions,
		func(part capacity.Partition) bool { return part.Provider.Launches() })
}

// relabels is how long after a requeue Slurm may turn any hold into an administrator's: when the job's last run has
// been cleaned up, and again when the scheduler next runs (seen on 24.11: up to 5 s on a busy machine).
const relabels = 10 * time.Second

// endedHolds ends our holds whose time is over, and those of refused jobs that have changed and are now admitted:
// their owners can then release them. The note that the hold is ours stays for a moment, in which Slurm may turn the
// hold into an administrator's again. A later hold by an administrator stays. If an administrator holds a job that
// only administrators can release, Slurm shows no difference (22.05 to 25.11): whoever places such a hold must clear
// our note as well.
func endedHolds(seen Seen) []capacity.Effect {
	now := seen.SlurmNow()
	var effects []capacity.Effect
	for _, j := range seen.left() {
		until, rest, ours := capacity.ReadHoldNote(j.AdminComment)
		if !ours || !j.Settled() || until.After(now) && !admitted(seen, j) {
			continue
		}
		early := until.After(now) // changed before its time
		var since time.Time       // of the requeue or of a hold; Slurm sets Begin from it
		for _, t := range []time.Time{until, j.Eligible} {
			if !t.After(now) && t.After(since) {
				since = t
			}
		}
		over := !since.Add(relabels).After(now)
		e := EndHold{
			Job:   j,
			Admin: j.AdminHeld() && (over || !j.HoldUntold()),
			Over:  over && !(early && j.AdminHeld()),
			Note:  rest,
		}
		if e.Admin || e.Over { // else a later pass does
			effects = append(effects, e)
		}
	}
	return effects
}

// admitted reports whether a job would be accepted as it is, not only because the settings or an old snapshot turn
// refusals into warnings.
func admitted(seen Seen, j capacity.Job) bool {
	v := capacity.Admit(seen.Snap.Request(j), seen.Snap, seen.Now)
	return v.Code == capacity.OK || v.Code == capacity.NotManaged
}
