package setup_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
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
			check: "launch-refused", launch: "InvalidKeyPair.NotFound", says: "InvalidKeyPair.NotFound: The key pair 'nobody' does not exist"},
		"placement group of another account": {world: func(s *awssim.Scenario) {
			s.Regions[0].Reservations = append(s.Regions[0].Reservations, awssim.ReservationScenario{ID: placedODCR, Type: "p5.48xlarge", Zone: "us-east-2a",
				Count: 4, Owner: "444455556666", PlacementGroup: "theirs"})
		}, request: func(r *setup.Request) { r.Reservation = placedODCR },
			check: "launch-refused", launch: "InvalidPlacementGroup.Unknown", says: "InvalidPlacementGroup.Unknown"},
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

// Who may not ask is told so once, and goes on.
func TestNetworkThatNobodyMayAsk(t *testing.T) {
	for operation, want := range map[string]string{
		"DescribeRouteTables":     "whether nodes reach AWS was not checked: ec2:DescribeRouteTables is not allowed",
		"SimulatePrincipalPolicy": "whether role AWSPCS-nodes allows pcs:RegisterComputeNodeGroupInstance was not checked: iam:SimulatePrincipalPolicy, or what else it needs, is not allowed",
	} {
		w := newAccount(t, nil)
		code := "UnauthorizedOperation"
		if operation == "SimulatePrincipalPolicy" {
			code = "AccessDenied"
		}
		w.fault(awssim.Fault{Operation: operation, Effect: awssim.FailBefore, Code: code, Status: 403})
		if p := w.plan(w.request(openBlock)); len(p.Mismatches) > 0 || len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], want) {
			t.Errorf("%s: %v, %v", operation, p.Mismatches, p.Warnings)
		}
	}
}

const cpuImage = "ami-0e200000000000d04"

// withCPUImage has the node group to copy boot an image without drivers.
func withCPUImage(s *awssim.Scenario) {
	r := &s.Regions[0]
	r.Images = append(r.Images, awssim.ImageScenario{ID: cpuImage, Name: "aws-pcs-sample_ami-al2023-x86_64-slurm-25.11", Owner: "amazon", Created: "2026-04-23", Deprecated: "2026-11-01"})
	r.Clusters[0].NodeGroups[0].Image = cpuImage
}

func imageName(p *setup.Plan) string {
	for _, step := range p.Steps() {
		for _, d := range step.Details {
			if d.Key == "image name" {
				return d.Value
			}
		}
	}
	return ""
}

// --ami pcs-dlami is PCS's image of the type's architecture, by its id. Nodes that have one keep it when PCS publishes a
// newer one, and the next block gets that.
func TestGPUImageOfPCS(t *testing.T) {
	const parameter = "/aws/service/pcs/ami/dlami-base-ubuntu2404/x86_64/latest/ami-id"
	const newer = "ami-0e200000000000f06"
	w := newAccount(t, func(s *awssim.Scenario) {
		withCPUImage(s)
		s.Regions[0].Images = append(s.Regions[0].Images, awssim.ImageScenario{ID: newer, Name: "aws-pcs-ready-dlami-base-ubuntu2404-x86_64-20261102", Owner: "amazon"})
	})
	ask := func(block string) setup.Request {
		r := w.request(block)
		r.AMI = pcs.GPUImage
		return r
	}
	p := w.run(ask(openBlock))
	if len(p.Warnings) > 0 || !strings.HasPrefix(imageName(p), "aws-pcs-ready-dlami-base-ubuntu2404-x86_64-20260522 of amazon") {
		t.Errorf("%s, warnings %q", imageName(p), p.Warnings)
	}
	if g := w.group("gpu-a"); g.AMI != image || w.template(g).ImageID != image {
		t.Errorf("the node group has image %s, its template %s", g.AMI, w.template(g).ImageID)
	}
	w.sim.Publish(region, parameter, newer)
	p = w.plan(ask(openBlock))
	want := "the nodes keep image " + image + " (aws-pcs-ready-dlami-base-ubuntu2404-x86_64-20260522), since a change would replace them; by now PCS publishes " + newer +
		", which --ami " + newer + " takes"
	if !p.Done() || !slices.Equal(p.Warnings, []string{want}) {
		t.Errorf("again: %s, warnings %q", actions(p), p.Warnings)
	}
	if p := w.plan(w.request(openBlock)); p.Done() || len(p.Warnings) == 0 || strings.Contains(strings.Join(p.Warnings, " "), "the nodes keep image") { // --like brings its own
		t.Errorf("as --like has it: %s, warnings %q", actions(p), p.Warnings)
	}
	w.fault(awssim.Fault{Effect: awssim.FailBefore, Operation: "DescribeImages", Code: "InvalidAMIID.NotFound"})
	if p := w.plan(ask(openBlock)); len(p.Mismatches) != 1 || p.Mismatches[0].Code != capacity.BadImage {
		t.Errorf("both images are gone: %v", p.Mismatches)
	}
	w.sim.ClearFaults()
	w.run(ask(laterBlock))
	if g := w.group("gpu-b"); g.AMI != newer {
		t.Errorf("the next block's node group has image %s", g.AMI)
	}
}

// Where PCS publishes no image, or nobody may ask, it is said with what to do, and nothing is made.
func TestNoGPUImageOfPCS(t *testing.T) {
	w := newAccount(t, func(s *awssim.Scenario) { s.Regions[0].Images[0].Parameter = "" })
	r := w.request(openBlock)
	r.AMI = pcs.GPUImage
	p := w.plan(r)
	const want = "PCS publishes no image for x86_64 in us-east-2: Systems Manager has no parameter /aws/service/pcs/ami/dlami-base-ubuntu2404/x86_64/latest/ami-id there (ParameterNotFound); " +
		"give an image by its id with --ami; `aws ec2 describe-images --region us-east-2 --owners amazon --filters 'Name=name,Values=aws-pcs-ready-dlami-*'` lists those of PCS"
	if len(p.Mismatches) != 1 || p.Mismatches[0].Code != capacity.BadImage || p.Mismatches[0].Text() != want {
		t.Errorf("%q", p.Mismatches)
	}
	w.fault(awssim.Fault{Service: "ssm", Effect: awssim.FailBefore, Code: "AccessDeniedException", Status: http.StatusBadRequest, Message: "User: arn:aws:iam::111122223333:user/simulated is not authorized to perform: ssm:GetParameter on resource: x because no identity-based policy allows the ssm:GetParameter action"})
	if _, err := w.setup.Plan(t.Context(), r); ec2.DeniedAction(err) != "ssm:GetParameter" {
		t.Errorf("denied: %v", err)
	}
}
