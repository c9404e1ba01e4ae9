package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A job that is longer than its block waits already when the rule comes: sync lets it start with less, raises that to
// the fence, and gives it back its own limit when it is requeued there.
func TestLong_RunToFence(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	const block = "cr-0e2000000000000a1"

	own := capacity.Minutes(6 * 24 * 60)

	r := newRehearsal(t)
	r.sync() // fences
	job := r.submit("-C", "gpu", "-w", "gpu-1", "-t", "6-0", "--comment=on_end=requeue", "--hold")
	stops := r.submit("-C", "gpu", "-w", "gpu-2", "-t", "6-0")
	r.expect("set-limit  "+job, "tell-owner  "+stops)

	doc := r.document()
	if notes := strings.Join(doc.Texts(capacity.Note), "\n"); !strings.Contains(notes,
		"1 waiting job does not fit; 1 could be requeued there (on_end=requeue)") {
		t.Errorf("status says %q", notes)
	}

	if j := r.job(job); j.TimeMin != capacity.Minutes(3) || j.TimeLimit != own {
		t.Fatalf("it waits with %s, at least %s", j.TimeLimit, j.TimeMin)
	}

	r.scontrol("release", job)
	r.running(job)

	fence := r.fence(block)
	r.until("its limit ends it at the fence", func() bool {
		r.sync()

		left := fence.Sub(r.job(job).End)

		return left >= 0 && left < 2*time.Minute
	})

	r.sim.Clock().Advance(fence.Sub(r.sim.Clock().Now()) - 30*time.Second)
	r.until("it waits again with its own limit", func() bool {
		r.sync()

		j := r.job(job)

		return j.State == "PENDING" && j.Restarts == 1 && j.TimeLimit == own
	})

	if note := r.job(job).AdminComment; !strings.Contains(note, "; it has run for 00:0") {
		t.Errorf("its owner reads %q", note)
	}
}

// Nobody raised the limit with which Slurm had started a job, and it ended by that: a pass that comes while Slurm knows
// the job requeues it.
func TestLong_CutShortJobIsRequeued(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	r := newRehearsal(t)
	r.sync() // fences
	job := r.submit("-C", "gpu", "-w", "gpu-1", "-t", "6-0", "--time-min=1", "--comment=on_end=requeue", "--hold")
	r.sync() // sees its own limit
	r.scontrol("release", job)
	r.running(job)
	r.scontrol("update", "jobid="+job, "timelimit=1")

	if _, err := r.cluster.WaitJob(r.ctx, job, "TIMEOUT"); err != nil {
		t.Fatal(err)
	}

	r.until("it waits again with its own limit", func() bool {
		r.sync()

		j := r.job(job)

		return j.Restarts == 1 && j.TimeLimit == capacity.Minutes(6*24*60)
	})
}
