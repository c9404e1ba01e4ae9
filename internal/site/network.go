package site

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Network is the network of the nodes. Unread parts are nil, and are not judged.
type Network struct {
	Region    string
	Nodes     int              // the largest number of nodes; 0 if unknown
	Subnets   []ec2.Subnet     // the subnets of launches, all in one VPC
	Tables    []ec2.RouteTable // the route tables of the VPC
	Endpoints []ec2.Endpoint   // the VPC's endpoints, read only if no route leads out of a subnet
	// Groups are the security groups of the nodes, of the cluster and of its endpoints, by id.
	Groups        map[string]ec2.SecurityGroup
	ClusterGroups []string // the PCS cluster's security groups
}

// everywhere is the destination of a default route.
const everywhere = "0.0.0.0/0"

// tableOf returns the route table of a subnet: its own, else the main one of its VPC.
func (n Network) tableOf(s ec2.Subnet) (main ec2.RouteTable) {
	for _, t := range n.Tables {
		switch {
		case slices.Contains(t.Subnets, s.ID):
			return t
		case t.Main && t.VPC == s.VPC:
			main = t
		}
	}
	return main
}

// closedIn is why nodes in a subnet do not reach the internet; "" if they do. A NAT or transit gateway, a firewall or
// another VPC is assumed to lead on, and so is an IPv6 route.
func (s Launch) closedIn(subnet ec2.Subnet) string {
	var route ec2.Route
	for _, r := range s.Network.tableOf(subnet).Routes {
		if r.To == everywhere || r.To == "::/0" && !r.Gone && route.To == "" {
			route = r
		}
	}
	// EC2 gives a public address to an instance with one network interface only, and refuses a launch with several that
	// asks for one.
	public := subnet.Public
	if asks := s.Template.PublicAddress; asks != nil {
		public = *asks
	}
	switch {
	case route.To == "":
		return "no route leads out of the VPC"
	case route.Gone:
		return "its route leads to " + route.Via + ", which is gone"
	case strings.HasPrefix(route.Via, "igw-") && route.To == everywhere && (!public || len(s.Template.NetworkInterfaces) > 1):
		return "its route leads to " + route.Via + ", and nodes get no public address"
	}
	return ""
}

// UsesEndpoints reports whether a subnet has no way out, and nodes depend on endpoints.
func (s Launch) UsesEndpoints() bool {
	return s.Network.Tables != nil && len(s.services()) > 0 &&
		slices.ContainsFunc(s.Network.Subnets, func(one ec2.Subnet) bool { return s.closedIn(one) != "" })
}

// service is one of AWS that nodes call before jobs run on them, and the consequence of a missing one.
type service struct{ id, name, without string }

var (
	toPCS = service{"pcs", "AWS PCS", "they never register"}
	toS3  = service{"s3", "Amazon S3", "they cannot fetch the package or their scripts from there"}
	// installsFromS3 matches user data that fetches the package from S3.
	installsFromS3 = regexp.MustCompile(`(?m)^FROM=\$\{1:-'s3://`)
)

// services returns those that a node calls. A node of PCS registers with PCS (AWS PCS User Guide, "Access AWS Parallel
// Computing Service using an interface endpoint"). A node of self-managed Slurm only fetches the package.
func (s Launch) services() (all []service) {
	if s.Provider == capacity.ProviderPCS {
		all = append(all, toPCS)
	}
	if installsFromS3.Match(s.Template.UserData) || s.Actions.FromS3() {
		all = append(all, toS3)
	}
	return all
}

// wayOut finds subnets from which nodes cannot reach the AWS services that they need. missingRules judges the security
// groups of endpoints.
func wayOut(s Launch) (all []capacity.Problem) {
	n := s.Network
	if n.Tables == nil || n.Endpoints == nil {
		return nil
	}
	for _, subnet := range n.Subnets {
		why, table := s.closedIn(subnet), n.tableOf(subnet).ID
		for _, to := range s.services() {
			e := n.endpoint(to.id)
			serves := e.Available && (!e.Gateway && e.UsualName || e.Gateway && slices.Contains(e.RouteTables, table))
			if why == "" || serves {
				continue
			}
			reason, fix := why+", and endpoint "+e.ID+" does not serve them", "have "+e.ID+" available, with private DNS, or a gateway with route table "+table
			if e.ID == "" {
				how := "--route-table-ids " + table
				if to != toS3 {
					how = fmt.Sprintf("--vpc-endpoint-type Interface --private-dns-enabled --subnet-ids %s --security-group-ids %s", subnet.ID, strings.Join(s.Template.SecurityGroupIDs, " "))
				}
				reason = why + ", and the VPC has no endpoint for it"
				fix = fmt.Sprintf("run `aws ec2 create-vpc-endpoint --region %s --vpc-id %s --service-name com.amazonaws.%[1]s.%[3]s %[4]s`", n.Region, subnet.VPC, to.id, how)
			}
			all = append(all, capacity.Problemf(capacity.NoWayOut, capacity.Subject{}, "use a subnet with a route to a NAT gateway, or "+fix,
				"nodes in subnet %s never reach %s, so %s: %s", subnet.ID, to.name, to.without, reason))
		}
	}
	return all
}

// endpoint returns the first endpoint for a service; zero if there is none.
func (n Network) endpoint(service string) ec2.Endpoint {
	if at := slices.IndexFunc(n.Endpoints, func(e ec2.Endpoint) bool { return e.Service == service }); at >= 0 {
		return n.Endpoints[at]
	}
	return ec2.Endpoint{}
}

