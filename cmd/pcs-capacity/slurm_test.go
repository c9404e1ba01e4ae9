package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestRealSlurm follows a block to its end on the Slurm of this machine.
func TestRealSlurm(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	fence := r.fence("cr-0e2000000000000a1")

	// Others' reservations are there before ours; they must survive everything (R9).
	for _, name := range []string{"gpu-scheduled", "pcluster-cr-0e2000000000000a1"} {
		out, err := r.cluster.Command(r.ctx, "scontrol", "create", "reservation", "ReservationName="+name, "Nodes=static-1",
			"StartTime=now+1hour", "Duration=10", "Flags=MAINT,IGNORE_JOBS", "Users=root")
		if err != nil {
			t.Fatal(out, err)
		}
	}

	r.expect("create-fence gpu", "create-fence long", "create-wait later", "create-fence later")
	placed := r.reservations()["pcs-capacity-fence-gpu"]
	if !near(placed.Start, fence) || !placed.Infinite() || slurm.Compress(placed.Nodes) != "gpu-[1-4]" {
		t.Fatalf("the fence is %+v, should start at %s", placed, fence)
	}
	if wait := r.reservations()["pcs-capacity-wait-later"]; !wait.Active || slurm.Compress(wait.Nodes) != "later-1" {
		t.Fatalf("the wait is %+v", wait)
	}
	r.expect() // nothing is left to do

	// A job behind the fence waits, one that fits runs.
	r.bootDelay.Store(int64(time.Second))
	crosses := r.submit("-C", "gpu", "-t", "10")
	fits := r.running(r.submit("-C", "gpu", "-w", "gpu-1", "-t", "1"))
	if job := r.job(crosses); job.State != "PENDING" {
		t.Fatalf("a job that crosses the fence is %s", job.State)
	}

	// A job without --time has the limits that the filter sets, from a time when the block
	// had a minute more. Slurm before 25.05.3 starts it with the floor; sync gives it what
	// really fits.
	auto := r.running(r.submit("-C", "gpu", "-w", "gpu-2", "-t", "4", "--time-min=1", "--comment=time=fit"))
	// This one's owner stated two minutes beside the --time-min.
	own := r.running(r.submit("-C", "gpu", "-w", "gpu-4", "-t", "2", "--time-min=1", "--comment=time=fit:2"))
	version, err := (&slurm.Client{}).Version(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	collapses := version.TimeMinCollapses()
	cut := fence.Sub(auto.End) > time.Minute

	// R2: this one is admitted to end just before the fence, but its node boots slowly, and
	// Slurm counts the limit from the end of the boot.
	left := time.Until(fence)
	minutes := int(left / time.Minute)
	r.bootDelay.Store(int64(left - time.Duration(minutes)*time.Minute + 5*time.Second))
	slow := r.running(r.submit("-C", "gpu", "-w", "gpu-3", "-t", strconv.Itoa(minutes)))
	if !slow.End.After(fence) {
		t.Fatalf("the job ends at %s, before the fence at %s: the test proves nothing", slow.End, fence)
	}

	did := strings.Join(r.sync(), "; ")
	ends := func(t *testing.T, id string) {
		job := r.job(id)
		if gap := fence.Sub(job.End); gap < -time.Second || gap > time.Minute+time.Second {
			t.Errorf("job %s with limit %s ends %s before the fence", id, job.TimeLimit, gap)
		}
	}
	t.Run("a slow boot", func(t *testing.T) {
		if !strings.Contains(did, "lower-limit gpu "+slow.Shown) || strings.Contains(did, " "+fits.Shown) {
			t.Fatalf("the pass did %q", did)
		}
		ends(t, slow.Shown)
	})
	t.Run("a limit computed at submission", func(t *testing.T) {
		if collapses && !cut {
			t.Fatalf("job %s was not cut to its floor, but has limit %s: the test proves nothing", auto.Shown, auto.TimeLimit)
		}
		if cut && !strings.Contains(did, "raise-limit gpu "+auto.Shown) {
			t.Fatalf("job %s started with limit %s and stays there: the pass did %q", auto.Shown, auto.TimeLimit, did)
		}
		if shortened := own.TimeLimit.Minutes < 2; shortened && !strings.Contains(did, "raise-limit gpu "+own.Shown) || r.job(own.Shown).TimeLimit.Minutes != 2 {
			t.Errorf("job %s started with limit %s and now has %s, want 2 minutes: the pass did %q", own.Shown, own.TimeLimit, r.job(own.Shown).TimeLimit, did)
		}
		ends(t, auto.Shown)
	})
	r.expect()
	r.cancel(crosses, fits.Shown, auto.Shown, own.Shown, slow.Shown)

	// R11: the block is extended, which moves the fence before it begins.
	t.Run("R11 an extension", func(t *testing.T) {
		before := r.reservations()["pcs-capacity-fence-long"].Start
		extend(r, "cr-0e2000000000000b2")
		r.expect("update-fence long")
		if after := r.reservations()["pcs-capacity-fence-long"].Start; !near(after, before.Add(24*time.Hour)) {
			t.Errorf("the fence of an extended block moved from %s to %s", before, after)
		}
	})

	// status shows it all.
	rows := r.status()
	if got := rows["long"]; got.NodesTotal == nil || *got.NodesTotal != 1 || got.State != "active" || got.Next != "fence" {
		t.Errorf("status of slot long: %+v", got)
	}

	// sync --watch places the fence again when somebody deletes it.
	stop, _ := r.watch()
	r.scontrol("delete", "reservationname="+r.reservations()["pcs-capacity-fence-long"].Name)
	r.until("the fence is back", func() bool { return r.has("pcs-capacity-fence-long") })
	stop()

	// Others' reservations are there still.
	for _, name := range []string{"gpu-scheduled", "pcluster-cr-0e2000000000000a1"} {
		if !r.has(name) {
			t.Errorf("%s is gone", name)
		}
	}
}
