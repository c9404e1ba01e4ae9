package power_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// holdConfig is a node group on demand in two zones, for whose jobs capacity is held.
const holdConfig = `
region = "us-east-2"
state_dir = %q
[log]
dir = %q

[reserve]
enabled = true
prices = { "p5.48xlarge" = "55.04" }

[[partition]]
name = "gpu"
provider = "ec2"
  [[partition.node_group]]
  name = "gpu"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"]
  launch_template = "lt-0aaaaaaaaaaaaaaaa"
  purchase_option = "on-demand"
  reserve = "per-job"
  max_nodes = 4
`

const (
	firstSubnet  = "subnet-0aaaaaaaaaaaaaaaa" // in us-east-2a
	secondSubnet = "subnet-0bbbbbbbbbbbbbbbb" // in us-east-2b
)

// room is a world with so much capacity on demand in the two zones, and no reservation.
func room(inFirst, inSecond int) func(*awssim.Scenario) {
	return func(s *awssim.Scenario) {
		home := &s.Regions[0]
		home.Reservations = nil
		for zone, count := range map[string]int{"us-east-2a": inFirst, "us-east-2b": inSecond} {
			home.Capacity = append(home.Capacity, awssim.CapacityScenario{Zone: zone, Type: "p5.48xlarge", Count: count})
		}
	}
}

// heldNow are the ODCRs that are paid now, and all that there ever were.
func (p *power) heldNow() (now, ever []awssim.ReservationUse) {
	for _, r := range p.sim.Reservations(region) {
		if r.Kind != "odcr" {
			continue
		}
		ever = append(ever, r)
		if r.State == "active" || r.State == "pending" {
			now = append(now, r)
		}
	}
	return now, ever
}

// nothingHeld waits until no ODCR is left, in EC2 and in the ledger.
func (p *power) nothingHeld() {
	p.t.Helper()
	p.until("nothing is held any more", func() bool {
		now, _ := p.heldNow()
		listed, err := p.state.Held(p.sim.Clock().Now())
		return len(now) == 0 && len(listed) == 0 && err == nil
	})
}

func (p *power) recordsOf(hook string) []state.Record {
	all, err := p.state.Records()
	if err != nil {
		p.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r state.Record) bool { return r.Hook != hook })
}

// A job of two nodes, for which the first zone has room for one, of either type; the second
// zone for one of the first type and two of the other. It runs on those, and in no mixture.
// What is held is for the platform of the image.
func TestR4_HoldFindsTheZoneWithRoom(t *testing.T) {
	settings := strings.Replace(holdConfig, `  instance_type = "p5.48xlarge"`, `  instance_type = "p5.48xlarge"
  other_instance_types = ["p5e.48xlarge"]`, 1)
	settings = strings.Replace(settings, `prices = {`, `prices = { "p5e.48xlarge" = "60.00",`, 1)
	p := startPowerWith(t, settings, func(s *awssim.Scenario) {
		room(1, 1)(s)
		s.Regions[0].Images[0].Platform = "Red Hat Enterprise Linux"
		for zone, count := range map[string]int{"us-east-2a": 1, "us-east-2b": 2} {
			s.Regions[0].Capacity = append(s.Regions[0].Capacity, awssim.CapacityScenario{Zone: zone, Type: "p5e.48xlarge", Count: count})
		}
	}, nil)
	id := p.submit("-p", "gpu", "-N2")
	p.wait(id, "COMPLETED")
	for _, node := range []string{"gpu-1", "gpu-2"} {
		if i := p.instances()[node]; i.SubnetID != secondSubnet || i.Type != "p5e.48xlarge" {
			t.Errorf("%s is a %s in %s", node, i.Type, i.SubnetID)
		}
	}
	p.nothingHeld()
	_, ever := p.heldNow()
	if len(ever) != 1 || ever[0].State != "cancelled" || ever[0].Launched != 2 || ever[0].Match != "targeted" || ever[0].End.IsZero() ||
		ever[0].Tags[capacity.TagHold] != "jobs "+id+"/0" || ever[0].Tags[capacity.TagJob] != id || ever[0].Tags[capacity.TagNodes] != "gpu-[1-2]" {
		t.Errorf("%+v", ever)
	}
	if mark, err := p.state.Mark(); err != nil || ever[0].Tags[capacity.TagCluster] != mark {
		t.Errorf("mark %v, %v, want %s", ever[0].Tags, err, mark)
	}
	said := regexp.MustCompile(`^held 2 × p5e\.48xlarge in use2-az2 for [0-9.]+m?s, idle for [0-9.]+m?s: 0\.[0-9]+ USD$`)
	if all := p.recordsOf("hold"); len(all) != 1 || all[0].Code != "ok" || all[0].Reservation != ever[0].ID || !said.MatchString(all[0].Message) {
		t.Errorf("records %+v", all)
	}
	if p.launches() != 2 || p.restarts(id) != 0 {
		t.Errorf("%d instances, %d restarts", p.launches(), p.restarts(id))
	}
}

