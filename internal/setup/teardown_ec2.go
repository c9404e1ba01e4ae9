package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// findOnEC2 finds what there is of a partition of self-managed Slurm: by the settings, and by
// our tag with its name on launch templates.
func (s Setup) findOnEC2(ctx context.Context, t *remains) error {
	t.inv.Cluster.Name = t.request.Mark
	if p, found := t.partition(); found && p.Provider != capacity.ProviderEC2 {
		t.problem("provider", "give --provider "+string(p.Provider), "partition %q of %s has provider %q", p.Name, p.File, p.Provider)
		return nil
	}
	templates, err := s.EC2.LaunchTemplatesByTag(ctx, map[string]string{capacity.TagCluster: t.request.Mark, capacity.TagPartition: t.request.Queue})
	if err != nil {
		return err
	}
	for _, base := range t.basesOnEC2(templates) {
		for _, name := range t.slotsOnEC2(base) {
			t.slots = append(t.slots, remainingSlot{name: name, base: base, nodes: t.listedNodes(base)})
		}
		at := slices.IndexFunc(templates, func(lt capacity.LaunchTemplate) bool { return lt.Name == pcs.TemplateName(t.request.Mark, base) })
		if at >= 0 {
			t.slots[len(t.slots)-1].template = templates[at]
		}
	}
	instances, err := s.instancesOnEC2(ctx, t)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		at := slices.IndexFunc(t.slots, func(slot remainingSlot) bool { return slot.name == name })
		if at < 0 {
			at = len(t.slots)
			t.slots = append(t.slots, remainingSlot{name: name, base: name})
		}
		t.slots[at].instances = len(instances[name])
		for _, i := range instances[name] {
			t.slots[at].nodes = union(t.slots[at].nodes, []string{i.Tags[capacity.TagNode]})
		}
	}
	if len(t.slots) == 0 {
		return nil
	}
	t.byHand = append(t.byHand, "take the nodes out of slurm.conf on Slurm's controller, and restart slurmctld, with\n  pcs-capacity hooks install")
	return s.askSlurm(ctx, t)
}

// instancesOnEC2 are the instances that we launched for what is to go, by slot.
func (s Setup) instancesOnEC2(ctx context.Context, t *remains) (map[string][]capacity.Instance, error) {
	ours, err := s.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: {t.request.Mark}, capacity.TagPartition: {t.request.Queue}})
	if err != nil {
		return nil, fmt.Errorf("looking for instances of partition %s: %w", t.request.Queue, err)
	}
	found := map[string][]capacity.Instance{}
	for _, i := range capacity.WithNodes(ours, slurm.Expand) {
		if node := i.Tags[capacity.TagNode]; node != "" && !i.Ended() {
			if slot, goes := t.slotOf(node); goes {
				found[slot] = append(found[slot], i)
			}
		}
	}
	return found, nil
}

// slotOf is the slot of a node, and whether it is to go.
func (t *remains) slotOf(node string) (slot string, goes bool) {
	has := func(name string) bool {
		return slices.ContainsFunc(t.slots, func(slot remainingSlot) bool { return slot.name == name })
	}
	for _, s := range t.slots {
		if slices.Contains(s.nodes, node) {
			return s.name, true
		}
	}
	slot, named := capacity.SlotOf(node)
	if !named {
		slot = node
	}
	return slot, has(slot) || t.request.NodeGroup == "" && !t.elsewhere(slot)
}

// listedNodes are the nodes that settings list for a node group.
func (t *remains) listedNodes(base string) []string {
	if t.request.Config != nil {
		for _, p := range t.request.Config.Domain().Partitions {
			for _, g := range p.Groups {
				if p.Name == t.request.Queue && g.Name == base {
					return slices.Clone(g.Nodes)
				}
			}
		}
	}
	return nil
}

// basesOnEC2 are the node groups that are to go.
func (t *remains) basesOnEC2(templates []capacity.LaunchTemplate) []string {
	var bases []string
	p, _ := t.partition()
	for _, g := range p.NodeGroups {
		bases = append(bases, g.Name)
	}
	for _, template := range templates {
		if base, isOurs := strings.CutPrefix(template.Name, pcs.TemplateName(t.request.Mark, "")); isOurs {
			bases = union(bases, []string{base})
		}
	}
	for _, g := range t.former() {
		bases = union(bases, []string{g.Name})
	}
	if one := t.request.NodeGroup; one != "" {
		if !slices.Contains(bases, one) && !t.elsewhere(one) {
			return []string{one} // Slurm may have something left of it
		}
		return slices.DeleteFunc(bases, func(base string) bool { return base != one })
	}
	return bases
}

// slotsOnEC2 are the slots of a node group; where the settings do not have it any more, all
// that it may have had.
func (t *remains) slotsOnEC2(base string) []string {
	if t.request.Config != nil {
		for _, p := range t.request.Config.Domain().Partitions {
			for _, g := range p.Groups {
				if p.Name == t.request.Queue && g.Name == base {
					return g.SlotNames(capacity.ProviderEC2)
				}
			}
		}
	}
	return slices.DeleteFunc([]string{base + "-a", base + "-b", base}, func(slot string) bool { return slot != base && t.elsewhere(slot) })
}

// elsewhere reports whether a slot is one of a node group that stays.
func (t *remains) elsewhere(slot string) bool {
	if t.request.Config == nil {
		return false
	}
	for _, p := range t.request.Config.Domain().Partitions {
		for _, g := range p.Groups {
			if slices.Contains(g.SlotNames(p.Provider), slot) {
				return true
			}
		}
	}
	return false
}
