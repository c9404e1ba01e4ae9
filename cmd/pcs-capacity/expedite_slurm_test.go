package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// A job of --requeue=expedite, which Slurm would start again at once and before all others,
// is ended once by a fence, with --time-min and without; it goes on in the next block.
func TestAFenceEndsAnExpeditedJobOnce(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "slurmctld", "-V").Output()
	if err != nil {
		t.Fatal(err)
	}
	if version, err := slurm.ParseVersion(string(out)); err != nil || !version.AtLeast(25, 11, 0) {
		t.Skipf("%s: --requeue=expedite came with 25.11", out)
	}
	if !ownProcess(t) {
		return
	}
	const first, second = "cr-0e2000000000000a1", "cr-0e2000000000000e5"
	r := newRehearsalIn(t,
		strings.NewReplacer("+205s", "+145s", "\n]\n", "\n  { id = \""+second+"\", kind = \"capacity-block\", type = \"p5.48xlarge\", zone = \"us-east-2a\", count = 4, start = \"+190s\", end = \"+30h\" },\n]\n").Replace(rehearsalWorld),
		strings.NewReplacer(`["`+first+`"]`, `["`+first+`", "`+second+`"]`, `min_time = "1m"`, "min_time = \"1m\"\non_end = \"requeue\"").Replace(rehearsalConfig),
		func(c *slurmlab.Config) {
			c.Extra = []string{"KillWait=5", "SchedulerParameters=sched_interval=1,bf_interval=1,requeue_delay=1",
				"SlurmctldParameters=idle_on_node_suspend,power_save_interval=1,power_save_min_interval=0,enable_expedited_requeue"}
		})
	r.sync()
	fence := r.fence(first)
	block, err := r.aws.Reservation(r.ctx, second)
	if err != nil {
		t.Fatal(err)
	}
	submit := func(node string, more ...string) string {
		// In the second block it has little left to do.
		id, err := r.cluster.Submit(r.ctx, `if [ "$SLURM_RESTART_COUNT" ]; then sleep 5; else sleep 600; fi`,
			append([]string{"-p", "gpu", "-C", "gpu", "-w", node, "-t", "1"}, more...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	// Still runs when jobs are requeued, and its own limit would let it start again.
	late := "--begin=now+" + strconv.Itoa(int((time.Until(fence) - 105*time.Second).Seconds()))
	jobs := map[string]string{
		"expedited, with --time-min": submit("gpu-1", "--requeue=expedite", "--time-min=1", "--comment=time=fit"),
		"expedited":                  submit("gpu-2", "--requeue=expedite", late),
		"expedited, held":            submit("gpu-3", "--requeue=expedite", "--time-min=1", "--comment=time=fit on_end=hold"),
		"requeued":                   submit("gpu-4", "--requeue", "--time-min=1", "--comment=time=fit"),
	}
	_, said := r.watch()
	for _, id := range jobs {
		r.running(id)
	}
	if left := time.Until(fence); left < 65*time.Second {
		t.Fatalf("the machine is too slow: only %s are left", left)
	}
	again := map[string]bool{}
	r.within(2*time.Minute, "the fence begins", func() bool {
		for what, id := range jobs {
			if j := r.job(id); j.State == "RUNNING" && j.Restarts > 0 && time.Now().Before(fence) && !again[what] {
				again[what] = true
				t.Errorf("%s: job %s runs again %s before the fence", what, id, time.Until(fence))
			}
		}
		return time.Now().After(fence)
	})
	marks, err := state.Dir(filepath.Clean(r.cfg.StateDir)).Marks()
	if err != nil {
		t.Fatal(err)
	}
	for what, id := range jobs {
		want := 1
		if strings.HasSuffix(what, "held") {
			want = 0 // and begins to count anew
		}
		if j := r.job(id); j.State != "PENDING" || j.Restarts != 1 || marks[id].Ends != want || j.Held != (want == 0) {
			t.Errorf("%s: job %s is %s, requeued %d times, at %d fences, held %t", what, id, j.State, j.Restarts, marks[id].Ends, j.Held)
		}
	}
	for what, id := range jobs {
		if strings.HasSuffix(what, "held") {
			continue
		}
		r.within(90*time.Second, what+" runs in the second block", func() bool { j := r.job(id); return j.State == "RUNNING" || j.State == "COMPLETED" })
		if j := r.job(id); j.Start.Before(block.Start.Add(-time.Second)) || j.Restarts != 1 {
			t.Errorf("%s: job %s started %s after the block opened, requeued %d times", what, id, j.Start.Sub(block.Start), j.Restarts)
		}
	}
	t.Log(said())
}
