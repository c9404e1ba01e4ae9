package main

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// R7: a comment that is written while a job runs raises no limit; one from before does.
func TestLong_R7_CommentOfARunningJob(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	if version, err := (&slurm.Client{}).Version(r.ctx); err != nil || !version.TimeMinCollapses() {
		t.Skip("this Slurm starts no job with its --time-min: nothing is raised", err)
	}
	comment := func(j capacity.Job, text string) {
		t.Helper()
		if out, err := r.cluster.Command(r.ctx, "scontrol", "update", "jobid="+j.Shown, "comment="+text); err != nil {
			t.Fatal(out, err)
		}
	}
	submit := func(node, comment string, more ...string) string {
		t.Helper()
		return r.submit(append([]string{"-C", "gpu", "-w", node, "-t", "240", "--time-min=1", "--comment=" + comment}, more...)...)
	}
	waited := submit("gpu-1", "", "--hold")
	marked := submit("gpu-2", "time=fit:2", "--hold")
	ran := r.running(submit("gpu-3", ""))
	between := submit("gpu-4", "time=fit", "--hold")
	r.sync() // sees two that wait, and one that runs
	for _, id := range []string{waited, marked, between} {
		if out, err := r.cluster.Command(r.ctx, "scontrol", "release", id); err != nil {
			t.Fatal(out, err)
		}
	}
	for _, j := range []capacity.Job{r.running(waited), ran} {
		comment(j, "time=fit")
	}
	comment(r.running(marked), "time=fit:99")
	last := r.running(between)
	comment(last, "no")
	did := r.sync()
	if got, want := strings.Join(did, "; "), "raise-limit gpu "+marked; got != want {
		t.Errorf("the pass did %q, want %q", got, want)
	}
	if now := r.job(marked); now.TimeLimit.Minutes != 2 {
		t.Errorf("the limit of a job that was marked up to 2 minutes is %s", now.TimeLimit)
	}
	// What is taken back stays so.
	comment(last, "time=fit")
	r.expect()

	// A job that starts before a pass has seen it is believed.
	r.cancel(ran.Shown)
	unseen := r.running(submit("gpu-3", "run=3 time=fit"))
	r.expect("raise-limit gpu " + unseen.Shown)

	// Each start counts for itself: what is written before the next one is from before.
	if out, err := r.cluster.Command(r.ctx, "scontrol", "requeuehold", waited); err != nil {
		t.Fatal(out, err)
	}
	r.until("the job waits", func() bool { return r.job(waited).Settled() })
	if out, err := r.cluster.Command(r.ctx, "scontrol", "release", waited); err != nil {
		t.Fatal(out, err)
	}
	again := r.running(waited)
	if again.Restarts != 1 {
		t.Fatalf("%+v", again)
	}
	if got := strings.Join(r.sync(), "; "); !strings.Contains(got, "raise-limit gpu "+waited) {
		t.Errorf("the pass did %q, and the job was marked before its second start", got)
	}
}
