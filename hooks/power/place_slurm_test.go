package power_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

const (
	smallID = "cr-0aaaaaaaaaaaaaaad" // two places
	largeID = "cr-0aaaaaaaaaaaaaaae" // four places
)

// sharedConfig is a node group with two reservations without an end.
const sharedConfig = `
region = "us-east-2"
state_dir = %q
[log]
dir = %q

[[partition]]
name = "gpu"
provider = "ec2"
  [[partition.node_group]]
  name = "gpu"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa"]
  launch_template = "lt-0aaaaaaaaaaaaaaaa"
  purchase_option = "odcr"
  capacity_reservation_ids = ["` + smallID + `", "` + largeID + `"]
  max_nodes = 6
`

func sharedWorld(s *awssim.Scenario) {
	for id, count := range map[string]int{smallID: 2, largeID: 4} {
		s.Regions[0].Reservations = append(s.Regions[0].Reservations, awssim.ReservationScenario{ID: id, Kind: "odcr", Type: "p5.48xlarge", Zone: "us-east-2a", Count: count})
	}
}

func sixNodes(c *slurmlab.Config) {
	c.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 6, Partition: "gpu", CPUs: 1}}
}

// in are the reservations that nodes run in.
func (p *power) in(nodes ...string) string {
	var all []string
	for _, n := range nodes {
		all = append(all, p.instances()[n].ReservationID)
	}
	return strings.Join(all, " ")
}

// restarts is how often Slurm has requeued a job.
func (p *power) restarts(id string) int {
	m := regexp.MustCompile(`Restarts=(\d+)`).FindStringSubmatch(p.show("job", id))
	n, _ := strconv.Atoi(m[1])
	return n
}

// Two reservations without an end share a slot: each job goes where it fits and where there
// is room, and none is requeued.
func TestJobsGoWhereTheyFit(t *testing.T) {
	p := startPowerWith(t, sharedConfig, sharedWorld, sixNodes)
	large := p.submit("-p", "gpu", "-N3", "-t", "10")
	p.wait(large, "COMPLETED")
	if got, want := p.in("gpu-1", "gpu-2", "gpu-3"), strings.Join([]string{largeID, largeID, largeID}, " "); got != want {
		t.Errorf("a job of 3 nodes is in %s", got)
	}
	small := p.submit("-p", "gpu", "-w", "gpu-[4-5]", "-N2", "-t", "10")
	p.wait(small, "COMPLETED")
	if got := p.in("gpu-4", "gpu-5"); got != smallID+" "+smallID {
		t.Errorf("a job of 2 nodes is in %s", got)
	}
	one := p.submit("-p", "gpu", "-w", "gpu-6", "-t", "10")
	p.wait(one, "COMPLETED")
	if got := p.in("gpu-6"); got != largeID {
		t.Errorf("the last node is in %s", got)
	}
	if p.restarts(large)+p.restarts(small)+p.restarts(one) != 0 {
		t.Error("a job was requeued")
	}
}

// A reservation that is full, whatever EC2 said before, is passed over at once.
func TestFullReservationIsPassedOver(t *testing.T) {
	p := startPowerWith(t, sharedConfig, sharedWorld, sixNodes)
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.FailBefore, Code: "ReservationCapacityExceeded", Count: 1})
	id := p.submit("-p", "gpu", "-N2", "-t", "10")
	p.wait(id, "COMPLETED")
	if got := p.in("gpu-1", "gpu-2"); got != largeID+" "+largeID || p.restarts(id) != 0 {
		t.Errorf("in %s after %d restarts", got, p.restarts(id))
	}
}

// A job that nothing is large enough for is held at its first launch, with the reason.
func TestJobThatNeverFitsIsHeld(t *testing.T) {
	p := startPower(t, nil)
	id := p.submit("-p", "gpu", "-N3") // the block has two, and no filter has refused it
	p.until("the job is held, with the reason", func() bool {
		job := p.show("job", id)
		return strings.Contains(job, " Priority=0 ") &&
			strings.Contains(job, "on: partition gpu refuses this job: too-many-nodes: the job asks for 3 nodes, but the largest reservation of partition gpu that it may use has 2; use --nodes=2; change it before you release it")
	})
	if p.restarts(id) != 1 || p.sim.Calls()[awssim.CallKey{Service: "ec2", Operation: "RunInstances", Region: region}] != 0 {
		t.Errorf("%d restarts, calls %v", p.restarts(id), p.sim.Calls())
	}
}

// What EC2 refuses again and again is tried less and less often; its owner is told, and it
// runs when there is room.
func TestRetriesArePaced(t *testing.T) {
	p := startPower(t, nil)
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.FailBefore, Code: "InsufficientInstanceCapacity"})
	began := time.Now()
	several, one := p.submit("-p", "gpu", "-w", "gpu-[1-2]", "-N2"), p.submit("-p", "gpu", "-w", "gpu-3")
	for _, id := range []string{several, one} {
		p.until("job "+id+" waits longer after its second failure", func() bool {
			return strings.Contains(p.show("job", id), "InsufficientInstanceCapacity: ") && strings.Contains(p.show("job", id), "; tried 2 times, Slurm tries again at ")
		})
	}
	time.Sleep(time.Until(began.Add(40 * time.Second))) // it was 7 restarts in this time
	for _, id := range []string{several, one} {
		if n := p.restarts(id); n > 3 {
			t.Errorf("job %s: %d restarts in 40 seconds", id, n)
		}
	}
	// it would take one of the two places
	if _, err := p.cluster.Command(hookstest.Deadline(t), "scancel", one); err != nil {
		t.Fatal(err)
	}
	p.wait(one, "CANCELLED")
	p.sim.ClearFaults()
	p.wait(several, "COMPLETED")
	p.lookedForNoNode()
}

