package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
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
			t.slots = append(t.slots, remainingSlot{name: name, base: base})
		}
		at := slices.IndexFunc(templates, func(lt capacity.LaunchTemplate) bool { return lt.Name == pcs.TemplateName(t.request.Mark, base) })
		if at >= 0 {
			t.slots[len(t.slots)-1].template = templates[at]
		}
	}
	if len(t.slots) == 0 {
		return nil
	}
	ids, err := s.EC2.InstanceIDsByTag(ctx, map[string][]string{capacity.TagCluster: {t.request.Mark}, capacity.TagPartition: {t.request.Queue}})
	if err != nil {
		return fmt.Errorf("looking for instances of partition %s: %w", t.request.Queue, err)
	}
	t.slots[0].instances = len(ids)
	t.byHand = append(t.byHand, "take the nodes out of slurm.conf on Slurm's controller, and restart slurmctld, with\n  pcs-capacity hooks install")
	if len(ids) > 0 {
		t.byHand = append(t.byHand, fmt.Sprintf("instances run (%d); `sync` ends them once their nodes are out of Slurm", len(ids)))
	}
	return s.askSlurm(ctx, t)
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
