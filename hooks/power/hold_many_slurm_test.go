package power_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// Twenty jobs of two nodes contend for ten instances: none runs in part, and when all have
// run EC2 has nothing left of them. Each instance there ever was belonged to a hold that was
// filled, and each hold was filled by one job or given back empty.
func TestTwentyJobsContendForTenInstances(t *testing.T) {
	const jobs, nodes = 20, 40
	settings := strings.Replace(holdConfig, "max_nodes = 4", fmt.Sprint("max_nodes = ", nodes), 1)
	p := startPowerWith(t, settings, room(4, 6), func(c *slurmlab.Config) {
		c.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-", Count: nodes, Partition: "gpu", CPUs: 1}}
		c.ResumeTimeout, c.SuspendTime = 2*time.Minute, 5*time.Second
	})
	most, held := 0, 0
	watch := func() {
		now := 0
		for _, i := range p.sim.Instances(region) {
			if i.State == "pending" || i.State == "running" {
				now++
			}
		}
		most = max(most, now)
		paid, _ := p.heldNow()
		held = max(held, len(paid))
	}
	var ids []string
	for range jobs {
		id, err := p.cluster.Submit(hookstest.Deadline(t), "[ $SLURM_JOB_NUM_NODES = 2 ] && srun -N2 hostname && sleep 1", "-p", "gpu", "-N2", "--exclusive")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	left := map[string]bool{}
	for _, id := range ids {
		left[id] = true
	}
	end := time.Now().Add(9 * time.Minute)
	for len(left) > 0 && time.Now().Before(end) {
		watch()
		for id := range left {
			if job := p.show("job", id); strings.Contains(job, "JobState=COMPLETED") {
				delete(left, id)
			} else if strings.Contains(job, "JobState=FAILED") {
				t.Fatalf("a job ran in part: %s", job)
			} else if strings.Contains(job, "BeginTime") { // do not wait for the growing pause
				_, _ = p.cluster.Command(hookstest.Deadline(t), "scontrol", "update", "jobid="+id, "StartTime=now")
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Fatalf("%d jobs have not run", len(left))
	}
	p.nothingHeld()
	p.until("no instance is left", func() bool { return len(p.instances()) == 0 })
	_, ever := p.heldNow()
	filled := 0
	for _, r := range ever {
		if r.Count != 2 || r.State != "cancelled" || r.Launched != 0 && r.Launched != r.Count {
			t.Errorf("%+v", r)
		}
		filled += r.Launched
	}
	if filled != p.launches() || most > 10 {
		t.Errorf("%d instances ever, %d of them in holds; at most %d at once", p.launches(), filled, most)
	}
	creates := p.sim.Calls()[awssim.CallKey{Service: "ec2", Operation: "CreateCapacityReservation", Region: region}]
	t.Logf("%d instances ever, at most %d at once; %d holds, at most %d at once, asked for %d times", p.launches(), most, len(ever), held, creates)
}
