package main

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// R7: a comment that is written while a job runs raises no limit; one from before does.
func TestR7_CommentOfARunningJob(t *testing.T) {
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
		return r.submit(append([]string{"-C", "gpu", "-w", node, "-t", "4", "--time-min=1", "--comment=" + comment}, more...)...)
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
	r.waits(waited)
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

// No raise goes past what Slurm's accounting would have let the job have.
func TestRaiseKeepsToTheLimitsOfAccounting(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsalOn(t, func(cfg *slurmlab.Config) {
		cfg.Accounting, cfg.Extra = true, []string{"AccountingStorageEnforce=limits"}
	})
	if version, err := (&slurm.Client{}).Version(r.ctx); err != nil || !version.TimeMinCollapses() {
		t.Skip("this Slurm starts no job with its --time-min: nothing is raised", err)
	}
	r.sync()
	job := r.running(r.submit("-C", "long", "-w", "long-1", "-t", "4", "--time-min=1", "--comment=time=fit"))
	// The backfill scheduler alone starts a job with its --time-min; the main one comes first now and then.
	if err := (&slurm.Client{}).SetTimeLimit(r.ctx, job.Shown, 1); err != nil {
		t.Fatal(err)
	}
	accounting := func(limits ...string) {
		t.Helper()
		if out, err := r.cluster.Command(r.ctx, "sacctmgr", append([]string{"--immediate", "modify", "qos", "normal", "set"}, limits...)...); err != nil {
			t.Fatal(out, err)
		}
	}
	accounting("maxwall=2")
	r.expect("raise-limit long " + job.Shown)
	if now := r.job(job.Shown); now.TimeLimit.Minutes != 2 {
		t.Errorf("raised to %s, and accounting allows 2 minutes", now.TimeLimit)
	}
	// What it has left of a limit on use counts as well.
	accounting("maxwall=-1", "maxtresmins=node=3")
	r.expect("raise-limit long " + job.Shown)
	if now := r.job(job.Shown); now.TimeLimit.Minutes != 3 {
		t.Errorf("raised to %s, and accounting allows 3 minutes of a node", now.TimeLimit)
	}
	// Without slurmdbd, what was known counts.
	if out, err := r.cluster.Command(r.ctx, "sacctmgr", "shutdown"); err != nil {
		t.Fatal(out, err)
	}
	_, report, err := lifecycle.Pass(r.ctx, lifecycle.From(r.cfg, r.aws, nil))
	if err != nil || len(report.Done) != 0 || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "MaxTRESMinsPerJob of node of QOS normal leaves less than the time to the fence (job "+job.Shown+")") || len(report.Problems) != 1 || !strings.Contains(report.Problems[0], "reading the limits of accounting: ") {
		t.Errorf("without slurmdbd: %v, %+v", err, report)
	}
}
