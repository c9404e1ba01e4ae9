package setup_test

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

// What keeps nodes from ever coming up is found before anything is created: here it is set up all the same, and EC2
// launches an instance that PCS never hears of. What is wrong is named with the command that mends it.
func TestNodesThatNeverComeUp(t *testing.T) {
	const vpc, group = "vpc-0e2000000000000a1", "sg-0e2000000000000a1"
	routes := func(routes ...awssim.RouteScenario) func(*awssim.Scenario) {
		return func(s *awssim.Scenario) {
			s.Regions[0].RouteTables = []awssim.RouteTableScenario{{ID: "rtb-0e2000000000000a1", VPC: vpc, Main: true, Routes: routes}}
		}
	}
	igw := awssim.RouteScenario{To: "0.0.0.0/0", Via: "igw-0e2000000000000a1"}
	endpoint := func(s *awssim.Scenario) {
		s.Regions[0].VPCEndpoints = append(s.Regions[0].VPCEndpoints, awssim.VPCEndpointScenario{ID: "vpce-0e2000000000000a1", VPC: vpc, Service: "pcs", SecurityGroups: []string{group}})
	}
	rules := func(rules ...awssim.RuleScenario) func(*awssim.Scenario) {
		return func(s *awssim.Scenario) { s.Regions[0].SecurityGroups[0].Rules = rules }
	}
	all := awssim.RuleScenario{Out: true, Peer: "0.0.0.0/0"}
	noEFA := func(r *setup.Request) { r.EFA, r.MaxNodes = capacity.NoEFA, 1 }
	for name, test := range map[string]struct {
		world   []func(*awssim.Scenario)
		request func(*setup.Request)
		code    string // of ours; "" if nothing is wrong
		says    string
		contact string // what PCS's node lacks; "" if it comes up
	}{
		"public subnet, a p5.48xlarge": {world: []func(*awssim.Scenario){routes(igw), func(s *awssim.Scenario) { s.Regions[0].Subnets[0].PublicAddresses = true }}, code: "no-way-out",
			says:    "nodes with 32 network interfaces get no public address, and the VPC has no endpoint for it; use a subnet with a route to a NAT gateway, or run `aws ec2 create-vpc-endpoint --region us-east-2 --vpc-id " + vpc + " --service-name com.amazonaws.us-east-2.pcs --vpc-endpoint-type Interface --private-dns-enabled --subnet-ids " + subnetA + " --security-group-ids " + group + "`",
			contact: "no public address"},
		"public subnet, without EFA": {world: []func(*awssim.Scenario){routes(igw)}, request: noEFA, code: "no-way-out",
			says: "or let the subnet give nodes a public address: `aws ec2 modify-subnet-attribute`", contact: "no public address"},
		"public subnet with addresses, without EFA": {world: []func(*awssim.Scenario){routes(igw), func(s *awssim.Scenario) { s.Regions[0].Subnets[0].PublicAddresses = true }}, request: noEFA},
		"no route":                  {world: []func(*awssim.Scenario){routes()}, code: "no-way-out", says: "no route leads out of the VPC", contact: "no route"},
		"no route, and an endpoint": {world: []func(*awssim.Scenario){routes(), endpoint}},
		"no route, and an endpoint that lets nobody in": {world: []func(*awssim.Scenario){routes(), endpoint, func(s *awssim.Scenario) {
			r := &s.Regions[0]
			r.SecurityGroups = append(r.SecurityGroups, awssim.SecurityGroupScenario{ID: "sg-0e2000000000000b2", Name: "endpoints", VPC: vpc, Rules: []awssim.RuleScenario{all}})
			r.VPCEndpoints[0].SecurityGroups = []string{"sg-0e2000000000000b2"}
		}}, code: "security-group-rule", says: "aws ec2 authorize-security-group-ingress --region us-east-2 --group-id sg-0e2000000000000b2 --ip-permissions 'IpProtocol=tcp,FromPort=443,ToPort=443,UserIdGroupPairs=[{GroupId=" + group + "}]'`", contact: "no endpoint"},
		"EFA without a rule to itself": {world: []func(*awssim.Scenario){rules(awssim.RuleScenario{Peer: "self"}, all)}, code: "security-group-rule",
			says: "run `aws ec2 authorize-security-group-egress --region us-east-2 --group-id " + group + " --ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{GroupId=" + group + "}]'`"},
		"slurmd's port": {world: []func(*awssim.Scenario){rules(awssim.RuleScenario{Protocol: "tcp", From: 6817, To: 6817, Peer: "self"}, all)}, request: noEFA, code: "security-group-rule",
			says: "--ip-permissions 'IpProtocol=tcp,FromPort=6818,ToPort=6818,UserIdGroupPairs=[{GroupId=" + group + "}]'`", contact: "connect to slurmd"},
		"a role that may not register": {world: []func(*awssim.Scenario){func(s *awssim.Scenario) {
			s.InstanceProfiles = []awssim.InstanceProfileScenario{{Name: "AWSPCS-nodes", Role: "AWSPCS-role", CannotRegister: true}}
		}}, code: "instance-profile", says: "`aws iam attach-role-policy --role-name AWSPCS-role --policy-arn arn:aws:iam::aws:policy/AWSPCSComputeNodePolicy`", contact: "AccessDeniedException"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, func(s *awssim.Scenario) {
				for _, change := range test.world {
					change(s)
				}
			})
			r := w.request(openBlock)
			r.SubnetIDs = []string{subnetA}
			if test.request != nil {
				test.request(&r)
			}
			p := w.plan(r)
			if got := strings.Join(codes(p), " "); got != test.code || test.code != "" && !strings.Contains(p.Mismatches[0].Text(), test.says) || len(p.Warnings) > 0 && r.EFA == "" {
				t.Errorf("%s: %v, %v", got, p.Mismatches, p.Warnings)
			}
			p.Mismatches = nil
			if err := w.setup.Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			launched, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1")
			if err != nil || (launched.NoContact == "") != (test.contact == "") || !strings.Contains(launched.NoContact, test.contact) {
				t.Errorf("%q, %v; want %q", launched.NoContact, err, test.contact)
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

// Termination protection is not copied: nodes could never be ended. Keys of volumes are, and nobody asks KMS.
func TestCopiesOfALaunchTemplate(t *testing.T) {
	w := newAccount(t, func(s *awssim.Scenario) {
		s.Regions[0].LaunchTemplates[0].Protected, s.Regions[0].LaunchTemplates[0].VolumeKey = true, "arn:aws:kms:us-east-2:111122223333:key/1"
	})
	p := w.run(w.request(openBlock))
	if got := strings.Join(p.Warnings, "\n"); !strings.Contains(got, "launch template ml-compute protects instances from termination, which is not copied") || !strings.Contains(got, "aws kms describe-key --region us-east-2 --key-id arn:aws:kms:us-east-2:111122223333:key/1") {
		t.Error(got)
	}
	launched, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1")
	if err == nil {
		err = w.sim.TerminateNode("ml", "gpu-a", "gpu-a-1")
	}
	if err != nil {
		t.Errorf("%+v: %v", launched, err)
	}
}
