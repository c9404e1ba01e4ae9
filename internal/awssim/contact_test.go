package awssim

import (
	"strings"
	"testing"
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
