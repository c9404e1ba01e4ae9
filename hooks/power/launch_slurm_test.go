package power_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
)

// EC2 takes no subnet beside network interfaces, which a template for EFA has.
func TestResumeFromAnEFATemplate(t *testing.T) {
	p := startPower(t, nil)
	settings := fmt.Sprintf(powerConfig, p.state, filepath.Join(p.dir, "log"))
	settings = strings.Replace(settings, `launch_template = "lt-0aaaaaaaaaaaaaaaa"`, `launch_template = "gpu-efa:$Latest"`, 1)
	if err := os.WriteFile(p.settings(), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	p.wait(p.submit("-p", "gpu", "-N2"), "COMPLETED")
	for node, i := range p.instances() {
		if i.ReservationID != hookstest.BlockID || i.SubnetID != "subnet-0aaaaaaaaaaaaaaaa" || i.Tags["aws:ec2launchtemplate:id"] != "lt-0aaaaaaaaaaaaaaaf" {
			t.Errorf("%s: %+v", node, i)
		}
	}
	if p.launches() != 2 {
		t.Errorf("%d instances ever", p.launches())
	}
}

// An ODCR that was made in a placement group takes launches in that group only; the template
// knows nothing of it.
func TestResumeIntoAPlacementGroup(t *testing.T) {
	settings := strings.Replace(powerConfig, `launch_template = "lt-0aaaaaaaaaaaaaaaa"`, `launch_template = "lt-0aaaaaaaaaaaaaaaa"
  purchase_option = "odcr"`, 1)
	p := startPowerWith(t, settings, func(s *awssim.Scenario) {
		home := &s.Regions[0]
		home.PlacementGroups = append(home.PlacementGroups, awssim.PlacementGroupScenario{ID: "pg-0aaaaaaaaaaaaaaaa", Name: "close"})
		odcr := &home.Reservations[0]
		odcr.Kind, odcr.Start, odcr.End, odcr.PlacementGroup = "odcr", awssim.Moment{}, awssim.Moment{}, "close"
	}, nil)
	p.wait(p.submit("-p", "gpu", "-N2"), "COMPLETED")
	for node, i := range p.instances() {
		if i.ReservationID != hookstest.BlockID {
			t.Errorf("%s: %+v", node, i)
		}
	}
	if p.launches() != 2 {
		t.Errorf("%d instances ever", p.launches())
	}
}

// EC2 may hold a token for used, as after a launch that failed under it: the next attempt
// has another one, and no node waits for the next hour.
func TestResumeWithAUsedToken(t *testing.T) {
	p := startPower(t, nil)
	for _, code := range []string{"IdempotentParameterMismatch", "IdempotentInstanceTerminated"} {
		p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.FailBefore, Code: code, Count: 1})
	}
	id := p.submit("-p", "gpu", "-N2")
	p.wait(id, "COMPLETED")
	if job := p.show("job", id); p.launches() != 2 || !strings.Contains(job, "Restarts=0") {
		t.Errorf("%d instances ever; %s", p.launches(), job)
	}
}

// Right after a launch EC2 knows nothing of the instances; nothing is asked of them then.
func TestResumeWhileEC2ShowsNothingYet(t *testing.T) {
	p := startPower(t, nil)
	lag := awssim.Duration(3 * time.Second)
	p.sim.SetLag(awssim.Lag{Instances: &lag, Tags: &lag})
	p.wait(p.submit("-p", "gpu", "-N2"), "COMPLETED")
	if p.launches() != 2 {
		t.Errorf("%d instances ever", p.launches())
	}
}
