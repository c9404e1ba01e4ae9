package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// TestClocksApart: AWS's clock is an hour and a half ahead of Slurm's, and known to the
// second only. Fences and limits are in Slurm's.
func TestClocksApart(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	const apart = 90 * time.Minute
	r := newRehearsal(t, awssim.NewClock(time.Now().Add(apart), 1))
	r.expect("create-fence gpu", "create-fence long", "create-wait later", "create-fence later")
	const block = "cr-0e2000000000000a1"
	if placed, fence := r.reservations()["pcs-capacity-fence-gpu"].Start, r.fence(block).Add(-apart); !near(placed, fence) {
		t.Fatalf("the fence is at %s, should be at %s of Slurm's clock", placed, fence)
	}
	opens := r.reservations()["pcs-capacity-wait-later"].End
	if want := time.Now().Add(2 * time.Hour); opens.Sub(want).Abs() > time.Minute {
		t.Errorf("the wait ends at %s, should be at %s of Slurm's clock", opens, want)
	}

	// The fence begins a second after the end of a job.
	job := r.running(r.submit("-C", "gpu", "-w", "gpu-1", "-t", "2"))
	margin := &r.cfg.Timing.DrainMargin.Duration
	after := func() time.Duration { return r.reservations()["pcs-capacity-fence-gpu"].Start.Sub(job.End) }
	for tries := 0; after() < 0 || after() > 2*time.Second; tries++ {
		if tries == 5 {
			t.Fatalf("the fence is %s after the job's end", after())
		}
		off := after() - time.Second
		*margin += time.Minute // a fence that is nearly right stays where it is
		r.sync()
		*margin += off - time.Minute
		r.sync()
		job = r.job(job.Shown)
	}
	// A little earlier by AWS's clock, the fence is still right for Slurm, and that is the
	// one that counts: a clock that is known to the second moves no limits back and forth.
	*margin += 4 * time.Second
	r.expect()
}

// TestFencesStayWhileAWSIsDown: what is not known is not gone (R8).
func TestFencesStayWhileAWSIsDown(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	r.expect("create-fence gpu", "create-fence long", "create-wait later", "create-fence later")
	r.sim.Clock().Advance(10 * time.Minute) // the block of slot gpu has ended
	r.sync()

	// Nothing needs its fence any more, but this pass knows too little.
	r.cfg.Partitions[0].Groups = r.cfg.Partitions[0].Groups[1:]
	if _, err := r.sim.AddFault(awssim.Fault{Effect: awssim.FailBefore}); err != nil {
		t.Fatal(err)
	}
	if report, err := onePass(r.ctx, r.cfg, r.aws, nil); err == nil || len(report.Done) > 0 {
		t.Fatalf("the pass without AWS did %+v, %v", report.Done, err)
	}
	if !r.has("pcs-capacity-fence-gpu") {
		t.Error("the fence is gone")
	}
	r.sim.ClearFaults()
	r.expect("delete-fence gpu")
}

// TestALateExtension: a block is extended when its fence has begun. Slurm cannot move a
// reservation that is active. While the payment is pending the fence stays, and a job waits; then
// the fence is at the new end, and the job runs, inside of it.
func TestALateExtension(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	const block, fence = "cr-0e2000000000000a1", "pcs-capacity-fence-gpu"
	// EC2 takes extensions up to an hour before the end, so that the fence is to begin before that.
	r := newRehearsalIn(t, strings.NewReplacer("+205s", "+5430s", `payment_delay = "0s"`, `payment_delay = "10m"`).Replace(rehearsalWorld),
		strings.Replace(rehearsalConfig, `drain_margin = "5s"`, `drain_margin = "90m"`, 1), func(*slurmlab.Config) {})
	_, said := r.watch()
	r.until("the fence is active", func() bool { return r.reservations()[fence].Active })
	job := r.submit("-C", "gpu", "-t", "20")

	extend(r, block)
	r.passes(3)
	if now := r.reservations()[fence]; !now.Active || !now.Infinite() {
		t.Errorf("while the payment is pending the fence is %+v", now)
	}
	if state := r.job(job).State; state != "PENDING" {
		t.Errorf("while the payment is pending the job is %s", state)
	}
	r.explainsToUser(job, "Job "+job+" has the constraint gpu, and no reservation of those nodes takes it now; ")
	if strings.Contains(said(), "moved the fence "+fence) {
		t.Errorf("the fence was moved before the extension was paid:\n%s", said())
	}

	r.sim.Clock().Advance(10 * time.Minute) // it is paid
	paid := time.Now()
	runs := r.running(job)
	t.Logf("the job runs %s after the payment", time.Since(paid))
	placed := r.reservations()[fence]
	if want := r.fence(block).Add(-10 * time.Minute); !near(placed.Start, want) || placed.Active || placed.Start.Before(time.Now().Add(20*time.Hour)) {
		t.Errorf("the fence is %+v, should begin at %s of Slurm's clock", placed, want)
	}
	r.explainsToUser(job, "Job "+job+" runs on gpu-")
	r.explainsToUser("gpu-1", "Node gpu-1 ")
	r.explainsToUser("gpu", "Partition gpu takes jobs: "+block+" is open")
	if runs.End.After(placed.Start) {
		t.Errorf("the job ends at %s, behind the fence", runs.End)
	}
	if t.Failed() {
		t.Log(said())
	}
}

