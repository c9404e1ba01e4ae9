package power_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

const mixedConfig = `
region = "us-east-2"
state_dir = %q
[log]
dir = %q
[timing]
drain_margin = "2s"
boot_allowance = "1s"
reclaim_lead = "3s"

[[partition]]
name = "gpu"
provider = "ec2"
min_time = "1m"
  [[partition.node_group]]
  name = "gpu"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa"]
  launch_template = "lt-0aaaaaaaaaaaaaaaa"
  purchase_option = "mixed"
  select = { group = "gpus" }
  max_nodes = 4
  slots = 2
`

const ownID = "cr-0aaaaaaaaaaaaaaac" // an ODCR of one place

// regroup adds a reservation to the resource group of the test.
func (p *power) regroup(id string) {
	p.t.Helper()
	body := fmt.Sprintf(`{"Group": "gpus", "ResourceArns": ["arn:aws:ec2:us-east-2:111122223333:capacity-reservation/%s"]}`, id)
	r := httptest.NewRequest(http.MethodPost, "/group-resources", bytes.NewBufferString(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDOWNER/20261121/"+region+"/resource-groups/aws4_request")
	answer := httptest.NewRecorder()
	if p.sim.Handler().ServeHTTP(answer, r); answer.Code != http.StatusOK {
		p.t.Fatal(answer.Body)
	}
}

// A resource group of an ODCR, an interruptible one and, later, a block: each job runs in one of
// its members, bought as what that is; none runs past the end of the member that it is in.
func TestR2_MixedResourceGroup(t *testing.T) {
	p := startPowerWith(t, mixedConfig, func(s *awssim.Scenario) {
		overlapWorld(s)
		home := &s.Regions[0]
		for _, r := range []awssim.ReservationScenario{{ID: ownID, Count: 1}, {ID: lendingID, Count: 2}, {ID: lentID, Kind: "interruptible-odcr", Source: lendingID, Count: 1}} {
			r.Type, r.Zone = "p5.48xlarge", "us-east-2a"
			home.Reservations = append(home.Reservations, r)
		}
		home.ResourceGroups = []awssim.ResourceGroupScenario{{Name: "gpus", Reservations: []string{ownID, lentID}, Joining: []string{longID}}}
	}, func(c *slurmlab.Config) {
		c.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-a-", Count: 3, Partition: "gpu", Features: "gpu-a"}, {Prefix: "gpu-b-", Count: 2, Partition: "gpu", Features: "gpu-b"}}
	})
	if report := p.pass(); len(report.Problems) > 0 {
		t.Errorf("problems: %q", report.Problems)
	}
	// Those without an end share a slot, and leave the other to what has one.
	submit := func(more ...string) string {
		t.Helper()
		id, err := p.cluster.Submit(hookstest.Deadline(t), "sleep 600", append([]string{"-p", "gpu", "--exclusive"}, more...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first, second := submit("-C", "gpu-a", "-t", "60"), submit("-C", "gpu-a", "-t", "60")
	p.wait(first, "RUNNING")
	p.wait(second, "RUNNING")
	p.regroup(shortID)
	p.pass()
	p.fenceOf("gpu-b", shortID)
	crosses := submit("-C", "gpu-b", "-t", "10") // the block is over in less
	fits := p.submit("-p", "gpu", "-C", "gpu-b", "-t", "1", "--comment=capacity_reservation_id="+shortID)
	p.wait(fits, "COMPLETED")
	lifecycles := map[string]string{}
	for node, i := range p.instances() {
		lifecycles[i.ReservationID] = i.Lifecycle
		if block := i.ReservationID == shortID; block != strings.HasPrefix(node, "gpu-b-") {
			t.Errorf("%s is in %s", node, i.ReservationID)
		}
	}
	if want := map[string]string{ownID: "", lentID: "interruptible-capacity-reservation", shortID: "capacity-block"}; fmt.Sprint(lifecycles) != fmt.Sprint(want) {
		t.Errorf("launched as %v, want %v", lifecycles, want)
	}
	// Slurm has passed it over for the one that fits.
	if job := p.show("job", crosses); !strings.Contains(job, "JobState=PENDING Reason=ReqNodeNotAvail,_May_be_reserved_for_other_job") || !strings.Contains(job, "Restarts=0") {
		t.Errorf("the job that would cross the end of the block: %s", job)
	}
	for _, id := range []string{first, second} {
		if job := p.show("job", id); !strings.Contains(job, "JobState=RUNNING") {
			t.Error(job)
		}
	}
}
