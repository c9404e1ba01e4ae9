package site

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// defaultRoute is the destination of a default route.
const defaultRoute = "0.0.0.0/0"

// routeTable returns the route table of a subnet: its own, else the main one of its VPC.
func (l *Launch) routeTable(s ec2.Subnet) (main ec2.RouteTable) {
	for _, t := range l.Tables {
		switch {
		case slices.Contains(t.Subnets, s.ID):
			return t
		case t.Main && t.VPC == s.VPC:
			main = t
		}
	}

	return main
}

// unreachableReason says why nodes in a subnet do not reach the internet; "" if they do. A NAT or transit gateway, a
// firewall or another VPC is assumed to lead on, and so is an IPv6 route.
func (l *Launch) unreachableReason(subnet ec2.Subnet) string {
	var route ec2.Route
	for _, r := range l.routeTable(subnet).Routes {
		if r.To == defaultRoute || r.To == "::/0" && !r.Blackhole && route.To == "" {
			route = r
		}
	}
	// EC2 gives a public address to an instance with one network interface only, and refuses a launch with several that
	// asks for one.
	public := subnet.Public
	if asks := l.Template.PublicAddress; asks != nil {
		public = *asks
	}

	toInternet := strings.HasPrefix(route.Via, "igw-") && route.To == defaultRoute

	switch {
	case route.To == "":
		return "no route leads out of the VPC"
	case route.Blackhole:
		return "its route leads to " + route.Via + ", which is gone"
	case toInternet && (!public || len(l.Template.NetworkInterfaces) > 1):
		return "its route leads to " + route.Via + ", and nodes get no public address"
	}

	return ""
}

// checkRoutes finds subnets from which nodes never reach AWS PCS, so that they never register. Nodes of self-managed
// Slurm need no AWS.
func (l Launch) checkRoutes() (all capacity.Problems) {
	if l.Provider != capacity.ProviderPCS || l.Tables == nil || l.Endpoints == nil {
		return nil
	}

	for _, subnet := range l.Subnets {
		why := l.unreachableReason(subnet)
		if why == "" || slices.ContainsFunc(l.Endpoints, func(e ec2.Endpoint) bool { return e.Serves }) {
			continue
		}

		reason := why + ", and the VPC has no endpoint for it"
		fix := fmt.Sprintf(
			"run `aws ec2 create-vpc-endpoint --region %s --vpc-id %s --service-name com.amazonaws.%[1]s.pcs "+
				"--vpc-endpoint-type Interface --private-dns-enabled --subnet-ids %[3]s --security-group-ids %[4]s`",
			l.Region, subnet.VPC, subnet.ID, strings.Join(l.Template.SecurityGroupIDs, " "))
		if len(l.Endpoints) > 0 {
			id := l.Endpoints[0].ID
			reason = why + ", and endpoint " + id + " does not serve them"
			fix = "have " + id + " available, with private DNS"
		}

		all.Add(
			capacity.Problemf(
				capacity.NoWayOut,
				capacity.Subject{},
				"use a subnet with a route to a NAT gateway, or "+fix,
				"nodes in subnet %s never reach AWS PCS, so they never register: %s",
				subnet.ID,
				reason,
			),
		)
	}

	return all
}

// checkEFARules finds security groups that keep nodes from each other by EFA. It is not IP: no port and no address
// matches it, and the groups need rules for all traffic from themselves and to themselves.
func (l Launch) checkEFARules() (found capacity.Problems) {
	own := l.Template.SecurityGroupIDs
	if len(own) == 0 || !l.hasEFA() {
		return nil
	}

	for _, side := range []struct {
		out         bool
		verb, words string
	}{{true, "egress", "to"}, {false, "ingress", "from"}} {
		if !slices.ContainsFunc(own, func(id string) bool {
			rules, known := l.Rules[id]
			return !known || slices.ContainsFunc(rules, func(r ec2.Rule) bool {
				return r.Out == side.out && r.All && slices.Contains(own, r.Peer)
			})
		}) {
			fix := fmt.Sprintf("run `aws ec2 authorize-security-group-%s --region %s --group-id %s --ip-permissions "+
				"'IpProtocol=-1,UserIdGroupPairs=[{GroupId=%[3]s}]'`", side.verb, l.Region, own[0])
			found.Add(capacity.Problemf(capacity.RuleMissing, capacity.Subject{}, fix,
				"security group %s has no rule by which nodes connect to each other by EFA: all traffic %s itself",
				strings.Join(own, ", "), side.words))
		}
	}

	return found
}

// hasEFA reports whether nodes connect to each other by EFA.
func (l *Launch) hasEFA() bool {
	return l.Nodes != 1 &&
		slices.ContainsFunc(l.Template.NetworkInterfaces,
			func(i capacity.Interface) bool { return strings.HasPrefix(i.Type, "efa") })
}
