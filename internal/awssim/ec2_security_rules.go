package awssim

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

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
