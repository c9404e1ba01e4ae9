package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// TestSlurm_R2_R11_Fence: a job that crosses the fence waits, and one that fits runs. A limit that comes to cross it is
// lowered. An extension moves the fence, the limit is again what it was, and the job that waited runs.
func TestSlurm_R2_R11_Fence(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	r := newRehearsal(t)

	const block = "cr-0e2000000000000a1"

	fence := r.fence(block)

	// Others' reservations are there before ours; they must survive everything (R9).
	others := []string{"gpu-scheduled", "pcluster-" + block}
	for _, name := range others {
		r.scontrol(
			"create",
			"reservation",
			"ReservationName="+name,
			"Nodes=static-1",
			"StartTime=now+1hour",
			"Duration=10",
			"Flags=MAINT,IGNORE_JOBS",
			"Users=root",
		)
	}

	r.expect("create-fence gpu", "create-fence long", "create-wait later", "create-fence later")

	placed := r.reservations()["pcs-capacity-fence-gpu"]
	if !near(placed.Start, fence) || !placed.IsInfinite() || hostlist.Compress(placed.Nodes) != "gpu-[1-4]" {
		t.Fatalf("the fence is %+v, should start at %s", placed, fence)
	}

	if wait := r.reservations()["pcs-capacity-wait-later"]; !wait.Active || hostlist.Compress(wait.Nodes) != "later-1" {
		t.Fatalf("the wait is %+v", wait)
	}

	r.expect() // nothing is left to do

	crosses := r.submit("-C", "gpu", "-t", "240")
	fits := r.running(r.submit("-C", "gpu", "-w", "gpu-1", "-t", "60"))
	if job := r.job(crosses); job.State != "PENDING" {
		t.Fatalf("a job that crosses the fence is %s", job.State)
	}

	r.scontrol("update", "jobid="+fits.Shown, "timelimit=240") // as if its node had booted for hours
	r.expect("lower-limit gpu " + fits.Shown)

	if gap := fence.Sub(r.job(fits.Shown).End); gap < 0 || gap > 2*time.Minute {
		t.Errorf("the job ends %s before the fence", gap)
	}

	extend(r, block)
	r.expect("update-fence gpu", "raise-limit gpu "+fits.Shown)

	if after := r.reservations()["pcs-capacity-fence-gpu"].Start; !near(after, placed.Start.Add(24*time.Hour)) {
		t.Errorf("the fence of an extended block moved from %s to %s", placed.Start, after)
	}

	r.running(crosses)

	for _, name := range others {
		if !r.has(name) {
			t.Errorf("%s is gone", name)
		}
	}
}

// requeueNow is a world in which it is time to requeue: the block ends in 45 minutes, the next one
// opens a minute later, and KillWait is an hour.
var requeueNow = strings.NewReplacer(
	"+3h",
	"+45m",
	"\n]\n",
	"\n  { id = \"cr-0e2000000000000e5\", kind = \"capacity-block\", type = \"p5.48xlarge\", zone = \"us-east-2a\", "+
		"count = 4, start = \"+46m\", end = \"+30h\" },\n]\n",
).Replace(rehearsalWorld)

func killWaitsAnHour(c *slurmlab.Config) { c.Extra = append(c.Extra, "KillWait=3600") }

// TestSlurm_Requeue: jobs in front of a fence are requeued or held, as they ask for. The requeued job
// goes on when the next block opens, with the whole of its window.
func TestSlurm_Requeue(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	const first, second = "cr-0e2000000000000a1", "cr-0e2000000000000e5"

	r := newRehearsalIn(t, requeueNow, strings.NewReplacer(`["`+first+`"]`, `["`+first+`", "`+second+`"]`,
		`min_time = "1m"`, "min_time = \"49m\"\non_end = \"requeue\"").Replace(rehearsalConfig), killWaitsAnHour)
	requeued := r.submit("-C", "gpu", "-w", "gpu-1", "-t", "60", "--time-min=50")
	held := r.submit("-C", "gpu", "-w", "gpu-2", "-t", "60", "--time-min=50", "--comment=on_end=hold")
	for _, id := range []string{requeued, held} {
		r.running(id)
	}

	if did := strings.Join(r.sync(), "; "); !strings.Contains(did, "requeue-job gpu "+requeued+"; hold-job gpu "+held) {
		t.Errorf("the pass did %q", did)
	}

	r.until("the jobs wait", func() bool { return r.job(requeued).Settled() && r.job(held).Settled() })

	if job := r.job(requeued); job.TimeLimit.Minutes < 29*60 ||
		!strings.Contains(job.AdminComment, "it goes on in "+second+", which opens at ") {
		t.Errorf("the requeued job has limit %s, and %q", job.TimeLimit, job.AdminComment)
	}

	if !r.job(held).Held {
		t.Errorf("the job that asks for a hold is not held")
	}

	r.sim.Clock().Advance(50 * time.Minute) // the second block opens
	r.sync()
	r.scontrol("update", "jobid="+requeued, "starttime=now") // it is to begin when the block opens by Slurm's clock
	r.until("the job goes on", func() bool { r.sync(); return r.job(requeued).State == "RUNNING" })

	if job := r.job(held); job.State != "PENDING" {
		t.Errorf("the held job is %s", job.State)
	}
}
