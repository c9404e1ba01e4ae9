package site

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// attached is a node group of PCS whose network is right: by a NAT gateway, with the security group that PCS documents.
func attached() Launch {
	subnet := ec2.Subnet{Subnet: capacity.Subnet{ID: "subnet-1", AZID: "use2-az1"}, VPC: "vpc-1"}
	efa := capacity.Interface{Type: "efa"}
	return Launch{Provider: capacity.ProviderPCS,
		Group: "gpu-a", Source: "ml-compute", Template: capacity.LaunchTemplate{SecurityGroupIDs: []string{"sg-1"},
			NetworkInterfaces: []capacity.Interface{efa, efa}}, Network: Network{Region: "us-east-2", Nodes: 4,
			Subnets: []ec2.Subnet{subnet}, Tables: []ec2.RouteTable{main(ec2.Route{To: "0.0.0.0/0", Via: "nat-1"})},
			Groups:        map[string]ec2.SecurityGroup{"sg-1": {ID: "sg-1", VPC: "vpc-1", Rules: documented("sg-1")}},
			ClusterGroups: []string{"sg-1"}}}
}

func main(routes ...ec2.Route) ec2.RouteTable {
	return ec2.RouteTable{ID: "rtb-1", VPC: "vpc-1", Main: true, Routes: append([]ec2.Route{{To: "10.0.0.0/16", Via: "local"}}, routes...)}
}

func documented(group string) []ec2.Rule {
	return []ec2.Rule{{Protocol: "-1", To: 65535, Peer: group}, {Out: true, Protocol: "-1", To: 65535, Peer: "0.0.0.0/0"}, {Out: true, Protocol: "-1", To: 65535, Peer: group}}
}

func tcp(out bool, from, to int, peer string) ec2.Rule {
	return ec2.Rule{Out: out, Protocol: "tcp", From: from, To: to, Peer: peer}
}

