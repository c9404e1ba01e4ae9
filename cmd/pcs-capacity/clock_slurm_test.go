package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// TestBlockOpensOnAClockThatIsOff: AWS's clock is 10 minutes before or behind the machine's,
// and nothing polls. `sync --watch` wakes when the block opens by AWS's clock, not sooner and
// not a poll later, and so does Slurm.
func TestBlockOpensOnAClockThatIsOff(t *testing.T) {
	hookstest.Beside(t)
	for _, off := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			if !ownProcess(t) {
				return
			}
			clock := awssim.NewClock(time.Now().Add(off), 1)
			begins := `id = "cr-0e2000000000000c3", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = `
			r := newRehearsalIn(t, strings.Replace(rehearsalWorld, begins+`"+2h"`, begins+`"+40s"`, 1),
				strings.Replace(rehearsalConfig, `poll = "1s"`, `poll = "1h"`, 1), func(*slurmlab.Config) {}, clock)
			r.watch()
			r.until("the nodes wait for their block", func() bool { return r.has("pcs-capacity-fence-later") })
			opens, err := r.aws.Reservation(r.ctx, "cr-0e2000000000000c3")
			if err != nil {
				t.Fatal(err)
			}
			if wait := r.reservations()["pcs-capacity-wait-later"]; !near(wait.End, opens.Start.Add(-off)) {
				t.Errorf("in Slurm the wait ends at %s, in AWS at %s", wait.End, opens.Start)
			}
			job := r.submit("-C", "later", "-t", "10")
			r.within(2*time.Minute, "the job runs", func() bool { return r.job(job).State == "RUNNING" })
			if began := r.job(job).Start; began.Before(opens.Start.Add(-off - 2*time.Second)) {
				t.Errorf("the job began at %s, the block at %s", began, opens.Start.Add(-off))
			}
			r.within(2*time.Minute, "sync has seen the block open", func() bool {
				return slices.ContainsFunc(r.snapshot().Reservations, func(c capacity.Reservation) bool { return c.ID == opens.ID && c.State == capacity.StateActive })
			})
			if clock.Now().Before(opens.Start) {
				t.Errorf("sync woke before the block was open")
			}
		})
	}
}

// TestClockLeapsWhileSyncWatches: the machine's clock is set by 10 minutes, back and forth,
// which is the same as AWS's being set against it. Fences follow within a poll, and a job that
// would now run past one gets a lower limit (R2).
func TestClockLeapsWhileSyncWatches(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	clock := awssim.NewClock(time.Now(), 1)
	r := newRehearsal(t, clock)
	r.watch()
	const block, fence = "cr-0e2000000000000b2", "pcs-capacity-fence-long"
	r.until("the fence is there", func() bool { return r.has(fence) })
	left := time.Until(r.reservations()[fence].Start)
	job := r.running(r.submit("-C", "long", "-t", fmt.Sprint(int(left/time.Minute)-5))).Shown
	var off time.Duration
	for _, leap := range []time.Duration{10 * time.Minute, -20 * time.Minute, 10 * time.Minute} {
		clock.Advance(leap)
		off += leap
		r.within(time.Minute, fmt.Sprintf("the fence follows a leap to %s", off), func() bool {
			return near(r.reservations()[fence].Start, r.fence(block).Add(-off))
		})
		r.within(time.Minute, "the job ends before the fence", func() bool { return !r.job(job).End.After(r.reservations()[fence].Start) })
	}
}