// With no room anywhere the job stays queued with EC2's code, nothing is left, and it runs by
// itself when there is room.
func TestHoldWithoutRoomWaits(t *testing.T) {
	p := startPowerWith(t, holdConfig, room(1, 1), nil)
	id := p.submit("-p", "gpu", "-N2")
	p.until("the job's AdminComment has EC2's code", func() bool {
		return strings.Contains(p.show("job", id), "InsufficientInstanceCapacity: nothing could be held for all 2 nodes at once in p5.48xlarge in use2-az1, p5.48xlarge in use2-az2: ")
	})
	if now, ever := p.heldNow(); len(now)+len(ever) != 0 || p.launches() != 0 {
		t.Errorf("held %+v, %d instances", ever, p.launches())
	}
	if listed, err := p.state.Held(p.sim.Clock().Now()); err != nil || len(listed) != 0 {
		t.Errorf("the ledger has %+v, %v", listed, err)
	}
	p.sim.SetCapacity(region, "us-east-2b", "p5.48xlarge", 2)
	p.wait(id, "COMPLETED")
	p.nothingHeld()
	if p.launches() != 2 {
		t.Errorf("%d instances", p.launches())
	}
}

// What EC2 has just made it may not know everywhere yet, and the answer to the order may be lost.
func TestHoldIsNew(t *testing.T) {
	p := startPowerWith(t, holdConfig, func(s *awssim.Scenario) {
		room(2, 2)(s)
		s.PendingDelay = awssim.Duration(60e9)
	}, nil)
	lag := awssim.Duration(2e9)
	p.sim.SetLag(awssim.Lag{Reservations: &lag, Instances: &lag})
	p.fault(awssim.Fault{Operation: "CreateCapacityReservation", Effect: awssim.CutAfter, Count: 1})
	id := p.submit("-p", "gpu", "-N2")
	p.wait(id, "COMPLETED")
	p.nothingHeld()
	if _, ever := p.heldNow(); len(ever) != 1 || ever[0].Launched != 2 || p.restarts(id) != 0 {
		t.Errorf("%d restarts, held %+v", p.restarts(id), ever)
	}
}

// strict = false: the job is launched all the same, and told so.
func TestHoldNotStrict(t *testing.T) {
	settings := strings.Replace(holdConfig, "enabled = true", "enabled = true\nstrict = false", 1)
	p := startPowerWith(t, settings, room(2, 2), nil)
	p.fault(awssim.Fault{Operation: "CreateCapacityReservation", Effect: awssim.FailBefore, Code: "InsufficientInstanceCapacity", Message: "No."})
	id := p.submit("-p", "gpu", "-N2")
	p.wait(id, "COMPLETED")
	if job := p.show("job", id); !strings.Contains(job, "AdminComment=pcs-capacity: nodes gpu-[1-2] are launched on demand, without capacity that was held for them: InsufficientInstanceCapacity: ") {
		t.Error(job)
	}
	if p.launches() != 2 || p.instances()["gpu-1"].SubnetID != firstSubnet {
		t.Errorf("%+v", p.instances())
	}
}

// No more is held at once than the settings allow; a job that asks for it has capacity held
// in a node group that does not do so for all.
func TestHoldLimit(t *testing.T) {
	settings := strings.Replace(holdConfig, "enabled = true", "enabled = true\nmax_instances = 1", 1)
	settings = strings.Replace(settings, `  reserve = "per-job"`+"\n", "", 1)
	p := startPowerWith(t, settings, room(4, 4), nil)
	id := p.submit("-p", "gpu", "-N2", "--comment=capacity=reserve")
	p.until("the job is told", func() bool {
		return strings.Contains(p.show("job", id), "reserve-limit: more than may be held: 2 instances with these 2, and max_instances of [reserve] is 1")
	})
	if _, ever := p.heldNow(); len(ever) != 0 || p.launches() != 0 {
		t.Errorf("held %+v, %d instances", ever, p.launches())
	}
	if _, err := p.cluster.Command(hookstest.Deadline(t), "scancel", id); err != nil {
		t.Fatal(err)
	}
	p.wait(p.submit("-p", "gpu", "-w", "gpu-4", "--comment=capacity=reserve"), "COMPLETED")
	p.nothingHeld()
	if _, ever := p.heldNow(); len(ever) != 1 || ever[0].Launched != 1 {
		t.Errorf("held %+v", ever)
	}
	p.wait(p.submit("-p", "gpu", "-w", "gpu-3"), "COMPLETED")
	if _, ever := p.heldNow(); len(ever) != 1 {
		t.Errorf("held for a job that did not ask: %+v", ever)
	}
}
