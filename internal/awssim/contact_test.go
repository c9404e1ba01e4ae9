package awssim

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Nodes of PCS come up where they reach PCS and slurmctld; EC2 launches them in any case.
func TestNoContact(t *testing.T) {
	const subnet, group = "subnet-0e200000000000a01", "sg-0e2000000000000a1"
	main := func(routes ...RouteScenario) func(*Scenario) {
		return func(s *Scenario) {
			r := &s.Regions[0]
			r.RouteTables = append(r.RouteTables, RouteTableScenario{ID: "rtb-0e2000000000000a1", VPC: r.VPCs[0].ID, Main: true, Routes: routes})
		}
	}
	endpoint := func(e VPCEndpointScenario) func(*Scenario) {
		return func(s *Scenario) {
			r := &s.Regions[0]
			e.ID, e.VPC = "vpce-0e200000000000001", r.VPCs[0].ID
			if e.Service == "" {
				e.Service = "pcs"
			}
			if e.SecurityGroups == nil {
				e.SecurityGroups = []string{group}
			}
			r.VPCEndpoints = append(r.VPCEndpoints, e)
		}
	}
	rules := func(rules ...RuleScenario) func(*Scenario) {
		return func(s *Scenario) { s.Regions[0].SecurityGroups[0].Rules = rules }
	}
	igw, nat, gone := RouteScenario{To: "0.0.0.0/0", Via: "igw-1"}, RouteScenario{To: "0.0.0.0/0", Via: "nat-1"}, RouteScenario{To: "0.0.0.0/0", Via: "nat-1", State: "blackhole"}
	all := RuleScenario{Out: true, Peer: "0.0.0.0/0"}
	port := func(n int, peer string) RuleScenario {
		return RuleScenario{Protocol: "tcp", From: n, To: n, Peer: peer}
	}
	for name, test := range map[string]struct {
		world []func(*Scenario)
		want  string
	}{
		"as a VPC is made":              {nil, ""},
		"NAT":                           {[]func(*Scenario){main(nat)}, ""},
		"NAT that is gone":              {[]func(*Scenario){main(gone)}, "has no route"},
		"public subnet":                 {[]func(*Scenario){main(igw)}, "no public address"},
		"public subnet, with addresses": {[]func(*Scenario){main(igw), func(s *Scenario) { s.Regions[0].Subnets[0].PublicAddresses = true }}, ""},
		"no route":                      {[]func(*Scenario){main()}, "has no route"},
		"a table of its own": {[]func(*Scenario){main(), func(s *Scenario) {
			r := &s.Regions[0]
			r.RouteTables = append(r.RouteTables, RouteTableScenario{ID: "rtb-0e2000000000000a2", VPC: r.VPCs[0].ID, Subnets: []string{subnet}, Routes: []RouteScenario{nat}})
		}}, ""},
		"an endpoint":                         {[]func(*Scenario){main(), endpoint(VPCEndpointScenario{})}, ""},
		"an endpoint of another service":      {[]func(*Scenario){main(), endpoint(VPCEndpointScenario{Service: "ec2"})}, "no endpoint for pcs"},
		"an endpoint under a name of its own": {[]func(*Scenario){main(), endpoint(VPCEndpointScenario{OwnName: true})}, "no endpoint for pcs"},
		"an endpoint that is not ready":       {[]func(*Scenario){main(), endpoint(VPCEndpointScenario{State: "pending"})}, "no endpoint for pcs"},
		"a group that lets nothing in":        {[]func(*Scenario){rules(all)}, "connect to slurmctld"},
		"slurmctld alone":                     {[]func(*Scenario){rules(all, port(6817, "self"))}, "connect to slurmd,"},
		"the ports":                           {[]func(*Scenario){rules(all, port(6817, "10.2.0.0/16"), port(6818, "self"))}, ""},
		"nothing out":                         {[]func(*Scenario){rules(RuleScenario{Peer: "self"})}, "connect to slurmctld"},
		"a role that may not": {[]func(*Scenario){func(s *Scenario) {
			s.InstanceProfiles = []InstanceProfileScenario{{Name: "AWSPCS-nodes", Role: "AWSPCS-nodes", CannotRegister: true}}
		}}, "AccessDeniedException"},
	} {
		t.Run(name, func(t *testing.T) {
			sc := DefaultScenario()
			for _, change := range test.world {
				change(sc)
			}
			sim, err := New(sc, NewClock(noon, 0))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { sim.Close() })
			launched, err := sim.LaunchForNodeGroup("ml", "compute", "compute-1")
			if err != nil || (launched.NoContact == "") != (test.want == "") || !strings.Contains(launched.NoContact, test.want) {
				t.Errorf("%q, %v; want %q", launched.NoContact, err, test.want)
			}
		})
	}
}