func TestWayOut(t *testing.T) {
	yes, no := true, false
	forPCS := ec2.Endpoint{ID: "vpce-1", Service: "pcs", Available: true, UsualName: true}
	s3 := ec2.Endpoint{ID: "vpce-2", Service: "s3", Gateway: true, Available: true, RouteTables: []string{"rtb-1"}}
	isolated := func(endpoints ...ec2.Endpoint) func(*Launch) {
		return func(s *Launch) {
			s.Network.Tables, s.Network.Endpoints = []ec2.RouteTable{main()}, append([]ec2.Endpoint{}, endpoints...)
		}
	}
	by := func(route ec2.Route) func(*Launch) {
		return func(s *Launch) { isolated()(s); s.Network.Tables = []ec2.RouteTable{main(route)} }
	}
	// public is a subnet with a route to an internet gateway, its default, and what the template asks for with n interfaces.
	public := func(n int, subnet bool, asks *bool) func(*Launch) {
		return func(s *Launch) {
			by(ec2.Route{To: "0.0.0.0/0", Via: "igw-1"})(s)
			s.Template.NetworkInterfaces, s.Network.Subnets[0].Public, s.Template.PublicAddress = make([]capacity.Interface, n), subnet, asks
		}
	}
	fromS3 := func(endpoints ...ec2.Endpoint) func(*Launch) {
		return func(s *Launch) {
			isolated(endpoints...)(s)
			s.Template.UserData = []byte("FROM=${1:-'s3://b/p.deb'}\n")
		}
	}
	script := func(from string) func(*Launch) {
		return func(s *Launch) {
			isolated(forPCS)(s)
			s.Actions = pcs.LifecycleActions(`{"stages":{"nodeReady":[{"name":"mount","scriptSource":{"scriptLocation":"` + from + `"}}]}}`)
		}
	}
	with := func(e ec2.Endpoint, change func(*ec2.Endpoint)) ec2.Endpoint { change(&e); return e }
	const noAddress = "its route leads to igw-1, and nodes get no public address"
	for name, c := range map[string]struct {
		change func(*Launch)
		says   string // "" if nothing is wrong
	}{
		"NAT":                                    {func(*Launch) {}, ""},
		"a transit gateway":                      {by(ec2.Route{To: "0.0.0.0/0", Via: "tgw-1"}), ""},
		"not read":                               {func(s *Launch) { s.Network.Tables = nil }, ""},
		"endpoints not read":                     {func(s *Launch) { isolated()(s); s.Network.Endpoints = nil }, ""},
		"NAT that is gone":                       {by(ec2.Route{To: "0.0.0.0/0", Via: "nat-1", Gone: true}), "its route leads to nat-1, which is gone"},
		"public, several interfaces":             {public(2, true, nil), noAddress},
		"public, one interface":                  {public(1, false, nil), noAddress},
		"public, one interface, with an address": {public(1, true, nil), ""},
		"public, without interfaces":             {public(0, true, nil), ""},
		"public, but the template asks for none": {public(1, true, &no), noAddress},
		"public, and the template asks for one":  {public(1, false, &yes), ""},
		"IPv6":                                   {by(ec2.Route{To: "::/0", Via: "eigw-1"}), ""},
		"an endpoint":                            {isolated(forPCS), ""},
		"an endpoint under a name of its own":    {isolated(with(forPCS, func(e *ec2.Endpoint) { e.UsualName = false })), "or have vpce-1 available, with private DNS"},
		"an endpoint that is not ready":          {isolated(with(forPCS, func(e *ec2.Endpoint) { e.Available = false })), "and endpoint vpce-1 does not serve them; use a subnet with a route to a NAT gateway, or have vpce-1 available"},
		"a script from S3":                       {script("s3://b/mount.sh"), "so they cannot fetch the package or their scripts from there: no route"},
		"a script from elsewhere":                {script("https://example.com/mount.sh"), ""},
		"the package from S3, by its gateway":    {fromS3(forPCS, s3), ""},
		"S3's gateway for another table":         {fromS3(forPCS, with(s3, func(e *ec2.Endpoint) { e.RouteTables = nil })), "or a gateway with route table rtb-1"},
		"self-managed Slurm needs no AWS":        {func(s *Launch) { isolated()(s); s.Provider = capacity.ProviderEC2 }, ""},
		"a table of its own": {func(s *Launch) {
			s.Network.Tables = []ec2.RouteTable{main(), {ID: "rtb-2", VPC: "vpc-1", Subnets: []string{"subnet-1"}, Routes: []ec2.Route{{To: "0.0.0.0/0", Via: "nat-1"}}}}
		}, ""},
		"no route":            {isolated(), "nodes in subnet subnet-1 never reach AWS PCS, so they never register: no route leads out of the VPC, and the VPC has no endpoint for it; use a subnet with a route to a NAT gateway, or run `aws ec2 create-vpc-endpoint --region us-east-2 --vpc-id vpc-1 --service-name com.amazonaws.us-east-2.pcs --vpc-endpoint-type Interface --private-dns-enabled --subnet-ids subnet-1 --security-group-ids sg-1`"},
		"the package from S3": {fromS3(forPCS), "so they cannot fetch the package or their scripts from there: no route leads out of the VPC, and the VPC has no endpoint for it; use a subnet with a route to a NAT gateway, or run `aws ec2 create-vpc-endpoint --region us-east-2 --vpc-id vpc-1 --service-name com.amazonaws.us-east-2.s3 --route-table-ids rtb-1`"},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached()
			c.change(&s)
			found := wayOut(s)
			if (len(found) == 0) != (c.says == "") || len(found) > 1 || len(found) == 1 && !strings.Contains(found[0].Text(), c.says) {
				t.Errorf("%v, want %q", found, c.says)
			}
		})
	}
}

