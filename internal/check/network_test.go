package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
)

// attached is a node group of PCS whose network is right: by a NAT gateway, with the security group that PCS documents.
func attached() facts.Launch {
	subnet := ec2.Subnet{Subnet: capacity.Subnet{ID: "subnet-1", AZID: "use2-az1"}, VPC: "vpc-1"}
	efa := capacity.Interface{Type: "efa"}

	return facts.Launch{
		Provider: capacity.ProviderPCS,
		Group:    "gpu-a",
		Template: capacity.LaunchTemplate{
			SecurityGroupIDs:  []string{"sg-1"},
			NetworkInterfaces: []capacity.Interface{efa, efa},
		},
		Region:  "us-east-2",
		Nodes:   4,
		Subnets: []ec2.Subnet{subnet},
		Tables:  []ec2.RouteTable{main(ec2.Route{To: "0.0.0.0/0", Via: "nat-1"})},
		Rules:   map[string][]ec2.Rule{},
	}
}

func main(routes ...ec2.Route) ec2.RouteTable {
	return ec2.RouteTable{
		ID:     "rtb-1",
		VPC:    "vpc-1",
		Main:   true,
		Routes: append([]ec2.Route{{To: "10.0.0.0/16", Via: "local"}}, routes...),
	}
}

func TestWayOut(t *testing.T) {
	yes, no := true, false
	forPCS := ec2.Endpoint{ID: "vpce-1", Serves: true}
	isolated := func(endpoints ...ec2.Endpoint) func(*facts.Launch) {
		return func(s *facts.Launch) {
			s.Tables, s.Endpoints = []ec2.RouteTable{main()}, append([]ec2.Endpoint{}, endpoints...)
		}
	}
	by := func(route ec2.Route) func(*facts.Launch) {
		return func(s *facts.Launch) { isolated()(s); s.Tables = []ec2.RouteTable{main(route)} }
	}
	// public is a subnet with a route to an internet gateway, its default, and what the template asks for with n
	// interfaces.
	public := func(n int, subnet bool, asks *bool) func(*facts.Launch) {
		return func(s *facts.Launch) {
			by(ec2.Route{To: "0.0.0.0/0", Via: "igw-1"})(s)
			s.Template.NetworkInterfaces, s.Subnets[0].Public, s.Template.PublicAddress = make(
				[]capacity.Interface,
				n,
			), subnet, asks
		}
	}

	const noAddress = "its route leads to igw-1, and nodes get no public address"
	for name, c := range map[string]struct {
		change func(*facts.Launch)
		says   string // "" if nothing is wrong
	}{
		"NAT":                {func(*facts.Launch) {}, ""},
		"a transit gateway":  {by(ec2.Route{To: "0.0.0.0/0", Via: "tgw-1"}), ""},
		"not read":           {func(s *facts.Launch) { s.Tables = nil }, ""},
		"endpoints not read": {func(s *facts.Launch) { isolated()(s); s.Endpoints = nil }, ""},
		"NAT that is gone": {
			by(ec2.Route{To: "0.0.0.0/0", Via: "nat-1", Blackhole: true}),
			"its route leads to nat-1, which is gone",
		},
		"public, several interfaces":             {public(2, true, nil), noAddress},
		"public, one interface":                  {public(1, false, nil), noAddress},
		"public, one interface, with an address": {public(1, true, nil), ""},
		"public, without interfaces":             {public(0, true, nil), ""},
		"public, but the template asks for none": {public(1, true, &no), noAddress},
		"public, and the template asks for one":  {public(1, false, &yes), ""},
		"IPv6":                                   {by(ec2.Route{To: "::/0", Via: "eigw-1"}), ""},
		"an endpoint":                            {isolated(forPCS), ""},
		"an endpoint that is not ready": {
			isolated(ec2.Endpoint{ID: "vpce-1"}),
			"and endpoint vpce-1 does not serve them; use a subnet with a route to a NAT gateway, or have vpce-1 " +
				"available, with private DNS",
		},
		"self-managed Slurm needs no AWS": {
			func(s *facts.Launch) {
				isolated()(s)

				s.Provider = capacity.ProviderEC2
			},
			"",
		},
		"a table of its own": {func(s *facts.Launch) {
			s.Tables = []ec2.RouteTable{
				main(),
				{
					ID:      "rtb-2",
					VPC:     "vpc-1",
					Subnets: []string{"subnet-1"},
					Routes:  []ec2.Route{{To: "0.0.0.0/0", Via: "nat-1"}},
				},
			}
		}, ""},
		"no route": {
			isolated(),
			"nodes in subnet subnet-1 never reach AWS PCS, so they never register: no route leads out of the VPC, " +
				"and the VPC has no endpoint for it; use a subnet with a route to a NAT gateway, or run `aws ec2 " +
				"create-vpc-endpoint --region us-east-2 --vpc-id vpc-1 --service-name com.amazonaws.us-east-2.pcs " +
				"--vpc-endpoint-type Interface --private-dns-enabled --subnet-ids subnet-1 --security-group-ids sg-1`",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached()
			c.change(&s)

			found := checkRoutes(s)
			if (len(found) == 0) != (c.says == "") || len(found) > 1 ||
				len(found) == 1 && !strings.Contains(found[0].Text(), c.says) {
				t.Errorf("%v, want %q", found, c.says)
			}
		})
	}
}

