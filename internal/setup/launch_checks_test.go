package setup_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

// What EC2 refuses a launch for is found before anything is created: here it is set up
// all the same, and the launch fails with EC2's code.
func TestWhatALaunchIsRefusedFor(t *testing.T) {
	const (
		elsewhere  = "vpc-0e2000000000000ff"
		strange    = "sg-0e2000000000000ff" // in that VPC
		placedODCR = "cr-0e200000000000f01"
		tiny       = "subnet-0e200000000000f01" // 11 addresses
	)
	world := func(s *awssim.Scenario) {
		r := &s.Regions[0]
		r.VPCs = append(r.VPCs, awssim.VPCScenario{ID: elsewhere, CIDR: "10.9.0.0/16"})
		r.SecurityGroups = append(r.SecurityGroups, awssim.SecurityGroupScenario{ID: strange, Name: "strange", VPC: elsewhere})
		r.Subnets = append(r.Subnets, awssim.SubnetScenario{ID: tiny, VPC: r.VPCs[0].ID, Zone: "us-east-2a", CIDR: "10.2.9.0/28"})
	}
	for name, test := range map[string]struct {
		world   func(*awssim.Scenario)
		request func(*setup.Request)
		check   string // the code of ours
		launch  string // EC2's, of the launch
		says    string
	}{
		"unknown key pair of --like": {world: func(s *awssim.Scenario) { s.Regions[0].LaunchTemplates[0].KeyName = "nobody" },
			check: "key-pair", launch: "InvalidKeyPair.NotFound", says: `EC2 has no key pair "nobody", which ml-compute names`},
		"placement group of another account": {world: func(s *awssim.Scenario) {
			s.Regions[0].Reservations = append(s.Regions[0].Reservations, awssim.ReservationScenario{ID: placedODCR, Type: "p5.48xlarge", Zone: "us-east-2a",
				Count: 4, Owner: "444455556666", PlacementGroup: "theirs"})
		}, request: func(r *setup.Request) { r.Reservation = placedODCR },
			check: "placement-group", launch: "InvalidPlacementGroup.Unknown", says: `in placement group "theirs" only`},
		"image of another architecture": {request: func(r *setup.Request) { r.AMI = "ami-0e200000000000b02" },
			check: "architecture", launch: "InvalidParameterValue", says: "is for arm64, but p5.48xlarge runs x86_64; give an image for x86_64 with --ami"},
		"tag key that metadata cannot show": {world: func(s *awssim.Scenario) {
			like := &s.Regions[0].LaunchTemplates[0]
			like.MetadataTags, like.InstanceTags = true, map[string]string{"Cost Center": "4711"}
		}, check: "tag-key", launch: "InvalidParameterValue", says: `tags instances with "Cost Center", and by the template their metadata shows tags`},
		"tag key that the account's metadata cannot show": {world: func(s *awssim.Scenario) {
			s.Regions[0].MetadataTags, s.Regions[0].LaunchTemplates[0].InstanceTags = true, map[string]string{"team/a": "x"}
		}, check: "tag-key", launch: "InvalidParameterValue", says: `tags instances with "team/a", and by the account's default their metadata shows tags`},
		"what only EC2 knows": {world: func(s *awssim.Scenario) { s.Regions[0].LaunchTemplates[0].RootGiB = 7 },
			check: "launch-refused", launch: "InvalidBlockDeviceMapping", says: "EC2 would not launch a node of gpu-a into subnet-0e200000000000a01: InvalidBlockDeviceMapping: Volume of size 7GB is smaller than snapshot"},
		"no address for each node": {request: func(r *setup.Request) { r.SubnetIDs, r.MaxNodes, r.EFA = []string{tiny}, 12, capacity.NoEFA },
			check: "addresses", launch: "InsufficientFreeAddressesInSubnet", says: "has free addresses for 11 nodes, but there are to be 12"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, func(s *awssim.Scenario) {
				world(s)
				if test.world != nil {
					test.world(s)
				}
			})
			r := w.request(openBlock)
			if test.request != nil {
				test.request(&r)
			}
			p := w.plan(r)
			if got := strings.Join(codes(p), " "); got != test.check || len(p.Mismatches) != 1 || !strings.Contains(p.Mismatches[0].Text(), test.says) {
				t.Errorf("%s: %v", got, p.Mismatches)
			}
			p.Mismatches = nil
			if err := w.setup.Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			var err error
			for n := 1; n <= r.MaxNodes && err == nil; n++ {
				_, err = w.sim.LaunchForNodeGroup("ml", "gpu-a", fmt.Sprintf("gpu-a-%d", n))
			}
			var refused *awssim.APIError
			if !errors.As(err, &refused) || refused.Code != test.launch {
				t.Errorf("the launch: %v, want %s", err, test.launch)
			}
		})
	}
}

// A key pair that exists is copied, and an ODCR in a placement group is launched into
// in that group.
func TestLaunchIntoAPlacementGroup(t *testing.T) {
	const placedODCR = "cr-0e200000000000f01"
	w := newAccount(t, func(s *awssim.Scenario) {
		s.Regions[0].LaunchTemplates[0].KeyName, s.Regions[0].LaunchTemplates[0].PlacementGroup = "admin", "of-compute"
		s.Regions[0].Reservations = append(s.Regions[0].Reservations, awssim.ReservationScenario{ID: placedODCR, Type: "p5.48xlarge", Zone: "us-east-2a",
			Count: 4, PlacementGroup: "ml-cluster"})
	})
	w.run(w.request(placedODCR))
	if template := w.template(w.group("gpu-a")); template.KeyName != "admin" {
		t.Errorf("launch template %+v", template)
	}
	if _, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil {
		t.Error(err)
	}
}

// A block has a placement of its own, and EC2 refuses a launch into one with a placement
// group: that of --like is left out.
func TestBlockDropsThePlacementGroupOfLike(t *testing.T) {
	w := newAccount(t, func(s *awssim.Scenario) { s.Regions[0].LaunchTemplates[0].PlacementGroup = "ml-cluster" })
	if data := w.templateData(w.group("compute")); data.Placement == nil {
		t.Fatal("--like has no placement group")
	}
	w.run(w.request(openBlock))
	if data := w.templateData(w.group("gpu-a")); data.Placement != nil {
		t.Errorf("placement %+v", data.Placement)
	}
	if _, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil {
		t.Error(err)
	}
}
