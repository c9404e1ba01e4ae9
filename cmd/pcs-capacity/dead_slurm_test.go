package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// TestR2_SyncDeadBeforeTheFence: one pass, and then none any more: what it knows is an hour old
// when the fence comes. The fence that it placed lets Slurm alone keep every job from crossing it:
// what is fitted to it, what states more, tasks of an array, what is requeued in front of it, and
// what has no limit. Slurm ends what is over its limit up to 30 s late (PERIODIC_TIMEOUT).
func TestR2_SyncDeadBeforeTheFence(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	const block = "cr-0e2000000000000a1"
	r := newRehearsalIn(t, strings.Replace(rehearsalWorld, "+205s", "+150s", 1), rehearsalConfig, func(*slurmlab.Config) {})
	r.sync()
	fence := r.fence(block)
	snap, err := state.Dir(r.cfg.StateDir).ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	snap.TakenAt = snap.TakenAt.Add(-time.Hour)
	if err := state.Dir(r.cfg.StateDir).WriteSnapshot(snap); err != nil {
		t.Fatal(err)
	}

	fits := []string{r.submit("-C", "gpu", "-w", "gpu-1", "-t", "60", "--time-min=1", "--comment=time=fit"),
		r.submit("-C", "gpu", "-w", "gpu-2", "-t", "60", "--time-min=1", "--array=3")}
	crosses := []string{r.submit("-C", "gpu", "-t", "4"), r.submit("-C", "gpu", "-t", "4-0", "--time-min=4"), r.submit("-C", "gpu", "-w", "gpu-4", "-t", "UNLIMITED")}
	for _, id := range fits {
		if job := r.running(id); job.End.After(fence) {
			t.Errorf("job %s ends at %s by its limit, the fence is at %s", id, job.End, fence)
		}
	}
	// It has another minute, and then it does not fit any more.
	again := r.submit("-C", "gpu", "-w", "gpu-3", "-t", "1")
	r.running(again)
	r.within(3*time.Minute, "the fence is a few seconds away", func() bool { return time.Until(fence) < 20*time.Second })
	_, _ = r.cluster.Command(r.ctx, "scontrol", "requeue", again) // unless it has ended
	crosses = append(crosses, r.submit("-C", "gpu", "-t", "1"))
	r.within(2*time.Minute, "the fence has begun", func() bool { return time.Now().After(fence.Add(32 * time.Second)) })

	out, err := r.cluster.Command(r.ctx, "squeue", "-h", "-t", "R", "-w", "gpu-[1-4]", "-o", "%i %N %e")
	if err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("behind the fence of %s there run: %s %v", fence, out, err)
	}
	t.Run("the queue is not let loose when the block ends", func(t *testing.T) {
		for _, id := range crosses {
			if job := r.job(id); job.State != "PENDING" {
				t.Errorf("job %s, which would have crossed the fence, is %s", id, job.State)
			}
		}
		if got := r.reservations()["pcs-capacity-fence-gpu"]; !got.Active || !got.Infinite() {
			t.Errorf("the fence is %+v", got)
		}
	})
}
