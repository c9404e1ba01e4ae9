package capacity

import "strings"

// SlotNames are the slots of a node group. PCS takes one block per compute node group,
// and an update replaces its nodes, so there a node group stands for two of them.
func SlotNames(p Provider, group string) []string {
	if p == ProviderPCS {
		return []string{group + "-a", group + "-b"}
	}
	return []string{group}
}

// SlotOf is the slot that a Slurm node belongs to: the name of a node is that of its
// slot, a hyphen and a number. It is false for a node of another form, which is in no
// slot.
func SlotOf(node string) (slot string, ok bool) {
	at := strings.LastIndexByte(node, '-')
	if at < 1 || at == len(node)-1 || strings.Trim(node[at+1:], "0123456789") != "" {
		return "", false
	}
	return node[:at], true
}

// PlaceOf finds the partition and the node group that have a Slurm node, by its name
// alone; false for a node that none of them has.
func (s Settings) PlaceOf(node string) (p PartitionSettings, g GroupSettings, slot string, ok bool) {
	slot, ok = SlotOf(node)
	if !ok {
		return p, g, "", false
	}
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			for _, name := range SlotNames(p.Provider, g.Name) {
				if name == slot {
					return p, g, slot, true
				}
			}
		}
	}
	return p, g, "", false
}