// leftOut makes EC2 leave a reservation out of its next answer.
func (r *rehearsal) leftOut(id string) {
	r.Helper()
	_, err := r.sim.AddFault(awssim.Fault{Effect: awssim.FailBefore, Operation: "DescribeCapacityReservations", Count: 1,
		Code: "InvalidCapacityReservationId.NotFound", Message: "The capacity reservation ID '" + id + "' does not exist"})
	if err != nil {
		r.Fatal(err)
	}
}

// TestAReservationThatOneAnswerLeavesOut: it keeps its facts, its fence and the limits
// of the jobs in it, until it has been missing for an hour.
func TestAReservationThatOneAnswerLeavesOut(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	const open, next = "cr-0e2000000000000b2", "cr-0e2000000000000d4"
	r.cfg.Partitions[0].Groups[1].ReservationIDs = []string{open, next}
	r.expect("create-fence gpu", "create-fence long", "create-fence long", "create-wait later", "create-fence later")
	// A job whose limit would be raised to the fence of the next block, if that counted.
	job := r.running(r.submit("-C", "long", "-t", "30", "--time-min=30", "--comment=time=fit"))
	r.sync()
	fence, limit := r.reservations()["pcs-capacity-fence-long"], r.job(job.Shown).TimeLimit
	if limit.Minutes < 60 {
		t.Fatalf("the limit is %s: the test proves nothing", limit)
	}
	problems := func() string {
		t.Helper()
		report, err := onePass(r.ctx, r.cfg, r.aws, nil)
		if err != nil || len(report.Done) > 0 {
			t.Fatalf("the pass did %+v, %v", report.Done, err)
		}
		return strings.Join(report.Problems, "\n")
	}
	r.leftOut(open)
	first := problems()
	if !strings.Contains(first, "EC2 has not described reservation "+open+" since ") || !strings.Contains(first, "InvalidCapacityReservationId.NotFound") {
		t.Errorf("the pass said %q", first)
	}
	r.leftOut(open)
	if again := problems(); again != first {
		t.Errorf("the same in other words: %q, then %q", first, again)
	}
	if now := r.reservations()["pcs-capacity-fence-long"]; !now.Start.Equal(fence.Start) || !now.End.Equal(fence.End) {
		t.Errorf("the fence moved from %+v to %+v", fence, now)
	}
	if now := r.job(job.Shown).TimeLimit; now != limit {
		t.Errorf("the limit went from %s to %s", limit, now)
	}
	if row := r.status()["long"]; row.Reservation != open || row.State != "active" {
		t.Errorf("status: %+v", row)
	}

	// EC2 shows it again.
	if said := problems(); strings.Contains(said, open) {
		t.Errorf("still said: %q", said)
	}
	// It is gone for long: the next one counts.
	r.leftOut(open)
	problems()
	r.sim.Clock().Advance(61 * time.Minute)
	r.leftOut(open)
	report, err := onePass(r.ctx, r.cfg, r.aws, nil)
	if err != nil || !strings.Contains(strings.Join(report.Problems, "\n"), "EC2 does not describe reservation "+open) {
		t.Errorf("after an hour: %+v, %v", report, err)
	}
	if moved := r.reservations()["pcs-capacity-fence-long"]; !moved.Start.After(fence.Start) {
		t.Errorf("the fence is still at %s", moved.Start)
	}
}
