package capacity

import (
	"slices"
	"strings"
)

// SlotNames are the slots of a node group. PCS takes one block per compute node group, and an update replaces its
// nodes, so on PCS a node group has two slots.
func SlotNames(p Provider, group string) []string {
	return GroupSettings{Name: group}.SlotNames(p)
}

// SlotNames are the slots of the node group: with PCS two; with provider ec2 one, or two if the settings say so.
func (g GroupSettings) SlotNames(p Provider) []string {
	if p == ProviderPCS || g.Slots == 2 {
		return []string{g.Name + "-a", g.Name + "-b"}
	}
	return []string{g.Name}
}

// SlotOf is the slot of a Slurm node that the settings do not list, by the node's name: SLOT-NUMBER. It is false for
// any other name.
func SlotOf(node string) (slot string, ok bool) {
	at := strings.LastIndexByte(node, '-')
	if at < 1 || at == len(node)-1 || strings.Trim(node[at+1:], "0123456789") != "" {
		return "", false
	}
	return node[:at], true
}

// PlaceOf finds the partition, node group and slot of a Slurm node by its name alone; false if no settings cover the
// node.
func (s Settings) PlaceOf(node string) (p PartitionSettings, g GroupSettings, slot string, ok bool) {
	byName, named := SlotOf(node)
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if len(g.Nodes) > 0 {
				if _, listed := slices.BinarySearch(g.Nodes, node); listed {
					return p, g, g.Name, true
				}
				continue
			}
			if named && slices.Contains(g.SlotNames(p.Provider), byName) {
				return p, g, byName, true
			}
		}
	}
	return p, g, "", false
}

// Astray returns the partition's nodes that the settings have in other partitions only: its jobs would run on those
// partitions' reservations, past every check.
func (s Settings) Astray(partition string, nodes []string) []string {
	var own Settings
	for _, p := range s.Partitions {
		if p.Name == partition {
			own.Partitions = append(own.Partitions, p)
		}
	}
	var astray []string
	for _, node := range nodes {
		_, _, _, ours := s.PlaceOf(node)
		if _, _, _, its := own.PlaceOf(node); ours && !its {
			astray = append(astray, node)
		}
	}
	return astray
}
