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
	ID      string `toml:"id"`
	VPC     string `toml:"vpc"`
	Service string `toml:"service"` // such as pcs, ec2, s3, logs
	Type    string `toml:"type"`    // Interface (default), Gateway
	State   string `toml:"state"`   // default available
	// OwnName: private DNS is off, so the service's usual name does not lead to the endpoint.
	OwnName        bool     `toml:"own_name"`
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

type describeRouteTablesInput struct {
	IDs     []string `form:"RouteTableId"`
	Filters []filter `form:"Filter"`
	paging
}

type wireRouteTable struct {
	ID           string            `xml:"routeTableId"`
	VPC          string            `xml:"vpcId"`
	Owner        string            `xml:"ownerId"`
	Associations []wireAssociation `xml:"associationSet>item"`
	Routes       []wireRoute       `xml:"routeSet>item"`
	Propagating  []struct{}        `xml:"propagatingVgwSet>item"`
	Tags         []tag             `xml:"tagSet>item"`
}

type wireAssociation struct {
	ID     string `xml:"routeTableAssociationId"`
	Table  string `xml:"routeTableId"`
	Subnet string `xml:"subnetId,omitempty"`
	Main   bool   `xml:"main"`
	State  string `xml:"associationState>state"`
}

type wireRoute struct {
	IPv4       string `xml:"destinationCidrBlock,omitempty"`
	IPv6       string `xml:"destinationIpv6CidrBlock,omitempty"`
	PrefixList string `xml:"destinationPrefixListId,omitempty"`
	Gateway    string `xml:"gatewayId,omitempty"`
	NAT        string `xml:"natGatewayId,omitempty"`
	Transit    string `xml:"transitGatewayId,omitempty"`
	Interface  string `xml:"networkInterfaceId,omitempty"`
	Peering    string `xml:"vpcPeeringConnectionId,omitempty"`
	Egress     string `xml:"egressOnlyInternetGatewayId,omitempty"`
	State      string `xml:"state"`
	Origin     string `xml:"origin"`
}

func (route RouteScenario) wire() wireRoute {
	w := wireRoute{State: cmp.Or(route.State, "active"), Origin: "CreateRoute"}
	switch {
	case strings.HasPrefix(route.To, "pl-"):
		w.PrefixList = route.To
	case strings.Contains(route.To, ":"):
		w.IPv6 = route.To
	default:
		w.IPv4 = route.To
	}
	kind, _, _ := strings.Cut(route.Via, "-")
	switch kind {
	case "nat":
		w.NAT = route.Via
	case "tgw":
		w.Transit = route.Via
	case "eni":
		w.Interface = route.Via
	case "pcx":
		w.Peering = route.Via
	case "eigw":
		w.Egress = route.Via
	default: // igw, vgw, vpce, local
		w.Gateway = route.Via
	}
	return w
}

func (s *Sim) describeRouteTables(c *call, in *describeRouteTablesInput) (any, error) {
	items, err := byID(c.region.routeTables, in.IDs, func(t RouteTableScenario) string { return t.ID }, func(id string) error {
		return apiErrorf("InvalidRouteTableID.NotFound", "The routeTable ID '%s' does not exist", id)
	})
	if err != nil {
		return nil, err
	}
	names := filterNames[RouteTableScenario]{values: map[string]func(RouteTableScenario) []string{
		"vpc-id":                one(func(t RouteTableScenario) string { return t.VPC }),
		"route-table-id":        one(func(t RouteTableScenario) string { return t.ID }),
		"association.main":      one(func(t RouteTableScenario) string { return fmt.Sprint(t.Main) }),
		"association.subnet-id": func(t RouteTableScenario) []string { return t.Subnets },
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 100, len(in.IDs) > 0, items)
	out := struct {
		Tables []wireRouteTable `xml:"routeTableSet>item"`
		Next   string           `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, t := range part {
		w := wireRouteTable{ID: t.ID, VPC: t.VPC, Owner: s.scenario.Account}
		add := func(subnet string, main bool) {
			w.Associations = append(w.Associations, wireAssociation{fmt.Sprintf("rtbassoc-%017x", len(w.Associations)), t.ID, subnet, main, "associated"})
		}
		if t.Main {
			add("", true)
		}
		for _, id := range t.Subnets {
			add(id, false)
		}
		local := RouteScenario{To: c.region.vpc(t.VPC).CIDR, Via: "local"}.wire()
		local.Origin = "CreateRouteTable"
		w.Routes = []wireRoute{local}
		for _, route := range t.Routes {
			w.Routes = append(w.Routes, route.wire())
		}
		for _, e := range c.region.endpoints {
			if e.Type == "Gateway" && slices.Contains(e.RouteTables, t.ID) {
				w.Routes = append(w.Routes, RouteScenario{To: "pl-" + e.Service, Via: e.ID}.wire())
			}
		}
		out.Tables = append(out.Tables, w)
	}
	return out, err
}

type describeVPCEndpointsInput struct {
	IDs     []string `form:"VpcEndpointId"`
	Filters []filter `form:"Filter"`
	paging
}

type wireVPCEndpoint struct {
	ID          string         `xml:"vpcEndpointId"`
	Type        string         `xml:"vpcEndpointType"`
	VPC         string         `xml:"vpcId"`
	Service     string         `xml:"serviceName"`
	State       string         `xml:"state"`
	PrivateDNS  bool           `xml:"privateDnsEnabled"`
	RouteTables []string       `xml:"routeTableIdSet>item"`
	Subnets     []string       `xml:"subnetIdSet>item"`
	Groups      []wireGroupRef `xml:"groupSet>item"`
	Owner       string         `xml:"ownerId"`
}

func (s *Sim) describeVPCEndpoints(c *call, in *describeVPCEndpointsInput) (any, error) {
	items, err := byID(c.region.endpoints, in.IDs, func(e VPCEndpointScenario) string { return e.ID }, func(id string) error {
		return apiErrorf("InvalidVpcEndpointId.NotFound", "The Vpc Endpoint Id '%s' does not exist", id)
	})
	if err != nil {
		return nil, err
	}
	service := func(e VPCEndpointScenario) string { return "com.amazonaws." + c.Region + "." + e.Service }
	names := filterNames[VPCEndpointScenario]{values: map[string]func(VPCEndpointScenario) []string{
		"vpc-id":             one(func(e VPCEndpointScenario) string { return e.VPC }),
		"vpc-endpoint-id":    one(func(e VPCEndpointScenario) string { return e.ID }),
		"vpc-endpoint-type":  one(func(e VPCEndpointScenario) string { return e.Type }),
		"vpc-endpoint-state": one(func(e VPCEndpointScenario) string { return e.State }),
		"service-name":       one(service),
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, 1000, len(in.IDs) > 0, items)
	out := struct {
		Endpoints []wireVPCEndpoint `xml:"vpcEndpointSet>item"`
		Next      string            `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, e := range part {
		w := wireVPCEndpoint{e.ID, e.Type, e.VPC, service(e), e.State, e.Type == "Interface" && !e.OwnName, e.RouteTables, e.Subnets, nil, s.scenario.Account}
		for _, id := range e.SecurityGroups {
			if g := c.region.group(id); g != nil {
				w.Groups = append(w.Groups, wireGroupRef{g.ID, g.Name})
			}
		}
		out.Endpoints = append(out.Endpoints, w)
	}
	return out, err
}
