package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file keeps nodes whose jobs get an ODCR in one place: a partition's in one zone, and a node group's on one
// instance type. Slurm calls no ResumeProgram for a job whose nodes are all up, so nothing else could keep such a job
// in one place.

// place is where an instance runs, and as what.
type place struct{ azID, instanceType string }

func (at place) String() string { return at.instanceType + " in " + at.azID }

func (at place) compare(other place) int { return strings.Compare(at.String(), other.String()) }

// standing is a node that takes jobs, with its place.
type standing struct {
	node, group, slot string
	at                place
}

// elsewhere powers down the nodes outside the zone in which most of their partition's nodes are, and those inside it
// whose type is not that of most nodes of their group. In a tie, the first in the settings stays. A node group that
// may not run in that zone has a zone of its own.
func elsewhere(s Seen) (effects []capacity.Effect) {
	for _, part := range s.Snap.Partitions {
		nodes := s.standing(part)
		var zones []string
		for _, g := range part.Groups {
			zones = append(zones, zonesOf(g)...)
		}
		common := most(zones, nodes, func(n standing) string { return n.at.azID })
		for _, g := range part.Groups {
			own := slices.DeleteFunc(slices.Clone(nodes), func(n standing) bool { return n.group != g.Name })
			others := place{azID: common}
			if !slices.Contains(zonesOf(g), common) {
				others.azID = most(zonesOf(g), own, func(n standing) string { return n.at.azID })
			}
			others.instanceType = most(g.Types(), own, func(n standing) string {
				if n.at.azID != others.azID {
					return ""
				}
				return n.at.instanceType
			})
			apart := map[place][]string{}
			for _, slot := range g.Slots {
				clear(apart)
				for _, n := range own {
					if n.slot == slot.Name && n.at != others {
						apart[n.at] = append(apart[n.at], n.node)
					}
				}
				for _, at := range slices.SortedFunc(maps.Keys(apart), place.compare) {
					effects = append(effects,
						PowerDown{slot.Name, apart[at], "powered down: jobs for which capacity is held run as " + others.String(),
							fmt.Sprintf(
								"when their jobs end: they run as %s, the others as %s, and a job for which capacity is held has all of its nodes in one place",
								at, others)})
				}
			}
		}
	}
	return effects
}

// standing returns the partition's nodes whose jobs get an ODCR. It includes booting nodes, but not those whose
// instance EC2 does not show yet.
func (s Seen) standing(part capacity.Partition) (nodes []standing) {
	running := map[string]capacity.Instance{} // by node
	for _, i := range s.Instances {
		if !i.Ended() {
			running[i.Tags[capacity.TagNode]] = i
		}
	}
	for _, g := range part.Groups {
		if g.Reserve != capacity.ReservePerJob {
			continue
		}
		for _, slot := range g.Slots {
			for _, n := range s.Cluster.shown(s.Cluster.SlotNodes(slot.Name)) {
				i := running[n.Name]
				subnet := slices.IndexFunc(g.Subnets, func(sub capacity.Subnet) bool { return sub.ID == i.SubnetID })
				if takesJobs(n) && subnet >= 0 && i.PrivateIP == n.Address {
					nodes = append(nodes, standing{n.Name, g.Name, slot.Name, place{g.Subnets[subnet].AZID, i.Type}})
				}
			}
		}
	}
	return nodes
}

func zonesOf(g capacity.NodeGroup) (azIDs []string) {
	for _, s := range g.Subnets {
		azIDs = append(azIDs, s.AZID)
	}
	return azIDs
}

// most is the first of the names that most nodes have.
func most(names []string, nodes []standing, of func(standing) string) (first string) {
	counts := map[string]int{}
	for _, n := range nodes {
		counts[of(n)]++
	}
	for _, name := range names {
		if first == "" || counts[name] > counts[first] {
			first = name
		}
	}
	return first
}

// takesJobs reports whether Slurm gives the node jobs while its instance runs or boots.
func takesJobs(n capacity.Node) bool {
	return n.Out() == "" && (n.Up() || n.Boots())
}
