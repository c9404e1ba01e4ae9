package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// The last task of an array has the array's own id, and the first component of a het job
// that of the whole: a limit that is meant for one of them must not become that of all.
func TestLimitOfOneTask(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	fence := r.fence("cr-0e2000000000000a1")
	if version, err := (&slurm.Client{}).Version(r.ctx); err != nil || !version.TimeMinCollapses() {
		t.Skip("this Slurm starts no job with its --time-min: nothing is raised", err)
	}
	r.sync()

	// Two tasks run at a time; the first ends when it is told to.
	end := filepath.Join(t.TempDir(), "end")
	array, err := r.cluster.Submit(r.ctx, `while [ ! -e `+end+` ] || [ $SLURM_ARRAY_TASK_ID != 0 ]; do sleep 0.2; done`,
		"-p", "gpu", "-C", "gpu", "-a", "0-2%2", "-t", "4", "--time-min=1", "--comment=time=fit")
	if err != nil {
		t.Fatal(err)
	}
	first, second := r.runs(array+"_0"), r.runs(array+"_1")
	r.expect("raise-limit gpu "+first.Shown, "raise-limit gpu "+second.Shown)
	second = r.shown(second.Shown)

	// The last one starts so late that it gets a minute less; Slurm's times are whole seconds.
	left := func() time.Duration { return (time.Until(fence) + 2*time.Second).Truncate(time.Minute) }
	for before := left(); left() == before; {
		time.Sleep(100 * time.Millisecond)
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	last := r.runs(array + "_2")
	if strconv.Itoa(last.ID) != array {
		t.Fatalf("job %+v has not the id of its array: the test proves nothing", last)
	}
	r.expect("raise-limit gpu " + last.Shown)
	if now := r.shown(last.Shown); now.TimeLimit.Minutes >= second.TimeLimit.Minutes || now.TimeLimit.Minutes <= last.TimeLimit.Minutes {
		t.Errorf("the limit of the last task went from %s to %s; the second has %s", last.TimeLimit, now.TimeLimit, second.TimeLimit)
	}
	if now := r.shown(second.Shown); now.TimeLimit != second.TimeLimit {
		t.Errorf("the limit of the second task went from %s to %s", second.TimeLimit, now.TimeLimit)
	}
	r.expect()
	r.cancel(array)
}

func (r *rehearsal) jobs() []capacity.Job {
	r.Helper()
	jobs, _, err := (&slurm.Client{}).JobsOf(r.ctx, nil, nil)
	if err != nil {
		r.Fatal(err)
	}
	return jobs
}

// shown finds a job as squeue shows it.
func (r *rehearsal) shown(id string) capacity.Job {
	r.Helper()
	for _, j := range r.jobs() {
		if j.Shown == id {
			return j
		}
	}
	return capacity.Job{}
}

// runs waits until a job that squeue shows under an id runs.
func (r *rehearsal) runs(id string) capacity.Job {
	r.Helper()
	for r.ctx.Err() == nil {
		if j := r.shown(id); j.State == "RUNNING" && !j.Configuring() {
			return j
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.Fatalf("job %s does not run: %+v", id, r.shown(id))
	return capacity.Job{}
}

// waits waits until a job waits for its start and holds no node.
func (r *rehearsal) waits(id string) {
	r.Helper()
	for r.ctx.Err() == nil {
		if j := r.shown(id); j.State == "PENDING" && len(j.Nodes) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.Fatalf("job %s does not wait: %+v", id, r.shown(id))
}
