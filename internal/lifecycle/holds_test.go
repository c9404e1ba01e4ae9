package lifecycle

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A hold that Slurm makes an administrator's once more, after sync has made it the owner's, is
// made the owner's again: without our note nobody would know that it is ours.
func TestHoldsAreLeftToTheirOwners(t *testing.T) {
	w := newWorld(t, 1)
	held := w.now()
	j := w.slurm.submit(modelJob{Job: capacity.Job{Partition: "elsewhere", AdminComment: capacity.HoldNote(held, "partition gpu refuses this job")}})
	j.Held = true
	p := passOf(w.sources, Seen{Snap: &capacity.Snapshot{}})
	for _, step := range []struct {
		after     time.Duration
		reason    string // what Slurm has made of the hold
		ours, own bool   // after the pass
	}{
		{after: 0, reason: "job requeued in held state", ours: true, own: false},
		{after: 0, reason: "JobHeldUser", ours: true, own: true},
		{after: time.Second, reason: "JobHeldAdmin", ours: true, own: true},
		{after: 3 * time.Second, reason: "JobHeldAdmin", ours: true, own: true},
		{after: relabels - time.Second, reason: "JobHeldUser", ours: true, own: true},
		{after: relabels, reason: "job requeued in held state", ours: false, own: true},
		{after: time.Minute, reason: "JobHeldAdmin", ours: false, own: false}, // an administrator's word
	} {
		w.slurm.now = held.Add(step.after)
		p.seen.Now = w.slurm.now
		j.Reason = step.reason
		p.seen.Jobs = []capacity.Job{j.Job}
		p.carryOut(t.Context(), endedHolds(p.seen))
		if _, _, ours := capacity.ReadHoldNote(j.AdminComment); ours != step.ours || j.AdminHeld() == step.own {
			t.Errorf("after %s: our note: %v, an administrator's: %v", step.after, ours, j.AdminHeld())
		}
	}
	if p.failed != nil {
		t.Error(p.failed)
	}
	// Of an older refusal, changed before its time is over: Begin is when Slurm held the job.
	early := w.slurm.submit(modelJob{Job: capacity.Job{Partition: "elsewhere", AdminComment: capacity.HoldNote(w.slurm.now.Add(time.Hour), "refused 3 times")}})
	early.Held, early.Reason, early.Eligible = true, "JobHeldUser", w.slurm.now.Add(-time.Second)
	for i, want := range []bool{true, false} {
		p.seen.Jobs = []capacity.Job{early.Job}
		p.carryOut(t.Context(), endedHolds(p.seen))
		if _, _, ours := capacity.ReadHoldNote(early.AdminComment); ours != want {
			t.Errorf("changed, pass %d: our note: %v", i+1, ours)
		}
		w.slurm.now = w.slurm.now.Add(relabels)
		p.seen.Now = w.slurm.now
	}
}
