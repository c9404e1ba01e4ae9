package lifecycle

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// opened is a world with a block of a day that has just opened, and a job in it whose limit is
// fitted to the fence.
func opened(t *testing.T) (*world, *capacity.Snapshot, *modelJob) {
	t.Helper()
	w := newWorld(t, 1)
	w.slurm.boot = 0
	for w.counts["blocks"] == 0 || len(w.blocks) == 0 {
		w.buy("solo", 4, 24*time.Hour)
		w.goTo(w.now().Add(30 * time.Minute))
		w.seeBlocks()
	}
	if _, err := w.pass(false); err != nil {
		t.Fatal(err)
	}
	for _, b := range w.blocks {
		w.goTo(b.start.Add(time.Second))
	}
	snap, err := w.pass(false)
	if err != nil {
		t.Fatal(err)
	}
	v := capacity.Admit(capacity.Request{Partitions: []string{"solo"}, Nodes: 2, Comment: "on_end=requeue"}, snap, w.now())
	if !v.Edits.TimeLimit.Bounded() {
		t.Fatalf("the job is not admitted: %+v", v)
	}
	job := w.slurm.submit(modelJob{Job: capacity.Job{Partition: "solo", Batch: true, Requeue: true, NumNodes: 2, TimeLimit: v.Edits.TimeLimit, TimeMin: v.Edits.TimeMin, Comment: "on_end=requeue"}, work: 1000 * time.Hour})
	w.goTo(w.now().Add(20 * time.Minute))
	if snap, err = w.pass(false); err != nil || job.State != "RUNNING" {
		t.Fatalf("%v, the job is %s\n%s", err, job.State, w.state())
	}
	return w, snap, job
}

func (w *world) fence() time.Time {
	for _, r := range w.slurm.reservations {
		if capacity.PlainName(r.Name) == "pcs-capacity-fence-solo" {
			return r.Start
		}
	}
	return time.Time{}
}

// TestTwoHoursWithoutAWS: AWS answers 503 for two hours, in which an extension is paid. No fence
// is dropped and no job is lost; the first pass afterwards catches up.
func TestTwoHoursWithoutAWS(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // the SDK's pauses are the machine's time
	w, snap, job := opened(t)
	w.goTo(snap.Reservations[0].End.Add(-3 * time.Hour))
	if _, err := w.pass(false); err != nil {
		t.Fatal(err)
	}
	fence, limit := w.fence(), job.TimeLimit
	if !w.extend(snap.Reservations[0].ID) {
		t.Fatal("no extension")
	}
	if _, err := w.sim.AddFault(awssim.Fault{Effect: awssim.FailBefore, Status: 503, Code: "ServiceUnavailable"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.goToWithout(w.now().Add(time.Hour))
		if _, err := w.pass(false); err == nil {
			t.Fatal("AWS answered")
		}
		if w.fence() != fence || job.State != "RUNNING" || job.TimeLimit != limit || job.Restarts > 0 {
			t.Errorf("without AWS the fence is at %s, the job %s with limit %s", w.fence(), job.State, job.TimeLimit)
		}
	}
	w.sim.ClearFaults()
	if _, err := w.pass(false); err != nil {
		t.Fatal(err)
	}
	if moved := w.fence().Sub(fence); moved != 24*time.Hour || job.TimeLimit.Duration()-limit.Duration() < 23*time.Hour {
		t.Errorf("after it the fence has moved by %s, and the limit from %s to %s", moved, limit, job.TimeLimit)
	}
}

// goToWithout is goTo while AWS does not answer its administrators either.
func (w *world) goToWithout(t time.Time) {
	w.slurm.advance(t.Add(w.skew))
	w.sim.Clock().Set(t)
}

// TestAnExtensionThatIsNotPaid: while the payment of an extension is pending, the fence stays, and
// jobs are requeued at the latest minute at which that is safe. Paid a minute before, it lets
// them go on.
func TestAnExtensionThatIsNotPaid(t *testing.T) {
	for name, paid := range map[string]bool{"paid in time": true, "paid too late": false} {
		t.Run(name, func(t *testing.T) {
			w, snap, job := opened(t)
			fence := w.fence()
			latest := capacity.RequeueAt(fence, snap.KillWait.Duration)
			// Payments take 20 minutes, and EC2 sells no extension in the last hour.
			w.goTo(latest.Add(-21 * time.Minute))
			if !paid {
				w.goTo(latest.Add(-19 * time.Minute))
			}
			if !w.extend(snap.Reservations[0].ID) {
				t.Fatal("no extension")
			}
			history, err := w.api.DescribeCapacityBlockExtensionHistory(t.Context(), &awsec2.DescribeCapacityBlockExtensionHistoryInput{CapacityReservationIds: []string{snap.Reservations[0].ID}})
			if err != nil || len(history.CapacityBlockExtensions) != 1 || history.CapacityBlockExtensions[0].CapacityBlockExtensionStatus != "payment-pending" {
				t.Fatalf("%v: %+v", err, aws.ToString(history.CapacityBlockExtensions[0].CapacityReservationId))
			}
			w.goTo(latest.Add(-2 * time.Minute))
			if _, err := w.pass(false); err != nil || w.fence() != fence || job.State != "RUNNING" {
				t.Errorf("while it is pending: %v, the fence moved by %s, the job is %s", err, w.fence().Sub(fence), job.State)
			}
			if at, ok := NextBoundary(snap, w.now()); !ok || !at.Equal(latest) {
				t.Errorf("the next pass is at %s, want %s", at, latest)
			}
			w.goTo(latest)
			if _, err := w.pass(false); err != nil {
				t.Fatal(err)
			}
			if got := job.State == "RUNNING" && job.Restarts == 0 && w.fence().Equal(fence.Add(24*time.Hour)); got != paid {
				t.Errorf("the job is %s, the fence moved by %s", job.State, w.fence().Sub(fence))
			}
			if !paid && (job.Restarts != 1 || w.fence() != fence) {
				t.Errorf("the job is %s, the fence moved by %s", job.State, w.fence().Sub(fence))
			}
			if !slices.Contains([]string{"RUNNING", "PENDING"}, job.State) {
				t.Errorf("the job is lost: %s", job.State)
			}
		})
	}
}
