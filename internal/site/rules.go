package site

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

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

// side is one end of a connection: members of security groups, with addresses in CIDR blocks.
type side struct {
	groups, blocks []string
}

// connection is a connection that nodes need, and its purpose.
type connection struct {
	from, to side
	ports    ports
	what     string
}

func (n Network) side(groups []string, subnets []ec2.Subnet) side {
	s := side{groups: groups}
	for _, one := range subnets {
		if one.CIDR != "" {
			s.blocks = append(s.blocks, one.CIDR)
		}
	}
	return s
}

// connections returns the connections that nodes need. On self-managed Slurm the security groups of
// slurmctld and the ports of srun are unknown.
func (s Launch) connections() []connection {
	n := s.Network
	nodes, cluster := n.side(s.Template.SecurityGroupIDs, n.Subnets), n.side(n.ClusterGroups, n.ClusterSubnets)
	var need []connection
	if s.Provider == capacity.ProviderPCS && len(n.ClusterGroups) > 0 {
		need = append(need, connection{nodes, cluster, slurmctld, "nodes connect to slurmctld"},
			connection{cluster, nodes, slurmd, "slurmctld connects to slurmd"})
		if s.UsesEndpoints() {
			if e := n.endpoint("pcs"); len(e.SecurityGroups) > 0 {
				need = append(need,
					connection{nodes, side{groups: e.SecurityGroups}, https, "nodes connect to endpoint " + e.ID})
			}
		}
	}
	if n.Nodes == 1 {
		return need
	}
	if slices.ContainsFunc(s.Template.NetworkInterfaces,
		func(i capacity.Interface) bool { return strings.HasPrefix(i.Type, "efa") }) {
		return append(need, connection{nodes, nodes, all, "nodes connect to each other by EFA"})
	}
	need = append(need, connection{nodes, nodes, slurmd, "nodes connect to each other's slurmd"})
	if s.Provider == capacity.ProviderPCS {
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

// lets reports whether the groups of one side let the other side in, or let themselves out to it.
// Unknown rules count as open.
func (n Network) lets(out bool, own, other side, p ports) bool {
	if len(own.groups) == 0 || len(other.groups) == 0 {
		return true
	}
	for _, id := range own.groups {
		g, known := n.Groups[id]
		if !known ||
			slices.ContainsFunc(g.Rules,
				func(r ec2.Rule) bool { return r.Out == out && p.within(r) && other.matches(r.Peer, p == all) }) {
			return true
		}
	}
	return false
}

// elsewhere reports whether a group is in another VPC, where nodes cannot use it.
func (n Network) elsewhere(g ec2.SecurityGroup) bool {
	return len(n.Subnets) > 0 && n.Subnets[0].VPC != g.VPC
}

func (p ports) within(r ec2.Rule) bool {
	return r.Protocol == "-1" ||
		p != all && (r.Protocol == "tcp" || r.Protocol == "6") && r.From <= p.from && p.to <= r.To
}

// matches reports whether a rule's peer is this side. EFA matches groups only. The contents of
// prefix lists and the holders of IPv6 addresses are unknown.
func (s side) matches(peer string, groupsAlone bool) bool {
	switch {
	case slices.Contains(s.groups, peer):
		return true
	case groupsAlone || strings.HasPrefix(peer, "sg-"):
		return false
	}
	open, err := netip.ParsePrefix(peer)
	if err != nil || open.Addr().Is6() || len(s.blocks) == 0 {
		return true
	}
	for _, block := range s.blocks {
		if b, err := netip.ParsePrefix(block); err == nil && (b.Bits() < open.Bits() || !open.Contains(b.Addr())) {
			return false
		}
	}
	return true
}

// missing returns the problem of a blocked connection, with the command that adds the rule.
func (n Network) missing(s Launch, out bool, own, other side, c connection) []capacity.Problem {
	id, peer := own.groups[0], other.groups[0]
	if slices.Contains(own.groups, peer) {
		peer = id
	}
	return s.problem(capacity.RuleMissing,
		"run "+n.addRule(out, id, fmt.Sprintf("UserIdGroupPairs=[{GroupId=%s}]", peer), c.ports),
		"security group %s has no rule by which %s: %s", strings.Join(own.groups, ", "), c.what,
		c.ports.words(out, slices.Contains(own.groups, peer), peer))
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
