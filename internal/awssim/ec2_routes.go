package awssim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// RouteTableScenario is a route table of a VPC.
type RouteTableScenario struct {
	ID      string          `toml:"id"`
	VPC     string          `toml:"vpc"`
	Main    bool            `toml:"main"`    // for the subnets that no table names
	Subnets []string        `toml:"subnets"` // that it is for
	Routes  []RouteScenario `toml:"route"`   // beside the one inside the VPC
}

// RouteScenario is a route. What it leads to is told by the id: igw-…, nat-…, tgw-…, vgw-…, eni-…, pcx-…, eigw-….
type RouteScenario struct {
	To    string `toml:"to"` // CIDR block, of IPv4 or IPv6, or prefix list
	Via   string `toml:"via"`
	State string `toml:"state"` // active (default), or blackhole: what it leads to is gone
}

// VPCEndpointScenario is a VPC endpoint for a service of AWS.
type VPCEndpointScenario struct {
	ID             string   `toml:"id"`
	VPC            string   `toml:"vpc"`
	Service        string   `toml:"service"`         // such as pcs, ec2, s3, logs
	Type           string   `toml:"type"`            // Interface (default), Gateway
	State          string   `toml:"state"`           // default available
	RouteTables    []string `toml:"route_tables"`    // of a gateway
	Subnets        []string `toml:"subnets"`         // of an interface
	SecurityGroups []string `toml:"security_groups"` // of an interface
}

// buildRoutes gives each VPC its main route table: without one in the scenario, one that leads everywhere.
func (r *region) buildRoutes(rs RegionScenario) error {
	r.routeTables, r.endpoints = slices.Clone(rs.RouteTables), slices.Clone(rs.VPCEndpoints)
	for _, t := range r.routeTables {
		for _, id := range t.Subnets {
			if sn := r.subnet(id); sn == nil || sn.vpc != t.VPC {
				return fmt.Errorf("route table %s: no subnet %q in %s", t.ID, id, t.VPC)
			}
		}
	}
	for _, v := range r.vpcs {
		if !slices.ContainsFunc(r.routeTables, func(t RouteTableScenario) bool { return t.VPC == v.ID && t.Main }) {
			suffix := strings.TrimPrefix(v.ID, "vpc-")
			r.routeTables = append(r.routeTables, RouteTableScenario{ID: "rtb-" + suffix, VPC: v.ID, Main: true, Routes: []RouteScenario{{To: "0.0.0.0/0", Via: "nat-" + suffix}}})
		}
	}
	for i := range r.endpoints {
		e := &r.endpoints[i]
		if r.vpc(e.VPC) == nil {
			return fmt.Errorf("VPC endpoint %s: no vpc %q", e.ID, e.VPC)
		}
		e.Type, e.State = cmp.Or(e.Type, "Interface"), cmp.Or(e.State, "available")
	}
	return nil
}

// routesOf are those of a subnet: of its own table, else of the VPC's main one (Amazon VPC User Guide, "Subnet route
// tables").
func (r *region) routesOf(sn *subnet) RouteTableScenario {
	var main RouteTableScenario
	for _, t := range r.routeTables {
		if slices.Contains(t.Subnets, sn.id) {
			return t
		}
		if t.Main && t.VPC == sn.vpc {
			main = t
		}
	}
	return main
}

// wire is a route as EC2 shows it.
func (route RouteScenario) wire() object {
	w := object{"State": cmp.Or(route.State, "active"), "Origin": "CreateRoute"}
	switch {
	case strings.HasPrefix(route.To, "pl-"):
		w["DestinationPrefixListId"] = route.To
	case strings.Contains(route.To, ":"):
		w["DestinationIpv6CidrBlock"] = route.To
	default:
		w["DestinationCidrBlock"] = route.To
	}
	kind, _, _ := strings.Cut(route.Via, "-")
	member := map[string]string{"nat": "NatGatewayId", "tgw": "TransitGatewayId", "eni": "NetworkInterfaceId", "pcx": "VpcPeeringConnectionId",
		"eigw": "EgressOnlyInternetGatewayId"}[kind]
	w[cmp.Or(member, "GatewayId")] = route.Via // igw, vgw, vpce, local
	return w
}

func (s *Sim) routeTableObjects(c *call) (all []object) {
	for _, t := range c.region.routeTables {
		var associations []object
		add := func(subnet string, main bool) {
			associations = append(associations, object{"RouteTableAssociationId": fmt.Sprintf("rtbassoc-%017x", len(associations)), "RouteTableId": t.ID,
				"SubnetId": subnet, "Main": main, "AssociationState": object{"State": "associated"}})
		}
		if t.Main {
			add("", true)
		}
		for _, id := range t.Subnets {
			add(id, false)
		}
		local := RouteScenario{To: c.region.vpc(t.VPC).CIDR, Via: "local"}.wire()
		local["Origin"] = "CreateRouteTable"
		routes := []object{local}
		for _, route := range t.Routes {
			routes = append(routes, route.wire())
		}
		for _, e := range c.region.endpoints {
			if e.Type == "Gateway" && slices.Contains(e.RouteTables, t.ID) {
				routes = append(routes, RouteScenario{To: "pl-" + e.Service, Via: e.ID}.wire())
			}
		}
		all = append(all, object{"RouteTableId": t.ID, "VpcId": t.VPC, "OwnerId": s.scenario.Account, "Associations": associations, "Routes": routes})
	}
	return all
}

func (s *Sim) endpointObjects(c *call) (all []object) {
	for _, e := range c.region.endpoints {
		all = append(all, object{
			"VpcEndpointId": e.ID, "VpcEndpointType": e.Type, "VpcId": e.VPC, "ServiceName": "com.amazonaws." + c.Region + "." + e.Service,
			"State": e.State, "PrivateDnsEnabled": e.Type == "Interface", "RouteTableIds": e.RouteTables, "SubnetIds": e.Subnets,
			"Groups": c.region.groupObjects(e.SecurityGroups), "OwnerId": s.scenario.Account,
		})
	}
	return all
}
