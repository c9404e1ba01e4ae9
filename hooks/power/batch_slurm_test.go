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

func (p *power) runInstances() int {
	return p.sim.Calls()[awssim.CallKey{Service: "ec2", Operation: "RunInstances", Region: region}]
}

// together lets Slurm start all jobs that submit queues at once.
func (p *power) together(submit func()) {
	p.t.Helper()
	p.scontrol("update", "partitionname=gpu", "state=DOWN")
	submit()
	p.scontrol("update", "partitionname=gpu", "state=UP")
}

// addressed reports whether Slurm knows where the instance of a node is.
func (p *power) addressed(node string) bool {
	i, launched := p.instances()[node]
	return launched && strings.Contains(p.show("node", node), "NodeAddr="+i.PrivateIP+" ")
}

// One-node jobs share launches: EC2's documented request limit, 5 calls and then 2 a
// second, costs none of 64 of them its node.
func TestManyOneNodeJobs(t *testing.T) {
	const many = 64
	p := startPowerWith(t, strings.ReplaceAll(powerConfig, "max_nodes = 4", "max_nodes = 64"),
		func(s *awssim.Scenario) {
			s.Throttle = true
			s.Regions[0].Reservations[0].Count = many
		},
		func(c *slurmlab.Config) {
			c.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-", Count: many, Partition: "gpu", CPUs: 1}}
			c.ResumeTimeout = 5 * time.Minute
		})
	if p.cluster.RegistersAddress() {
		t.Skip("this Slurm does not keep the addresses that it was told")
	}
	p.dead.Store(true)
	p.together(func() {
		for range many {
			p.submit("-p", "gpu", "-n1")
		}
	})
	for i := 1; i <= many; i++ {
		node := fmt.Sprintf("gpu-%d", i)
		p.until(node+" has its instance", func() bool { return p.addressed(node) })
	}
	if n := p.runInstances(); n > 8 || p.launches() != many {
		t.Errorf("%d calls, %d instances", n, p.launches())
	}
	records, err := p.state.Records()
	for _, r := range records {
		if r.Code != "ok" {
			t.Errorf("%+v", r)
		}
	}
	if err != nil || len(records) != many {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// A place that is missing costs one job its node; the others of the launch run.
func TestOneNodeJobsWithTooFewPlaces(t *testing.T) {
	p := startPower(t, nil) // two places
	var ids []string
	p.together(func() {
		for i := range 3 {
			ids = append(ids, p.submit("-p", "gpu", "-w", fmt.Sprintf("gpu-%d", i+1)))
		}
	})
	p.wait(ids[0], "COMPLETED")
	p.wait(ids[1], "COMPLETED")
	p.until("the third is told", func() bool {
		return strings.Contains(p.show("job", ids[2]), "AdminComment=pcs-capacity: nodes gpu-3 were not launched: ReservationCapacityExceeded: ")
	})
	if p.restarts(ids[0])+p.restarts(ids[1]) != 0 || p.restarts(ids[2]) == 0 {
		t.Error("the wrong job was requeued")
	}
	// One for all three, one for what was missing, and at most as many for the third's next try.
	if n := p.runInstances(); n > 3 {
		t.Errorf("%d calls", n)
	}
}

// A launch that takes long keeps no other one from being used, and no failure from being
// told.
func TestSlowLaunchDelaysNothingElse(t *testing.T) {
	p := startPowerWith(t, powerConfig, func(s *awssim.Scenario) { s.Regions[0].Reservations[0].Count = 3 }, nil)
	if p.cluster.RegistersAddress() {
		t.Skip("this Slurm does not keep the addresses that it was told")
	}
	p.dead.Store(true)
	const slow = 20 * time.Second
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.Delay, Latency: awssim.Duration(slow), Count: 1})
	var refused string
	p.together(func() {
		p.submit("-p", "gpu", "-N2", "-w", "gpu-[1-2]")
		p.submit("-p", "gpu", "-w", "gpu-3")
		refused = p.submit("-p", "gpu", "-w", "gpu-4", "--comment=capacity_reservation_id="+hookstest.OtherID)
	})
	p.until("one launch hangs", func() bool { return len(p.sim.Faults()) == 0 })
	began := time.Now()
	p.until("the other launch is used", func() bool { return p.addressed("gpu-3") || p.addressed("gpu-1") && p.addressed("gpu-2") })
	p.until("the refused job is told", func() bool { return strings.Contains(p.show("job", refused), "wrong-partition: ") })
	if took := time.Since(began); took > slow/2 {
		t.Errorf("it took %s", took)
	}
	p.until("all are launched", func() bool { return p.addressed("gpu-1") && p.addressed("gpu-2") && p.addressed("gpu-3") })
}

// A run for nodes of both providers launches while PCS takes its time.
func TestLaunchesDoNotWaitForPCS(t *testing.T) {
	settings := strings.Replace(powerConfig, "[log]", "cluster = \"ml\"\n[log]", 1) + `
[[partition]]
name = "big"
provider = "pcs"
  [[partition.node_group]]
  name = "big"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa"]
  max_nodes = 4
`
	p := startPowerWith(t, settings, nil, nil)
	// Nobody launches for the node until the hook runs by hand.
	p.fault(awssim.Fault{Operation: "DescribeInstances", Effect: awssim.Delay, Latency: awssim.Duration(time.Minute), Count: 1})
	id := p.submit("-p", "gpu", "-w", "gpu-1")
	p.until("the hook hangs", func() bool { return len(p.sim.Faults()) == 0 })
	p.kill("pcs-capacity-resume")
	if _, err := p.sim.AddFault(awssim.Fault{Service: "pcs", Effect: awssim.Delay, Latency: awssim.Duration(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.run("pcs-capacity-resume", "gpu-1,big-a-1") // PCS has no such cluster
	}()
	began := time.Now()
	p.wait(id, "COMPLETED")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the job on the launched node waited for %s", took)
	}
	p.kill("pcs-capacity-resume")
	<-done
}
