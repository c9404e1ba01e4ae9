package power_test

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// twoPlaces are settings of a node group that holds capacity, of two types in two zones.
var twoPlaces = strings.Replace(holdConfig, `  instance_type = "p5.48xlarge"`, `  instance_type = "p5.48xlarge"
  other_instance_types = ["p5e.48xlarge"]`, 1)

func manyCPUs(c *slurmlab.Config) {
	c.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 4, Partition: "gpu", CPUs: 2}}
}

// upAlone boots a node in a zone, by a job that ends.
func (p *power) upAlone(node, subnet string) {
	p.t.Helper()
	p.wait(p.submit("-p", "gpu", "-w", node, "--comment=subnet_id="+subnet), "COMPLETED")
	if i := p.instances()[node]; i.SubnetID != subnet {
		p.t.Fatalf("%s is in %s", node, i.SubnetID)
	}
}

// inOneZone says that nodes are up in one zone.
func (p *power) inOneZone(subnet string, nodes ...string) {
	p.t.Helper()
	for _, n := range nodes {
		if i := p.instances()[n]; i.SubnetID != subnet {
			p.t.Errorf("%s is in %q, want %s", n, i.SubnetID, subnet)
		}
	}
}

// A node that is up keeps the rest of its job beside it, where there is room.
func TestHoldBesideANodeThatIsUp(t *testing.T) {
	p := startPowerWith(t, twoPlaces, room(4, 4), nil)
	p.upAlone("gpu-1", secondSubnet)
	id := p.submit("-p", "gpu", "-w", "gpu-[1-3]", "-N3")
	p.wait(id, "COMPLETED")
	p.inOneZone(secondSubnet, "gpu-1", "gpu-2", "gpu-3")
	p.nothingHeld()
	if p.restarts(id) != 0 || p.launches() != 3 {
		t.Errorf("%d restarts, %d instances", p.restarts(id), p.launches())
	}
}

// A node that is up in a zone without room for the rest is let go: the job is told, put back,
// and launched anew in one zone.
func TestHoldLetsGoOfNodesElsewhere(t *testing.T) {
	p := startPowerWith(t, holdConfig, room(2, 3), nil)
	p.upAlone("gpu-1", firstSubnet)
	id := p.submit("-p", "gpu", "-w", "gpu-[1-3]", "-N3")
	p.until("the job is told", func() bool {
		return strings.Contains(p.show("job", id), "InsufficientInstanceCapacity: nothing could be held for all 2 nodes at once in p5.48xlarge in use2-az1, beside gpu-1, which is up there: ")
	})
	p.wait(id, "COMPLETED")
	p.inOneZone(secondSubnet, "gpu-1", "gpu-2", "gpu-3")
	p.nothingHeld()
	if p.restarts(id) != 1 || p.launches() != 4 {
		t.Errorf("%d restarts, %d instances", p.restarts(id), p.launches())
	}
}

// Nodes that are up in two zones have no job in common; one that another job uses goes on.
func TestHoldLetsGoOfNodesInTwoZones(t *testing.T) {
	p := startPowerWith(t, holdConfig, room(4, 4), manyCPUs)
	p.upAlone("gpu-1", firstSubnet)
	p.upAlone("gpu-2", secondSubnet)
	other, err := p.cluster.Submit(hookstest.Deadline(t), "sleep 15", "-p", "gpu", "-w", "gpu-1", "-n1", "-t", "10")
	if err != nil {
		t.Fatal(err)
	}
	p.wait(other, "RUNNING")
	id := p.submit("-p", "gpu", "-w", "gpu-[1-3]", "-N3", "-n3", "-t", "10")
	p.until("the job is told", func() bool {
		return strings.Contains(p.show("job", id), "several-places: nodes of the job are up: gpu-1 as p5.48xlarge in use2-az1, gpu-2 as p5.48xlarge in use2-az2")
	})
	p.until("the idle one is let go", func() bool { _, up := p.instances()["gpu-2"]; return !up })
	p.wait(other, "COMPLETED")
	p.wait(id, "COMPLETED")
	subnet := p.instances()["gpu-1"].SubnetID
	p.inOneZone(subnet, "gpu-1", "gpu-2", "gpu-3")
	if p.restarts(other) != 0 {
		t.Errorf("the other job has %d restarts", p.restarts(other))
	}
}
