package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// TestTheEndOfABlock: under `sync --watch`, jobs in front of a fence are requeued, held or
// stopped, as they ask for; nodes are powered down under the fence; the requeued job goes on
// the moment the next block opens, with the whole of its window.
func TestTheEndOfABlock(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	const first, second = "cr-0e2000000000000a1", "cr-0e2000000000000e5"
	r := newRehearsalIn(t,
		strings.NewReplacer("+205s", "+145s", "\n]\n", "\n  { id = \""+second+"\", kind = \"capacity-block\", type = \"p5.48xlarge\", zone = \"us-east-2a\", count = 4, start = \"+190s\", end = \"+30h\" },\n]\n").Replace(rehearsalWorld),
		strings.NewReplacer(`["`+first+`"]`, `["`+first+`", "`+second+`"]`, `min_time = "1m"`, "min_time = \"1m\"\non_end = \"requeue\"").Replace(rehearsalConfig),
		func(c *slurmlab.Config) { c.Extra = []string{"KillWait=5"} })
	r.sync()
	fence := r.fence(first)
	block, err := r.aws.Reservation(r.ctx, second)
	if err != nil {
		t.Fatal(err)
	}

	text := filepath.Join(t.TempDir(), "said")
	submit := func(node, comment string, more ...string) string {
		// In the second block it has little left to do.
		id, err := r.cluster.Submit(r.ctx, `if [ "$SLURM_RESTART_COUNT" ]; then sleep 5; else sleep 600; fi`,
			append([]string{"-p", "gpu", "-C", "gpu", "-w", node, "-t", "1", "--time-min=1", "--begin=now+3", "--comment=" + comment}, more...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	requeued := submit("gpu-1", "time=fit", "--array=3") // the partition says so
	held := submit("gpu-2", "time=fit on_end=hold")
	stopped := submit("gpu-3", "time=fit on_end=stop")
	once := submit("gpu-4", "time=fit", "--no-requeue", "-o", text)
	r.sync() // what comments say counts from before the start
	for _, id := range []string{requeued, held, stopped, once} {
		r.running(id)
	}
	if left := time.Until(fence); left < 65*time.Second {
		t.Fatalf("the machine is too slow: only %s are left", left)
	}
	_, said := r.watch()
	r.within(2*time.Minute, "the job is requeued", func() bool { return strings.Contains(said(), "job "+requeued+"_3 on slot gpu: requeued, ") })
	if left := time.Until(fence); left < 0 || left > 66*time.Second {
		t.Errorf("requeued %s before the fence, KillWait is 5s", left)
	}
	for _, id := range []string{requeued, held} {
		if _, err := r.cluster.WaitJob(r.ctx, id, "PENDING"); err != nil {
			t.Fatal(err)
		}
	}
	if job := r.job(requeued); job.TimeLimit.Minutes < 29*60 || !strings.Contains(job.AdminComment, first) || !strings.Contains(job.AdminComment, "it goes on in "+second+", which opens at ") {
		t.Errorf("the requeued job has limit %s, and %q", job.TimeLimit, job.AdminComment)
	}
	r.until("its owner can release the held job", func() bool {
		j := r.job(held)
		_, _, ours := capacity.ReadHoldNote(j.AdminComment)
		return !ours && strings.Contains(j.AdminComment, "release it to go on") && heldBy(t, r.ctx, r.cluster, held) == "JobHeldUser"
	})
	for _, id := range []string{stopped, once} {
		job, err := r.cluster.WaitJob(r.ctx, id, "TIMEOUT")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("job %s ended at %s, the fence is at %s", id, job["EndTime"], fence.Format("15:04:05"))
	}
	if said, err := os.ReadFile(text); err != nil || !strings.Contains(string(said), "jobs on "+first+" must end by ") {
		t.Errorf("the job that cannot be requeued reads %q, %v", said, err)
	}
	r.within(time.Minute, "the nodes are powered down", func() bool {
		state, _ := r.cluster.NodeState(r.ctx, "gpu-1")
		return strings.Contains(state, "POWERED_DOWN") || strings.Contains(state, "POWERING_DOWN")
	})
	if !time.Now().Before(block.Start) {
		t.Errorf("the nodes were up until the next block opened")
	}

	r.within(90*time.Second, "the job runs in the second block", func() bool { j := r.job(requeued); return j.State == "RUNNING" || j.State == "COMPLETED" })
	job := r.job(requeued)
	if late := job.Start.Sub(block.Start); late < -time.Second || late > 10*time.Second {
		t.Errorf("it started %s after the block opened", late)
	}
	t.Logf("the job started %s after the second block opened", job.Start.Sub(block.Start))
	if _, err := r.cluster.WaitJob(r.ctx, requeued, "COMPLETED"); err != nil {
		t.Fatal(err)
	}
	if job := r.job(held); job.State != "PENDING" {
		t.Errorf("the held job is %s", job.State)
	}
	t.Log(said())
}

// heldBy is Slurm's reason why a job is held: JobHeldUser if its owner can release it. As
// text squeue shows other words.
func heldBy(t *testing.T, ctx context.Context, cluster *slurmlab.Cluster, id string) string {
	t.Helper()
	out, err := cluster.Command(ctx, "squeue", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Jobs []struct {
			ID     int    `json:"job_id"`
			Reason string `json:"state_reason"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	for _, j := range answer.Jobs {
		if strconv.Itoa(j.ID) == id {
			return j.Reason
		}
	}
	return ""
}
