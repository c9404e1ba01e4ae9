package awssim

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func (s *Sim) regionObjects(c *call) (all []object) {
	for _, name := range s.order {
		if r := s.regions[name]; r.optIn != "not-opted-in" || c.in["AllRegions"] == true {
			all = append(all, object{"RegionName": name, "Endpoint": "ec2." + name + "." + capacity.AWSPartitionOf(name).Domain, "OptInStatus": r.optIn})
		}
	}
	return all
}

func (s *Sim) zoneObjects(c *call) (all []object) {
	for _, z := range c.region.zones {
		if z.optIn != "not-opted-in" || c.in["AllAvailabilityZones"] == true {
			all = append(all, object{"State": "available", "OptInStatus": z.optIn, "RegionName": c.Region, "ZoneName": z.name, "ZoneId": z.id,
				"GroupName": c.Region, "NetworkBorderGroup": c.Region, "ZoneType": z.kind})
		}
	}
	return all
}

func (s *Sim) subnetObjects(c *call) (all []object) {
	for _, sn := range c.region.subnets {
		all = append(all, object{"SubnetId": sn.id, "SubnetArn": s.arn("ec2", c.Region, "subnet/"+sn.id), "VpcId": sn.vpc,
			"State": "available", "CidrBlock": sn.prefix.String(), "AvailableIpAddressCount": c.region.freeAddresses(sn),
			"AvailabilityZone": sn.zone.name, "AvailabilityZoneId": sn.zone.id, "DefaultForAz": false,
			"MapPublicIpOnLaunch": sn.public, "OwnerId": s.scenario.Account, "Tags": c.region.fixedTags[sn.id]})
	}
	return all
}

func subnetNotFound(id string) error {
	return apiErrorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}

// reservedAddresses are the first four of a subnet and its last: EC2 keeps them (VPC User Guide, subnet sizing).
const reservedAddresses = 5

func (r *region) freeAddresses(sn *subnet) int {
	return int(math.Pow(2, float64(32-sn.prefix.Bits()))) - reservedAddresses - len(r.usedAddresses(sn))
}

func (r *region) usedAddresses(sn *subnet) map[string]bool {
	used := map[string]bool{}
	for _, i := range r.instances {
		for _, n := range i.interfaces {
			if n.subnet == sn && n.address != "" && i.State != stateTerminated {
				used[n.address] = true
			}
		}
	}
	return used
}

// takeAddresses finds the n lowest free addresses of a subnet.
func (r *region) takeAddresses(sn *subnet, n int) ([]string, error) {
	if r.freeAddresses(sn) < n {
		return nil, apiErrorf("InsufficientFreeAddressesInSubnet",
			"There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", sn.id)
	}
	used := r.usedAddresses(sn)
	ip := sn.prefix.Addr()
	for range reservedAddresses - 1 {
		ip = ip.Next()
	}
	var out []string
	for ; len(out) < n; ip = ip.Next() {
		if !used[ip.String()] {
			out = append(out, ip.String())
		}
	}
	return out, nil
}

// checkAddress tells whether an instance may have the address that a request asked for.
func (r *region) checkAddress(sn *subnet, address string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil || !sn.prefix.Contains(ip) {
		return apiErrorf("InvalidParameterValue", "Address %s does not fall within the subnet's address range", address)
	}
	if r.usedAddresses(sn)[ip.String()] {
		return apiErrorf("InvalidIPAddress.InUse", "Address %s is in use.", address)
	}
	return nil
}

func (s *Sim) securityGroupObjects(c *call) (all []object) {
	for _, g := range c.region.groups {
		all = append(all, object{"GroupId": g.ID, "GroupName": g.Name, "Description": g.Name, "VpcId": g.VPC, "OwnerId": s.scenario.Account,
			"Tags": c.region.fixedTags[g.ID], "IpPermissions": s.permissions(g, false), "IpPermissionsEgress": s.permissions(g, true)})
	}
	return all
}

func groupNotFound(id string) error {
	if !wellFormed(id, "sg") {
		return apiErrorf("InvalidGroupId.Malformed", "Invalid id: \"%s\" (expecting \"sg-...\")", id)
	}
	return apiErrorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
}

// byID keeps the named items, in the order of items; without names it keeps all. One unknown name
// fails the whole call, as in EC2.
func byID[T any](items []T, ids []string, id func(T) string, notFound func(string) error) ([]T, error) {
	if len(ids) == 0 {
		return items, nil
	}
	var kept []T
	for _, item := range items {
		if slices.Contains(ids, id(item)) {
			kept = append(kept, item)
		}
	}
	for _, want := range ids {
		if !slices.ContainsFunc(kept, func(item T) bool { return id(item) == want }) {
			return nil, notFound(want)
		}
	}
	return kept, nil
}

// arn names a resource of the account.
func (s *Sim) arn(service, region, resource string) string {
	return "arn:" + capacity.AWSPartitionOf(region).Name + ":" + service + ":" + region + ":" + s.scenario.Account + ":" + resource
}

