package power_test

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// On demand, reservations that there are come first, in order; then capacity is held; a job
// gets the one that it names, and with capacity=reuse nothing else than one of them. Nobody's
// open ODCR is used up, and one for another platform is passed over.
func TestReuseComesFirst(t *testing.T) {
	const openID, otherPlatform = "cr-0aaaaaaaaaaaaaaaf", "cr-0aaaaaaaaaaaaaaab"
	settings := strings.Replace(holdConfig, `  max_nodes = 4`, `  max_nodes = 6
  capacity_reservation_ids = ["`+otherPlatform+`", "`+smallID+`", "`+largeID+`"]`, 1)
	p := startPowerWith(t, settings, func(s *awssim.Scenario) {
		room(10, 0)(s)
		home := &s.Regions[0]
		for _, r := range []awssim.ReservationScenario{{ID: openID, Count: 4, Match: "open"}, {ID: smallID, Count: 1}, {ID: largeID, Count: 2},
			{ID: otherPlatform, Count: 1, Platform: "Red Hat Enterprise Linux"}} {
			r.Kind, r.Type, r.Zone = "odcr", "p5.48xlarge", "us-east-2a"
			home.Reservations = append(home.Reservations, r)
		}
	}, sixNodes)
	p.pass() // it finds out what the image runs; nothing asks again
	images := func() int {
		return p.sim.Calls()[awssim.CallKey{Service: "ec2", Operation: "DescribeImages", Region: region}]
	}
	asked := images()
	run := func(node string, more ...string) string {
		t.Helper()
		id := p.submit(append([]string{"-p", "gpu", "-w", node, "-t", "10"}, more...)...)
		p.wait(id, "COMPLETED")
		if n := p.restarts(id); n != 0 {
			t.Errorf("%s: %d restarts", node, n)
		}
		return p.in(node)
	}
	if got := run("gpu-1", "--comment=capacity_reservation_id="+largeID); got != largeID {
		t.Errorf("a job that names %s is in %q", largeID, got)
	}
	if got := run("gpu-2"); got != smallID {
		t.Errorf("the first is in %q", got)
	}
	if got := run("gpu-3", "--comment=capacity=reuse"); got != largeID {
		t.Errorf("a job that reuses is in %q", got)
	}
	waits := p.submit("-p", "gpu", "-w", "gpu-4", "-t", "10", "--comment=capacity=reuse")
	p.until("there is nothing to reuse", func() bool { return strings.Contains(p.show("job", waits), "ReservationCapacityExceeded: ") })
	if got := run("gpu-5"); got != "" {
		t.Errorf("a job beyond the reservations is in %q", got)
	}
	named := p.submit("-p", "gpu", "-w", "gpu-6", "-t", "10", "--comment=capacity_reservation_id="+otherPlatform)
	p.until("the job that names it is told", func() bool {
		return strings.Contains(p.show("job", named), "mismatch: reservation "+otherPlatform+" is for platform Red Hat Enterprise Linux, but the image of node group gpu is for Linux/UNIX; use an image for Red Hat Enterprise Linux")
	})
	p.nothingHeldBut(openID, smallID, largeID, otherPlatform)
	if asked == 0 || images() != asked {
		t.Errorf("DescribeImages: %d calls by sync, %d in all", asked, images())
	}
	for _, r := range p.sim.Reservations(region) {
		if want := map[string]int{smallID: 1, largeID: 2}; (r.ID == openID || r.ID == otherPlatform) && r.Launched != 0 || r.Launched > 2 || want[r.ID] != 0 && r.Launched != want[r.ID] {
			t.Errorf("%+v", r)
		}
	}
	p.scontrol("update", "nodename=gpu-3", "state=POWER_DOWN", "reason=test")
	p.wait(waits, "COMPLETED")
	if got := p.in("gpu-4"); got != largeID {
		t.Errorf("the job that waited is in %q", got)
	}
}

// nothingHeldBut waits until no other ODCR is left.
func (p *power) nothingHeldBut(ids ...string) {
	p.t.Helper()
	p.until("nothing else is held", func() bool {
		now, _ := p.heldNow()
		return len(now) == len(ids)
	})
}

// A reservation that EC2 found full is not asked for again at once, whatever EC2 says of its
// free places; after a query that was throttled it is.
func TestFullReservationIsPassedOverForAWhile(t *testing.T) {
	settings := strings.Replace(holdConfig, `  reserve = "per-job"`, `  capacity_reservation_ids = ["`+smallID+`", "`+largeID+`"]`, 1)
	p := startPowerWith(t, settings, func(s *awssim.Scenario) {
		room(10, 0)(s)
		sharedWorld(s)
	}, sixNodes)
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.FailBefore, Code: "RequestLimitExceeded", Status: 503, Count: 1})
	p.wait(p.submit("-p", "gpu", "-w", "gpu-1", "-t", "10"), "COMPLETED")
	if got := p.in("gpu-1"); got != smallID {
		t.Errorf("after a throttled call the node is in %q", got)
	}
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.FailBefore, Code: "ReservationCapacityExceeded", Count: 1})
	p.wait(p.submit("-p", "gpu", "-w", "gpu-2", "-t", "10"), "COMPLETED")
	p.wait(p.submit("-p", "gpu", "-w", "gpu-3", "-t", "10"), "COMPLETED")
	if got := p.in("gpu-2", "gpu-3"); got != largeID+" "+largeID {
		t.Errorf("the nodes are in %q", got)
	}
	full, err := p.state.Full(p.sim.Clock().Now())
	if err != nil || len(full) != 1 || full[smallID] != 1 {
		t.Errorf("full: %v, %v", full, err)
	}
}