// lookedForNoNode says that slurmctld knew where its nodes are, which have no entry in DNS.
// While it looks for one, which takes ten seconds, newer versions answer nobody.
func (p *power) lookedForNoNode() {
	p.t.Helper()
	log, err := os.ReadFile(p.cluster.Log("slurmctld"))
	if n := strings.Count(string(log), "getaddrinfo() failed"); err != nil || n > 0 {
		p.t.Errorf("%v; slurmctld looked for a node without an address %d times", err, n)
	}
}

// A node that never boots is tried less and less often, too.
func TestNodeThatNeverBootsIsPaced(t *testing.T) {
	p := startPower(t, func(c *slurmlab.Config) { c.ResumeTimeout = 6 * time.Second })
	p.dead.Store(true)
	id := p.submit("-p", "gpu", "-w", "gpu-1")
	p.until("the owner is told that the node did not boot, twice", func() bool {
		job := p.show("job", id)
		return strings.Contains(job, "AdminComment=pcs-capacity: nodes gpu-1 did not boot: ") && strings.Contains(job, "; tried 2 times, Slurm tries again at ")
	})
	if launches := p.launches(); launches != 2 {
		t.Errorf("%d launches", launches)
	}
	eligible := regexp.MustCompile(`EligibleTime=(\S+)`).FindStringSubmatch(p.show("job", id))[1]
	if at, err := time.ParseInLocation("2006-01-02T15:04:05", eligible, time.Local); err != nil || time.Until(at) < 10*time.Second {
		t.Errorf("it may start at %s (%v), now it is %s", eligible, err, time.Now())
	}
}

// A person who calls the hook takes nothing away from a running job, and gets nothing that
// Slurm does not wait for.
func TestResumeByHand(t *testing.T) {
	p := startPower(t, nil)
	id, err := p.cluster.Submit(hookstest.Deadline(t), "sleep 600", "-p", "gpu", "-w", "gpu-1")
	if err != nil {
		t.Fatal(err)
	}
	p.wait(id, "RUNNING")
	before := p.instances()["gpu-1"]
	for nodes, fails := range map[string]bool{"gpu-1": false, "gpu-2": true, "gpu-[1-2,17]": true} {
		err := p.run("pcs-capacity-resume", nodes)
		var exit *exec.ExitError
		if fails && !errors.As(err, &exit) || !fails && err != nil {
			t.Errorf("%s: %v", nodes, err)
		}
	}
	if now := p.instances(); len(now) != 1 || now["gpu-1"].ID != before.ID || p.launches() != 1 {
		t.Errorf("%d launches, now %v", p.launches(), now)
	}
	if job := p.show("job", id); !strings.Contains(job, "JobState=RUNNING") || !strings.Contains(job, "Restarts=0") {
		t.Error(job)
	}
}

// An idle node may be powered up as often as anybody likes.
func TestIdleNodePoweredUpElevenTimes(t *testing.T) {
	p := startPower(t, func(c *slurmlab.Config) { c.SuspendTimeout = time.Second })
	p.dead.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	for round := 1; round <= 11; round++ {
		p.scontrol("update", "nodename=gpu-1", "state=POWER_UP")
		p.until(fmt.Sprintf("launch %d", round), func() bool { return p.launches() == round })
		p.scontrol("update", "nodename=gpu-1", "state=POWER_DOWN_FORCE", "reason=test")
		if _, err := p.cluster.WaitNode(ctx, "gpu-1", func(s string) bool { return s == "IDLE+CLOUD+POWERED_DOWN" }); err != nil {
			t.Fatal(err)
		}
		p.until("the instance is ended", func() bool { return len(p.instances()) == 0 })
	}
}

// Nodes may have any names that the settings list.
func TestNodesWithOtherNames(t *testing.T) {
	settings := strings.Replace(powerConfig, `max_nodes = 4`, "max_nodes = 4\n  nodes = \"ip-10-0-0-[1-4]\"", 1)
	p := startPowerWith(t, settings, nil, func(c *slurmlab.Config) {
		c.CloudGroups[0] = slurmlab.NodeGroup{Prefix: "ip-10-0-0-", Count: 4, Partition: "gpu"}
	})
	p.wait(p.submit("-p", "gpu", "-N2"), "COMPLETED")
	if got := p.in("ip-10-0-0-1", "ip-10-0-0-2"); got != hookstest.BlockID+" "+hookstest.BlockID {
		t.Errorf("in %s", got)
	}
}

// The hostlist of a launch may be longer than a tag.
func TestLongHostlist(t *testing.T) {
	p := startPowerWith(t, strings.ReplaceAll(powerConfig, "max_nodes = 4", "max_nodes = 100"),
		func(s *awssim.Scenario) { s.Regions[0].Reservations[0].Count = 100 },
		func(c *slurmlab.Config) {
			c.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 200, Partition: "gpu", CPUs: 1}}
		})
	p.dead.Store(true)
	var odd []string
	for i := 1; i <= 200; i += 2 {
		odd = append(odd, strconv.Itoa(i))
	}
	p.submit("-p", "gpu", "-N100", "-w", "gpu-["+strings.Join(odd, ",")+"]")
	p.until("all nodes have an instance", func() bool { return len(p.instances()) == 100 })
	for _, i := range odd {
		node := "gpu-" + i
		address := p.instances()[node].PrivateIP
		p.until(node+" has its instance's address", func() bool {
			return p.cluster.RegistersAddress() || strings.Contains(p.show("node", node), "NodeAddr="+address+" ")
		})
	}
}