// iamARN names something of IAM, which belongs to no region but to a partition.
func (s *Sim) iamARN(resource string) string {
	return "arn:" + capacity.AWSPartitionOf(s.homeRegion()).Name + ":iam::" + s.scenario.Account + ":" + resource
}

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
		all = append(all, object{"VpcEndpointId": e.ID, "VpcEndpointType": e.Type, "VpcId": e.VPC,
			"ServiceName": "com.amazonaws." + c.Region + "." + e.Service, "State": e.State,
			"PrivateDnsEnabled": e.Type == "Interface", "RouteTableIds": e.RouteTables, "SubnetIds": e.Subnets,
			"Groups": c.region.groupObjects(e.SecurityGroups), "OwnerId": s.scenario.Account})
	}
	return all
}

// RuleScenario is a rule of a security group, for what comes in unless it is one for what goes out.
type RuleScenario struct {
	Out      bool   `toml:"out"`
	Protocol string `toml:"protocol"` // tcp, udp, icmp; -1 (default) for all
	From     int    `toml:"from"`     // ports, of tcp and udp; 0 and 0 are all of them
	To       int    `toml:"to"`
	// Peer is the other end: a security group, self for the rule's own, a CIDR block, or a prefix list.
	Peer string `toml:"peer"`
}

// documentedRules are those of the permissive example of the AWS PCS User Guide, "Security groups in AWS PCS".
var documentedRules = []RuleScenario{{Peer: "self"}, {Out: true, Peer: "0.0.0.0/0"}, {Out: true, Peer: "self"}}

func (r *region) buildRules() error {
	for i := range r.groups {
		g := &r.groups[i]
		if g.Rules == nil {
			g.Rules = documentedRules
		}
		g.Rules = slices.Clone(g.Rules)
		for k := range g.Rules {
			rule := &g.Rules[k]
			rule.Protocol = cmp.Or(rule.Protocol, "-1")
			if rule.Peer == "self" {
				rule.Peer = g.ID
			}
			if rule.From == 0 && rule.To == 0 && rule.Protocol != "-1" {
				rule.To = 65535
			}
			if _, err := netip.ParsePrefix(rule.Peer); err != nil && !strings.HasPrefix(rule.Peer, "sg-") && !strings.HasPrefix(rule.Peer, "pl-") {
				return fmt.Errorf("security group %s: rule for %q: want a security group, self, a CIDR block or a prefix list", g.ID, rule.Peer)
			}
		}
	}
	return nil
}

// lets reports whether a rule lets through a connection with a peer, by TCP to a port. Port 0 stands for all traffic,
// which EFA needs, and which must be given to a group by its id: EFA is no IP, so that no address matches it (EC2 User
// Guide, "Prepare an EFA-enabled security group").
func (rule RuleScenario) lets(out bool, port int, peer string, address string) bool {
	if rule.Out != out || rule.Protocol != "-1" && (port == 0 || rule.Protocol != "tcp" || port < rule.From || port > rule.To) {
		return false
	}
	if rule.Peer == peer {
		return true
	}
	prefix, err := netip.ParsePrefix(rule.Peer)
	ip, bad := netip.ParseAddr(address)
	return port != 0 && err == nil && bad == nil && prefix.Contains(ip)
}

// open reports whether members of some groups can connect to members of others.
func (r *region) open(from []string, fromIP string, to []string, toIP string, port int) bool {
	allowed := func(groups []string, out bool, peers []string, ip string) bool {
		for _, id := range groups {
			g := r.group(id)
			if g == nil {
				continue
			}
			for _, rule := range g.Rules {
				if slices.ContainsFunc(peers, func(peer string) bool { return rule.lets(out, port, peer, ip) }) {
					return true
				}
			}
		}
		return false
	}
	return allowed(from, true, to, toIP) && allowed(to, false, from, fromIP)
}

// permissions are the rules of a group, each by itself.
func (s *Sim) permissions(g SecurityGroupScenario, out bool) []object {
	var all []object
	for _, rule := range g.Rules {
		if rule.Out != out {
			continue
		}
		w := object{"IpProtocol": rule.Protocol}
		if rule.Protocol != "-1" {
			w["FromPort"], w["ToPort"] = rule.From, rule.To
		}
		switch {
		case strings.HasPrefix(rule.Peer, "sg-"):
			w["UserIdGroupPairs"] = []object{{"UserId": s.scenario.Account, "GroupId": rule.Peer}}
		case strings.HasPrefix(rule.Peer, "pl-"):
			w["PrefixListIds"] = []object{{"PrefixListId": rule.Peer}}
		case strings.Contains(rule.Peer, ":"):
			w["Ipv6Ranges"] = []object{{"CidrIpv6": rule.Peer}}
		default:
			w["IpRanges"] = []object{{"CidrIp": rule.Peer}}
		}
		all = append(all, w)
	}
	return all
}
