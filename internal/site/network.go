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
	Region string
	// Nodes is the largest number of nodes; 0 if unknown.
	Nodes int
	// Subnets are the subnets of launches, all in one VPC.
	Subnets []ec2.Subnet
	// Tables are the route tables of the VPC.
	Tables []ec2.RouteTable
	// Endpoints are the VPC's endpoints, read only if no route leads out of a subnet.
	Endpoints []ec2.Endpoint
	// Groups are the security groups of the nodes, of the cluster and of its endpoints, by id.
	Groups map[string]ec2.SecurityGroup
	// ClusterGroups are the PCS cluster's security groups.
	ClusterGroups []string
}

// names are the common names of services.
var names = map[string]string{"pcs": "AWS PCS", "s3": "Amazon S3"}

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

// out returns the route of a subnet out of its VPC; zero if there is none.
func (n Network) out(s ec2.Subnet) (route ec2.Route) {
	for _, r := range n.tableOf(s).Routes {
		if r.To == everywhere {
			route = r
		}
		// Nodes with IPv6 addresses and an IPv6 route have a way out.
		if r.To == "::/0" && !r.Gone && route.To == "" {
			route = r
		}
	}
	return route
}

// leadsOut reports whether nodes in a subnet reach the internet. A NAT or transit gateway, a
// firewall or another VPC is assumed to lead on.
func (s Launch) leadsOut(subnet ec2.Subnet) bool {
	route := s.Network.out(subnet)
	return route.To != "" && !route.Gone &&
		(!strings.HasPrefix(route.Via, "igw-") || route.To != everywhere || s.public(subnet))
}

// public reports whether nodes in a subnet get a public address: EC2 gives one to an instance with
// one network interface only, and refuses a launch with several that asks for one.
func (s Launch) public(subnet ec2.Subnet) bool {
	switch {
	case len(s.Template.NetworkInterfaces) > 1:
		return false
	case s.Template.PublicAddress != nil:
		return *s.Template.PublicAddress
	}
	return subnet.Public
}

// UsesEndpoints reports whether a subnet has no way out, and nodes depend on endpoints.
func (s Launch) UsesEndpoints() bool {
	return s.Network.Tables != nil && len(s.services()) > 0 &&
		slices.ContainsFunc(s.Network.Subnets, func(one ec2.Subnet) bool { return !s.leadsOut(one) })
}

var installsFromS3 = regexp.MustCompile(`(?m)^FROM=\$\{1:-'s3://`)

// CallsAWS reports whether nodes call AWS before jobs run on them.
func (s Launch) CallsAWS() bool { return len(s.services()) > 0 }

// services returns the AWS services that a node calls before jobs run on it. A node of PCS registers
// with PCS (AWS PCS User Guide, "Access AWS Parallel Computing Service using an interface
// endpoint"). A node of self-managed Slurm only fetches the package.
func (s Launch) services() []string {
	var all []string
	if s.Provider == capacity.ProviderPCS {
		all = append(all, "pcs")
	}
	if installsFromS3.Match(s.Template.UserData) || s.Actions.FromS3() {
		all = append(all, "s3")
	}
	return all
}

// wayOut finds subnets from which nodes cannot reach the AWS services that they need.
func wayOut(s Launch) []capacity.Problem {
	n := s.Network
	if n.Tables == nil {
		return nil
	}
	var all []capacity.Problem
	for _, subnet := range n.Subnets {
		if s.leadsOut(subnet) {
			continue
		}
		for _, service := range s.services() {
			if n.Endpoints == nil || n.reaches(subnet, service) {
				continue
			}
			fix := n.endpointFix(subnet, service, s.Template.SecurityGroupIDs)
			if route := n.out(subnet); strings.HasPrefix(route.Via, "igw-") && len(s.Template.NetworkInterfaces) < 2 &&
				s.Template.PublicAddress == nil {
				fix += ", or let the subnet give nodes a public address: `aws ec2 modify-subnet-attribute`"
			}
			all = append(all, s.problem(capacity.NoWayOut, fix, "nodes in subnet %s never reach %s, so %s: %s", subnet.ID,
				names[service], without[service], n.why(s, subnet, service))...)
		}
	}
	return all
}

// without names the consequence of a missing service.
var without = map[string]string{
	"pcs": "they never register",
	"s3":  "they cannot fetch the package or their scripts from there",
}

// why explains that nodes in a subnet cannot reach a service.
func (n Network) why(s Launch, subnet ec2.Subnet, service string) string {
	route := n.out(subnet)
	why := "its route leads to " + route.Via
	switch interfaces := len(s.Template.NetworkInterfaces); {
	case route.To == "":
		why = "no route leads out of the VPC"
	case route.Gone:
		why += ", which is gone"
	case interfaces > 1:
		why += fmt.Sprintf(", and nodes with %d network interfaces get no public address", interfaces)
	default:
		why += ", and nodes get no public address"
	}
	if e := n.endpoint(service); e.ID != "" {
		return why + ", and endpoint " + e.ID + " does not serve them"
	}
	return why + ", and the VPC has no endpoint for it"
}

// endpoint returns the first endpoint for a service; zero if there is none.
func (n Network) endpoint(service string) ec2.Endpoint {
	if at := slices.IndexFunc(n.Endpoints, func(e ec2.Endpoint) bool { return e.Service == service }); at >= 0 {
		return n.Endpoints[at]
	}
	return ec2.Endpoint{}
}