// Ports of Slurm on PCS, and that of AWS's services. "Security groups in AWS PCS" of the AWS PCS User Guide
// (working-with_networking_sg.html) has 60001–63000 "between node group instances to support srun".
var (
	slurmctld = ports{6817, 6817}
	slurmd    = ports{6818, 6818}
	srun      = ports{60001, 63000}
	https     = ports{443, 443}
	// all is all traffic, which EFA needs: EFA is not IP, so no port and no address matches it.
	all = ports{}
)

type ports struct{ from, to int }

// connection is one that nodes need, between members of security groups, and its purpose.
type connection struct {
	from, to []string
	ports    ports
	what     string
}

// connections returns the connections that nodes need. On self-managed Slurm the security groups of
// slurmctld and the ports of srun are unknown.
func (s Launch) connections() []connection {
	n, nodes := s.Network, s.Template.SecurityGroupIDs
	onPCS := s.Provider == capacity.ProviderPCS
	var need []connection
	if onPCS && len(n.ClusterGroups) > 0 {
		need = append(need, connection{nodes, n.ClusterGroups, slurmctld, "nodes connect to slurmctld"},
			connection{n.ClusterGroups, nodes, slurmd, "slurmctld connects to slurmd"})
		if e := n.endpoint("pcs"); len(e.SecurityGroups) > 0 && s.UsesEndpoints() {
			need = append(need, connection{nodes, e.SecurityGroups, https, "nodes connect to endpoint " + e.ID})
		}
	}
	efa := func(i capacity.Interface) bool { return strings.HasPrefix(i.Type, "efa") }
	switch {
	case n.Nodes == 1:
		return need
	case slices.ContainsFunc(s.Template.NetworkInterfaces, efa):
		return append(need, connection{nodes, nodes, all, "nodes connect to each other by EFA"})
	}
	need = append(need, connection{nodes, nodes, slurmd, "nodes connect to each other's slurmd"})
	if onPCS {
		need = append(need, connection{nodes, nodes, srun, "srun connects nodes"})
	}
	return need
}

// missingRules finds connections that security groups block.
func missingRules(s Launch) (found []capacity.Problem) {
	n, nodes := s.Network, s.Template.SecurityGroupIDs
	for _, id := range nodes {
		if g, known := n.Groups[id]; !known || len(n.Subnets) > 0 && n.Subnets[0].VPC != g.VPC {
			return nil // EC2 refuses each launch
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	missing := func(out bool, own []string, what, peer string, as string, p ports) {
		verb, words := "ingress", p.String()+" from "+peer
		if out {
			verb, words = "egress", p.String()+" to "+peer
		}
		found = append(found, capacity.Problemf(capacity.RuleMissing, capacity.Subject{},
			fmt.Sprintf("run `aws ec2 authorize-security-group-%s --region %s --group-id %s --ip-permissions '%s,%s'`", verb, n.Region, own[0], p.permission(), as),
			"security group %s has no rule by which %s: %s", strings.Join(own, ", "), what, words))
	}
	for _, c := range s.connections() {
		for _, out := range []bool{true, false} {
			own, other := c.from, c.to
			if !out {
				own, other = c.to, c.from
			}
			if n.lets(out, own, other, c.ports) {
				continue
			}
			id, peer := other[0], other[0]
			if slices.Contains(own, id) {
				id, peer = own[0], "itself"
			}
			missing(out, own, c.what, peer, fmt.Sprintf("UserIdGroupPairs=[{GroupId=%s}]", id), c.ports)
		}
	}
	letsIn := func(id string) bool {
		return slices.ContainsFunc(n.Groups[id].Rules, func(r ec2.Rule) bool { return !r.Out && slurmd.within(r) })
	}
	if s.Provider == capacity.ProviderEC2 && len(found) == 0 && !slices.ContainsFunc(nodes, letsIn) { // with the address of slurmctld
		missing(false, nodes, "slurmctld connects to slurmd", "slurmctld, at ADDRESS", "IpRanges=[{CidrIp=ADDRESS/32}]", slurmd)
	}
	return found
}

// lets reports whether the groups of one side let the other side in, or let themselves out to it. Unknown rules count as
// open, and so do rules for addresses, but for EFA, which is not IP.
func (n Network) lets(out bool, own, other []string, p ports) bool {
	if len(own) == 0 || len(other) == 0 {
		return true
	}
	return slices.ContainsFunc(own, func(id string) bool {
		g, known := n.Groups[id]
		return !known || slices.ContainsFunc(g.Rules, func(r ec2.Rule) bool {
			return r.Out == out && p.within(r) && (slices.Contains(other, r.Peer) || p != all && !strings.HasPrefix(r.Peer, "sg-"))
		})
	})
}

func (p ports) within(r ec2.Rule) bool {
	return r.Protocol == "-1" || p != all && (r.Protocol == "tcp" || r.Protocol == "6") && r.From <= p.from && p.to <= r.To
}

// permission is the traffic in the AWS CLI's words.
func (p ports) permission() string {
	if p == all {
		return "IpProtocol=-1"
	}
	return fmt.Sprintf("IpProtocol=tcp,FromPort=%d,ToPort=%d", p.from, p.to)
}

func (p ports) String() string {
	switch {
	case p == all:
		return "all traffic"
	case p.from == p.to:
		return fmt.Sprintf("TCP at port %d", p.from)
	}
	return fmt.Sprintf("TCP at ports %d to %d", p.from, p.to)
}
