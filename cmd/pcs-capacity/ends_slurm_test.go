package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestLong_R2_R11_LimitsFollowTheEnd: limits come down to the fence, less what Slurm lets jobs run over them, whatever
// else squeue shows; they follow the end of an ODCR back and forth, and both fence and limits go with it.
func TestLong_R2_R11_LimitsFollowTheEnd(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	const id = "cr-0e2000000000000a1"

	r := newRehearsalIn(
		t,
		strings.Replace(rehearsalWorld, `a1", kind = "capacity-block"`, `a1", kind = "odcr"`, 1),
		strings.Replace(
			rehearsalConfig,
			"name = \"gpu\"\ndynamic = true\ninstance_type",
			"name = \"gpu\"\npurchase_option = \"odcr\"\ninstance_type",
			1,
		),
		func(c *slurmlab.Config) { c.Extra = append(c.Extra, "OverTimeLimit=30") },
	)

	odcr, err := ec2.Reservation(r.ctx, r.aws, id)
	if err != nil {
		t.Fatal(err)
	}

	fence := odcr.End.Add(-r.cfg.Timing.DrainMargin.Duration - 30*time.Minute)
	move := func(end time.Time) {
		t.Helper()

		if err := r.sim.SetEnd("us-east-2", id, end); err != nil {
			t.Fatal(err)
		}

		if !end.IsZero() {
			fence = fence.Add(end.Sub(odcr.End))
			odcr.End = end
		}
	}
	ends := func(jobs ...string) {
		t.Helper()

		for _, id := range jobs {
			if j := r.job(id); fence.Sub(j.End) < 0 || fence.Sub(j.End) > 2*time.Minute ||
				!strings.Contains(j.AdminComment, "the time limit is ") {
				t.Errorf("job %s ends %s before the fence, %q", id, fence.Sub(j.End), j.AdminComment)
			}
		}
	}

	r.sync()

	long, endless := r.submit("-C", "gpu", "-w", "gpu-1", "-t", "60"), r.submit("-C", "gpu", "-w", "gpu-2", "-t", "60")
	own := r.submit("-C", "gpu", "-w", "gpu-3", "-t", "120")
	for _, job := range []string{long, own, endless} {
		r.running(job)
	}

	r.scontrol("update", "jobid="+long, "timelimit=240")

	// A job whose partition an administrator has removed shows no limit.
	r.scontrol("create", "PartitionName=other", "Nodes=static-1")

	orphan, err := r.cluster.Submit(r.ctx, "true", "-p", "other", "-H", "-n1")
	if err != nil {
		t.Fatal(err)
	}

	r.scontrol("reconfigure") // slurm.conf does not have it

	if out, err := r.cluster.Command(r.ctx, "squeue", "--all", "--states=all", "--noheader", "--Format=TimeLimit",
		"--jobs="+orphan); err != nil ||
		!strings.Contains(out, "NOT_SET") {
		t.Errorf("the limit of a job without a partition: %s%v", out, err)
	}

	r.expect("lower-limit gpu " + long)
	ends(long)

	// An operator takes a limit off, some time after the job's start.
	r.until("a minute has begun", func() bool { return time.Since(r.job(endless).Start) > 5*time.Second })
	r.scontrol("update", "jobid="+endless, "timelimit=UNLIMITED")
	r.expect("lower-limit gpu " + endless)
	ends(endless)
	r.expect()

	move(odcr.End.Add(-90 * time.Minute))
	r.expect() // an earlier end counts when two passes have read it
	r.expect("update-fence gpu", "lower-limit gpu "+long, "lower-limit gpu "+endless, "lower-limit gpu "+own)
	ends(long, endless, own)
	move(odcr.End.Add(90 * time.Minute))
	r.expect("update-fence gpu", "raise-limit gpu "+long, "raise-limit gpu "+endless, "raise-limit gpu "+own)
	ends(long, endless)

	if j := r.job(own); j.TimeLimit != capacity.Minutes(120) {
		t.Errorf("a job that stated 2 hours has %s", j.TimeLimit)
	}

	r.expect()

	move(time.Time{})
	r.expect("delete-fence gpu", "raise-limit gpu "+long, "raise-limit gpu "+endless)

	if j := r.job(long); j.TimeLimit != capacity.Minutes(240) || r.has("pcs-capacity-fence-gpu") {
		t.Errorf("without an end: limit %s, reservations %v", j.TimeLimit, r.reservations())
	}

	r.expect()
}

// TestLong_ArrayAtItsFence: tasks of an array are requeued at the fence while others wait, and none stays held; one
// that an administrator has suspended is resumed before. They go on in the next block.
func TestLong_ArrayAtItsFence(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	const first, second = "cr-0e2000000000000a1", "cr-0e2000000000000e5"

	r := newRehearsalIn(
		t,
		requeueNow,
		strings.Replace(rehearsalConfig, `["`+first+`"]`, `["`+first+`", "`+second+`"]`, 1),
		killWaitsAnHour,
	)
	// By its --time-min the limit is ours, and Slurm could start a task again in front of the fence: it is held
	// meanwhile.
	array := r.submit("-C", "gpu", "-t", "60", "--time-min=2", "--array=0-5", "--comment=on_end=requeue")
	tasks := func() []capacity.Job {
		var names []string
		for _, i := range "012345" {
			names = append(names, array+"_"+string(i))
		}

		all, err := (&slurm.Client{}).Tasks(r.ctx, names)
		if err != nil || len(all) != len(names) {
			t.Fatalf("%v, %v", all, err)
		}

		return all
	}
	r.until("four tasks run", func() bool {
		all := tasks()
		return !slices.ContainsFunc(all, capacity.Job.Configuring) &&
			len(slices.DeleteFunc(all, capacity.Job.Pending)) == 4
	})

	ran := slices.DeleteFunc(tasks(), capacity.Job.Pending)
	r.scontrol("suspend", ran[0].Shown)

	requeue := func(jobs []capacity.Job) (want []string) {
		for _, j := range jobs {
			want = append(want, "requeue-job gpu "+j.Shown)
		}
		return want
	}
	did := strings.Join(r.sync(), "; ")
	for _, want := range append(requeue(ran[1:]), "resume-job gpu "+ran[0].Shown) {
		if !strings.Contains(did, want) {
			t.Errorf("the pass did %q, not %s", did, want)
		}
	}

	if did := strings.Join(r.sync(), "; "); !strings.Contains(did, requeue(ran[:1])[0]) {
		t.Errorf("the next pass did %q", did)
	}

	r.until("all tasks wait", func() bool { // one that waited may start on the nodes of the others
		r.sync()
		return !slices.ContainsFunc(tasks(), func(j capacity.Job) bool { return !j.Settled() })
	})
	r.sync()

	for _, j := range tasks() {
		if j.Held || strings.Contains(strings.ToLower(j.Reason), "held") || j.Restarts > 1 {
			t.Errorf("task %s: %+v", j.Shown, j)
		}
	}

	r.sim.Clock().Advance(50 * time.Minute) // the second block opens
	r.sync()

	for _, j := range ran {
		r.scontrol("update", "jobid="+j.Shown, "starttime=now") // it is to begin when the block opens by Slurm's clock
	}

	r.until("tasks go on", func() bool {
		r.sync()
		return slices.ContainsFunc(tasks(), func(j capacity.Job) bool { return j.Running() && j.Restarts == 1 })
	})
}