// reaches reports whether nodes in a subnet reach a service by an endpoint. missingRules judges the security groups.
func (n Network) reaches(subnet ec2.Subnet, service string) bool {
	return slices.ContainsFunc(n.Endpoints, func(e ec2.Endpoint) bool {
		return e.Service == service && e.Available &&
			(!e.Gateway && e.UsualName || e.Gateway && slices.Contains(e.RouteTables, n.tableOf(subnet).ID))
	})
}

// endpointFix says how nodes of a subnet reach a service.
func (n Network) endpointFix(subnet ec2.Subnet, service string, groups []string) string {
	const elsewhere = "use a subnet with a route to a NAT gateway, or "
	switch e := n.endpoint(service); {
	case e.ID == "":
		how := "--route-table-ids " + n.tableOf(subnet).ID
		if service != "s3" {
			how = fmt.Sprintf("--vpc-endpoint-type Interface --private-dns-enabled --subnet-ids %s --security-group-ids %s", subnet.ID, strings.Join(groups, " "))
		}
		return elsewhere + fmt.Sprintf("run `aws ec2 create-vpc-endpoint --region %s --vpc-id %s --service-name com.amazonaws.%[1]s.%[3]s %[4]s`", n.Region, subnet.VPC, service, how)
	case !e.Available:
		return elsewhere + "wait until endpoint " + e.ID + " is available"
	case e.Gateway:
		return elsewhere + fmt.Sprintf("add route table %s to endpoint %s: `aws ec2 modify-vpc-endpoint`", n.tableOf(subnet).ID, e.ID)
	default:
		return elsewhere + "enable private DNS of endpoint " + e.ID + ": `aws ec2 modify-vpc-endpoint`"
	}
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
func missingRules(s Launch) []capacity.Problem {
	n := s.Network
	if s.Brief {
		return nil
	}
	for _, id := range s.Template.SecurityGroupIDs {
		if g, known := n.Groups[id]; !known || n.elsewhere(g) {
			return nil // which is a problem of its own
		}
	}
	var found []capacity.Problem
	for _, c := range s.connections() {
		if !n.lets(true, c.from, c.to, c.ports) {
			found = append(found, n.missing(s, true, c.from, c.to, c)...)
		}
		if !n.lets(false, c.to, c.from, c.ports) {
			found = append(found, n.missing(s, false, c.to, c.from, c)...)
		}
	}
	if s.Provider == capacity.ProviderEC2 && len(found) == 0 {
		found = append(found, n.closed(s)...)
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

// elsewhere reports whether a group is in another VPC, where nodes cannot use it.
func (n Network) elsewhere(g ec2.SecurityGroup) bool {
	return len(n.Subnets) > 0 && n.Subnets[0].VPC != g.VPC
}

func (p ports) within(r ec2.Rule) bool {
	return r.Protocol == "-1" ||
		p != all && (r.Protocol == "tcp" || r.Protocol == "6") && r.From <= p.from && p.to <= r.To
}

// missing returns the problem of a blocked connection, with the command that adds the rule.
func (n Network) missing(s Launch, out bool, own, other []string, c connection) []capacity.Problem {
	id, peer := own[0], other[0]
	if slices.Contains(own, peer) {
		peer = id
	}
	return s.problem(capacity.RuleMissing,
		"run "+n.addRule(out, id, fmt.Sprintf("UserIdGroupPairs=[{GroupId=%s}]", peer), c.ports),
		"security group %s has no rule by which %s: %s", strings.Join(own, ", "), c.what,
		c.ports.words(out, slices.Contains(own, peer), peer))
}

// closed returns the problem that nothing can connect to slurmd of self-managed Slurm.
func (n Network) closed(s Launch) []capacity.Problem {
	groups := s.Template.SecurityGroupIDs
	for _, id := range groups {
		if slices.ContainsFunc(n.Groups[id].Rules, func(r ec2.Rule) bool { return !r.Out && slurmd.within(r) }) {
			return nil
		}
	}
	if len(groups) == 0 {
		return nil
	}
	return s.problem(capacity.RuleMissing,
		"run, with the address of slurmctld, "+n.addRule(false, groups[0], "IpRanges=[{CidrIp=ADDRESS/32}]", slurmd),
		"security group %s has no rule by which slurmctld connects to slurmd: TCP at port 6818 from slurmctld",
		strings.Join(groups, ", "))
}

// addRule returns the AWS CLI's command that adds a rule.
func (n Network) addRule(out bool, group, peer string, p ports) string {
	verb, what := "ingress", "IpProtocol=-1,"
	if out {
		verb = "egress"
	}
	if p != all {
		what = fmt.Sprintf("IpProtocol=tcp,FromPort=%d,ToPort=%d,", p.from, p.to)
	}
	return fmt.Sprintf("`aws ec2 authorize-security-group-%s --region %s --group-id %s --ip-permissions '%s%s'`", verb,
		n.Region, group, what, peer)
}

// words describes the traffic of a rule.
func (p ports) words(out, itself bool, peer string) string {
	what := "all traffic"
	switch {
	case p == all:
	case p.from == p.to:
		what = fmt.Sprintf("TCP at port %d", p.from)
	default:
		what = fmt.Sprintf("TCP at ports %d to %d", p.from, p.to)
	}
	if itself {
		peer = "itself"
	}
	if out {
		return what + " to " + peer
	}
	return what + " from " + peer
}