// AWS's model has the states of an endpoint in capitals, and its answers have them in small letters: every other test
// has these.
func TestDescribeRoutesAndRules(t *testing.T) {
	_, endpoint := wireSim(t, `
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }]
vpc = [{ id = "vpc-1", cidr = "10.0.0.0/16" }, { id = "vpc-2", cidr = "10.1.0.0/16" }]
subnet = [{ id = "subnet-1", vpc = "vpc-1", zone = "us-east-2a", cidr = "10.0.1.0/24", public_addresses = true }]
security_group = [{ id = "sg-1", name = "nodes", vpc = "vpc-1", rule = [{ peer = "self" }, { protocol = "tcp", from = 22, to = 22, peer = "::/0" }, { out = true, peer = "pl-1" }, { out = true, peer = "10.0.0.0/8" }] }]
vpc_endpoint = [{ id = "vpce-1", vpc = "vpc-1", service = "pcs", state = "Available", subnets = ["subnet-1"], security_groups = ["sg-1"] }, { id = "vpce-2", vpc = "vpc-1", service = "s3", type = "Gateway", state = "Available", route_tables = ["rtb-1"] }]
[[region.route_table]]
id = "rtb-1"
vpc = "vpc-1"
subnets = ["subnet-1"]
route = [{ to = "0.0.0.0/0", via = "igw-1" }, { to = "::/0", via = "eigw-1" }, { to = "10.8.0.0/16", via = "tgw-1", state = "blackhole" }]
`)
	c := ec2Client(endpoint)
	ofVPC := []types.Filter{{Name: aws.String("vpc-id"), Values: []string{"vpc-1"}}}
	tables, err := c.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{Filters: ofVPC})
	if err != nil || len(tables.RouteTables) != 2 {
		t.Fatalf("%+v, %v", tables, err)
	}
	var via []string
	for _, route := range tables.RouteTables[0].Routes {
		via = append(via, aws.ToString(route.GatewayId)+aws.ToString(route.EgressOnlyInternetGatewayId)+aws.ToString(route.TransitGatewayId)+" "+string(route.State))
	}
	if want := []string{"local active", "igw-1 active", "eigw-1 active", "tgw-1 blackhole", "vpce-2 active"}; !slices.Equal(via, want) {
		t.Errorf("%q", via)
	}
	if main := tables.RouteTables[1].Associations; len(main) != 1 || !aws.ToBool(main[0].Main) {
		t.Errorf("%+v", main)
	}
	endpoints, err := c.DescribeVpcEndpoints(t.Context(), &ec2.DescribeVpcEndpointsInput{Filters: ofVPC})
	if err != nil || len(endpoints.VpcEndpoints) != 2 || aws.ToString(endpoints.VpcEndpoints[0].ServiceName) != "com.amazonaws.us-east-2.pcs" || !aws.ToBool(endpoints.VpcEndpoints[0].PrivateDnsEnabled) {
		t.Errorf("%+v, %v", endpoints, err)
	}
	groups, err := c.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-1"}})
	if err != nil {
		t.Fatal(err)
	}
	g := groups.SecurityGroups[0]
	if len(g.IpPermissions) != 2 || aws.ToString(g.IpPermissions[0].UserIdGroupPairs[0].GroupId) != "sg-1" || aws.ToString(g.IpPermissions[1].Ipv6Ranges[0].CidrIpv6) != "::/0" ||
		len(g.IpPermissionsEgress) != 2 || aws.ToString(g.IpPermissionsEgress[0].PrefixListIds[0].PrefixListId) != "pl-1" {
		t.Errorf("%+v", g)
	}
	subnets, err := c.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil || !aws.ToBool(subnets.Subnets[0].MapPublicIpOnLaunch) {
		t.Errorf("%+v, %v", subnets, err)
	}
}

// EC2 looks the instance profile up at the launch, and keeps a protected instance.
func TestProfilesAndProtection(t *testing.T) {
	sc := DefaultScenario()
	sc.InstanceProfiles = []InstanceProfileScenario{{Name: "nodes", Role: "nodes"}, {Name: "empty"}}
	sim, err := New(sc, NewClock(noon, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	endpoint, err := sim.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := ec2Client(endpoint)
	launch := func(p types.IamInstanceProfileSpecification) (*ec2.RunInstancesOutput, error) {
		return c.RunInstances(t.Context(), &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: aws.String("ami-0e200000000000a01"),
			InstanceType: "c7i.4xlarge", SubnetId: aws.String("subnet-0e200000000000a01"), IamInstanceProfile: &p, DisableApiTermination: aws.Bool(true)})
	}
	const arn = "arn:aws:iam::111122223333:instance-profile/"
	for want, p := range map[string]types.IamInstanceProfileSpecification{
		"Value (nope) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name":          {Name: aws.String("nope")},
		"Value (" + arn + "nope) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN": {Arn: aws.String(arn + "nope")},
		`IAM Instance Profile "` + arn + `empty" has no associated IAM Roles`:                                       {Name: aws.String("empty")},
	} {
		if _, err := launch(p); err == nil || !strings.Contains(err.Error(), "InvalidParameterValue: "+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	out, err := launch(types.IamInstanceProfileSpecification{Name: aws.String("nodes")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{*out.Instances[0].InstanceId}})
	if err == nil || !strings.Contains(err.Error(), "OperationNotPermitted") {
		t.Error(err)
	}
}