func TestMissingRules(t *testing.T) {
	rules := func(s *Launch, rules ...ec2.Rule) {
		s.Network.Groups["sg-1"] = ec2.SecurityGroup{ID: "sg-1", VPC: "vpc-1", Rules: rules}
	}
	everything := ec2.Rule{Out: true, Protocol: "-1", To: 65535, Peer: "0.0.0.0/0"}
	plain := func(s *Launch) { s.Template.NetworkInterfaces = nil }
	apart := func(s *Launch, nodes, cluster []ec2.Rule) {
		plain(s)
		rules(s, nodes...)
		s.Network.ClusterGroups, s.Network.Groups["sg-2"] = []string{"sg-2"}, ec2.SecurityGroup{ID: "sg-2", VPC: "vpc-1", Rules: cluster}
	}
	const in, out = "aws ec2 authorize-security-group-ingress --region us-east-2 --group-id ", "aws ec2 authorize-security-group-egress --region us-east-2 --group-id "
	for name, c := range map[string]struct {
		change func(*Launch)
		want   []string // in the commands, each in its own
	}{
		"as documented":   {func(*Launch) {}, nil},
		"nothing read":    {func(s *Launch) { s.Network.Groups = nil }, nil},
		"groups of names": {func(s *Launch) { s.Template.SecurityGroupIDs = nil }, nil},
		"a prefix list":   {func(s *Launch) { plain(s); rules(s, tcp(false, 0, 65535, "pl-1"), everything) }, nil},
		"one of several groups": {func(s *Launch) {
			s.Template.SecurityGroupIDs = []string{"sg-3", "sg-1"}
			s.Network.Groups["sg-3"] = ec2.SecurityGroup{ID: "sg-3", VPC: "vpc-1"}
		}, nil},
		"EFA with nothing in": {func(s *Launch) {
			rules(s, tcp(false, 0, 65535, "10.0.0.0/16"), everything, ec2.Rule{Out: true, Protocol: "-1", Peer: "sg-1"})
		}, []string{in + "sg-1 --ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{GroupId=sg-1}]'"}},
		"EFA with everything out, by address": {func(s *Launch) { rules(s, documented("sg-1")[:2]...) },
			[]string{"security group sg-1 has no rule by which nodes connect to each other by EFA: all traffic to itself; run `" + out + "sg-1 --ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{GroupId=sg-1}]'"}},
		"EFA of one node":         {func(s *Launch) { s.Network.Nodes = 1; rules(s, documented("sg-1")[:2]...) }, nil},
		"without EFA, by address": {func(s *Launch) { plain(s); rules(s, tcp(false, 0, 65535, "10.0.0.0/16"), everything) }, nil},
		"Slurm's ports alone": {func(s *Launch) {
			plain(s)
			rules(s, tcp(false, 6817, 6818, "sg-1"), tcp(false, 60001, 63000, "10.0.1.0/24"), everything)
		}, nil},
		"part of srun's ports": {func(s *Launch) {
			plain(s)
			rules(s, tcp(false, 6817, 6818, "sg-1"), tcp(false, 60001, 62000, "sg-1"), everything)
		},
			[]string{in + "sg-1 --ip-permissions 'IpProtocol=tcp,FromPort=60001,ToPort=63000,UserIdGroupPairs=[{GroupId=sg-1}]'"}},
		"addresses count as open": {func(s *Launch) {
			plain(s)
			s.Network.Nodes = 1
			rules(s, tcp(false, 6817, 6818, "10.0.1.0/25"), everything)
		}, nil},
		"UDP": {func(s *Launch) {
			plain(s)
			s.Network.Nodes = 1
			rules(s, ec2.Rule{Protocol: "udp", To: 65535, Peer: "sg-1"}, everything)
		}, []string{"6817", "6818"}},
		"two groups apart": {func(s *Launch) {
			apart(s, documented("sg-1"), documented("sg-2"))
		}, []string{in + "sg-2 --ip-permissions 'IpProtocol=tcp,FromPort=6817,ToPort=6817,UserIdGroupPairs=[{GroupId=sg-1}]'", in + "sg-1 --ip-permissions 'IpProtocol=tcp,FromPort=6818,ToPort=6818,UserIdGroupPairs=[{GroupId=sg-2}]'"}},
		"two groups, nothing out": {func(s *Launch) {
			apart(s, append(documented("sg-1")[:1:1], ec2.Rule{Protocol: "-1", Peer: "sg-2"}, ec2.Rule{Out: true, Protocol: "-1", To: 65535, Peer: "sg-1"}), []ec2.Rule{{Protocol: "-1", Peer: "sg-1"}})
		}, []string{out + "sg-1 --ip-permissions 'IpProtocol=tcp,FromPort=6817,ToPort=6817,UserIdGroupPairs=[{GroupId=sg-2}]'", out + "sg-2"}},
		"two groups that know each other": {func(s *Launch) {
			apart(s, append(documented("sg-1"), tcp(false, 6818, 6818, "sg-2")), append(documented("sg-2"), tcp(false, 6817, 6817, "sg-1")))
		}, nil},
		"a cluster's group that is not known": {func(s *Launch) {
			s.Network.ClusterGroups = []string{"sg-9"}
			s.Network.Groups["sg-1"] = ec2.SecurityGroup{ID: "sg-1", VPC: "vpc-1", Rules: append(documented("sg-1"), tcp(false, 6818, 6818, "10.0.0.0/8"))}
		}, nil},
		"an endpoint that lets nobody in": {func(s *Launch) {
			s.Network.Tables, s.Network.Endpoints = []ec2.RouteTable{main()}, []ec2.Endpoint{{ID: "vpce-1", Service: "pcs", Available: true, UsualName: true, SecurityGroups: []string{"sg-4"}}}
			s.Network.Groups["sg-4"] = ec2.SecurityGroup{ID: "sg-4", VPC: "vpc-1"}
		}, []string{in + "sg-4 --ip-permissions 'IpProtocol=tcp,FromPort=443,ToPort=443,UserIdGroupPairs=[{GroupId=sg-1}]'"}},
		"self-managed Slurm": {func(s *Launch) { s.Provider, s.Network.ClusterGroups = capacity.ProviderEC2, nil; plain(s) }, nil},
		"self-managed Slurm, closed": {func(s *Launch) {
			s.Provider, s.Network.ClusterGroups, s.Network.Nodes = capacity.ProviderEC2, nil, 1
			plain(s)
			rules(s, tcp(false, 22, 22, "0.0.0.0/0"), everything)
		}, []string{in + "sg-1 --ip-permissions 'IpProtocol=tcp,FromPort=6818,ToPort=6818,IpRanges=[{CidrIp=ADDRESS/32}]'"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := attached()
			c.change(&s)
			found := missingRules(s)
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

func TestProfile(t *testing.T) {
	taken := pcs.Role{Path: "/", Name: "AWSPCS-nodes", ARN: "arn:aws:iam::111122223333:role/AWSPCS-nodes"}
	const arn = "arn:aws-cn:iam::111122223333:instance-profile/x"
	for name, c := range map[string]struct {
		profile Profile
		says    string
	}{
		"not asked":       {Profile{}, ""},
		"right":           {Profile{Role: taken}, ""},
		"none":            {Profile{Missing: true}, "IAM has no instance profile " + arn},
		"without a role":  {Profile{NoRole: true}, "has no role; give an instance profile whose role has a name that begins with AWSPCS"},
		"another name":    {Profile{Role: pcs.Role{Path: "/", Name: "head"}}, "PCS does not take role /head"},
		"cannot register": {Profile{Role: taken, CannotRegister: true}, "`aws iam attach-role-policy --role-name AWSPCS-nodes --policy-arn arn:aws-cn:iam::aws:policy/AWSPCSComputeNodePolicy`"},
	} {
		t.Run(name, func(t *testing.T) {
			found := profile(Launch{Profile: c.profile, Template: capacity.LaunchTemplate{InstanceProfile: arn}})
			if (len(found) == 0) != (c.says == "") || len(found) > 0 && !strings.Contains(found[0].Text(), c.says) {
				t.Errorf("%v, want %q", found, c.says)
			}
		})
	}
}
