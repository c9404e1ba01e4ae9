package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
)

// checkRoutes finds subnets from which nodes never reach AWS PCS, so that they never register. Nodes of self-managed
// Slurm need no AWS.
func checkRoutes(l facts.Launch) (all capacity.Problems) {
	if l.Provider != capacity.ProviderPCS || l.Tables == nil || l.Endpoints == nil {
		return nil
	}

	for _, subnet := range l.Subnets {
		why := l.UnreachableReason(subnet)
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
func checkEFARules(l facts.Launch) (found capacity.Problems) {
	own := l.Template.SecurityGroupIDs
	if len(own) == 0 || !l.HasEFA() {
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
				"security group %s lacks a rule that nodes need to connect to each other by EFA: all traffic %s itself",
				strings.Join(own, ", "), side.words))
		}
	}

	return found
}
