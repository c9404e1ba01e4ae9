package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// A block of 16 nodes is full of spare jobs, some of them longer than the block, and a job of the lender wants all of
// it. It gets them as soon as these are killed; every spare job goes on from where it was, whether it was killed or had ended
// by itself when it was told to; none crosses the fence, and each has its own limit again.
func TestLong_Lend(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	const (
		nodes = 16
		block = "cr-0e2000000000000a1"
	)

	own := capacity.Minutes(6 * 24 * 60)

	r := newRehearsalIn(t, strings.Replace(rehearsalWorld, "count = 4", "count = 16", 1),
		strings.NewReplacer("max_nodes = 4", "max_nodes = 16", `provider = "ec2"`,
			"provider = \"ec2\"\nspare = \"scavenge\"\nallow_accounts = [\"nlp\"]").Replace(rehearsalConfig),
		func(c *slurmlab.Config) {
			c.CloudGroups[0].Count = nodes
			for i := range c.CloudGroups {
				c.CloudGroups[i].Partition = "gpu,scavenge"
			}

			c.Partitions = map[string]string{"scavenge": "PriorityTier=0 PreemptMode=REQUEUE"}
			c.Extra = append(c.Extra, "PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", "KillWait=5")
		})
	r.sync() // fences

	conf, err := (&slurm.Client{}).Config(r.ctx)
	if err != nil {
		t.Fatal(err)
	}

	if conf.Version.HasGraceTime() {
		r.scontrol("update", "partitionname=scavenge", "gracetime=10")
	}

	// A line a second, over all runs, until the lender's job has run.
	logs := t.TempDir()
	count := fmt.Sprintf(
		`f=%s/$SLURM_JOB_ID; work() { echo $(($(wc -l < $f) + 1)) ${SLURM_RESTART_COUNT:-0} >> $f; }; `+
			`while [ ! -e %[1]s/done ]; do work; sleep 1; done; work`,
		logs,
	)
	touch := "touch " + logs + "/$SLURM_JOB_ID; "
	submit := func(shell string, args ...string) string {
		id, err := r.cluster.Submit(r.ctx, touch+shell, append([]string{
			"--partition=scavenge", "--nodes=1", "--constraint=gpu", "--requeue", "--open-mode=append",
		}, args...)...)
		if err != nil {
			t.Fatal(err)
		}

		return id
	}

	var spare []string

	isLong := map[string]bool{}
	for i := range nodes {
		switch i % 3 {
		case 0: // its shell is killed
			spare = append(spare, submit(count, "--time=60"))
		case 1: // its step is told to end, and the job ends with it
			spare = append(spare, submit("srun sh -c '"+count+"'", "--time=60"))
		default: // longer than the block, as the filter submits it
			spare = append(spare, submit(count, "--time=6-0", "--time-min=3", "--hold"))
			isLong[spare[i]] = true
		}
	}

	r.sync() // knows their own limits
	r.scontrol(append([]string{"release"}, spare...)...)

	for _, id := range spare {
		r.running(id)
	}

	r.sync() // raises the limits of the long ones to the fence

	fence := r.fence(block)
	within := func() {
		jobs, _, err := (&slurm.Client{}).JobsOf(r.ctx, []string{"scavenge"}, nil)
		if err != nil {
			t.Fatal(err)
		}

		for _, j := range jobs {
			if j.Running() && j.End.After(fence) {
				t.Errorf("job %s would end at %s, after the fence at %s", j.Shown, j.End, fence)
			}
		}
	}

	snap, err := state.Dir(r.cfg.StateDir).ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}

	if queue := readQueue(r.ctx, r.cfg, snap, []string{"gpu"}); queue == nil || queue.Idle["gpu"] != nodes {
		t.Errorf("what the lender can have now: %+v", queue)
	}

	began := time.Now()

	lender, err := r.cluster.Submit(r.ctx, "sleep 5", "--partition=gpu", "--constraint=gpu", "--nodes=16", "--time=10")
	if err != nil {
		t.Fatal(err)
	}

	r.until("the lender's job runs", func() bool {
		for _, did := range r.sync() {
			if strings.Contains(did, "raise-limit") {
				t.Errorf("sync did %q to a job that ends anyway", did)
			}
		}

		within()

		return r.job(lender).State == "RUNNING"
	})
	t.Logf("the lender's job of %d nodes ran after %s", nodes, time.Since(began).Round(time.Second/10))

	if err := os.WriteFile(filepath.Join(logs, "done"), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	r.until("the spare jobs are done", func() bool {
		r.sync()
		within()

		jobs, ended, err := (&slurm.Client{}).JobsOf(r.ctx, []string{"scavenge"}, nil)
		if err != nil {
			t.Fatal(err)
		}

		for _, j := range jobs {
			if isLong[j.Shown] && j.Settled() && j.TimeLimit != own {
				r.sync() // gives it its own limit again

				if now := r.job(j.Shown); now.Pending() && now.TimeLimit != own {
					t.Errorf("job %s waits with %s", j.Shown, now.TimeLimit)
				}
			}
		}

		done := 0
		for _, j := range ended {
			if j.State == "COMPLETED" {
				done++
			}
		}

		return done == nodes
	})

	for _, id := range spare {
		text, err := os.ReadFile(filepath.Join(logs, id))
		if err != nil {
			t.Fatal(err)
		}

		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for i, line := range lines {
			if !strings.HasPrefix(line, fmt.Sprint(i+1, " ")) {
				t.Errorf("line %d of job %s is %q", i+1, id, line)
			}
		}

		if !strings.HasSuffix(lines[0], " 0") || !strings.HasSuffix(lines[len(lines)-1], " 1") {
			t.Errorf("job %s ran like this: %q", id, lines)
		}
	}
}