func TestEFARules(t *testing.T) {
	in, out, byAddress := ec2.Rule{
		All:  true,
		Peer: "sg-1",
	}, ec2.Rule{
		Out:  true,
		All:  true,
		Peer: "sg-1",
	}, ec2.Rule{
		Peer: "sg-1",
	}

	const run = "run `aws ec2 authorize-security-group-%s --region us-east-2 --group-id sg-1 --ip-permissions " +
		"'IpProtocol=-1,UserIdGroupPairs=[{GroupId=sg-1}]'`"
	for name, c := range map[string]struct {
		rules  []ec2.Rule
		change func(*facts.Launch)
		want   []string // in the commands, each in its own
	}{
		"as documented":   {[]ec2.Rule{in, out}, nil, nil},
		"nothing read":    {nil, func(s *facts.Launch) { s.Rules = nil }, nil},
		"groups of names": {nil, func(s *facts.Launch) { s.Template.SecurityGroupIDs = nil }, nil},
		"one of several groups": {
			[]ec2.Rule{in, out},
			func(s *facts.Launch) { s.Template.SecurityGroupIDs, s.Rules["sg-3"] = []string{"sg-3", "sg-1"}, nil },
			nil,
		},
		"nothing in": {[]ec2.Rule{byAddress, out}, nil, []string{fmt.Sprintf(run, "ingress")}},
		"nothing out": {
			[]ec2.Rule{in},
			nil,
			[]string{
				"security group sg-1 lacks a rule that nodes need to connect to each other by EFA: all traffic to " +
					"itself; " + fmt.Sprintf(
					run, "egress"),
			},
		},
		"nothing":  {nil, nil, []string{fmt.Sprintf(run, "egress"), fmt.Sprintf(run, "ingress")}},
		"one node": {nil, func(s *facts.Launch) { s.Nodes = 1 }, nil},
		"no EFA":   {nil, func(s *facts.Launch) { s.Template.NetworkInterfaces = nil }, nil},
		"self-managed Slurm too": {
			[]ec2.Rule{in},
			func(s *facts.Launch) { s.Provider = capacity.ProviderEC2 },
			[]string{"egress"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached()
			s.Rules["sg-1"] = c.rules
			if c.change != nil {
				c.change(&s)
			}

			found := checkEFARules(s)
			if len(found) != len(c.want) {
				t.Fatalf("%v, want %q", found, c.want)
			}

			for i, p := range found {
				if !strings.Contains(p.Text(), c.want[i]) || p.Code != capacity.RuleMissing {
					t.Errorf("%v, want %q", p, c.want[i])
				}
			}
		})
	}
}
