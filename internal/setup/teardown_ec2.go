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

// findOnEC2 finds the remains of a partition of self-managed Slurm by the settings, and by our tag with the partition's
// name on launch templates and instances. Of a partition with somebody else's nodes there is nothing in EC2.
func (s Setup) findOnEC2(ctx context.Context, t *remains) (err error) {
	t.inv.Cluster.Name = t.request.Mark
	if t.anothers() {
		return nil
	}
	var templates []capacity.LaunchTemplate
	guest := t.request.Provider.Guest()
	if !guest {
		templates, err = s.EC2.LaunchTemplatesByTag(ctx,
			map[string]string{capacity.TagCluster: t.request.Mark, capacity.TagPartition: t.request.Queue})
		if err != nil {
			return err
		}
	}
	for _, base := range t.basesOnEC2(templates) {
		names := []string{base}
		if !guest {
			names = t.slotsOnEC2(base)
		}
		for _, name := range names {
			t.slots = append(t.slots, slotState{name: name, base: base, nodes: slices.Clone(t.entry(base).Nodes)})
		}
		for _, lt := range templates {
			if lt.Name == pcs.TemplateName(t.request.Mark, base) {
				t.slots[len(t.slots)-1].template = lt
			}
		}
	}
	if guest {
		return s.askSlurm(ctx, t)
	}
	instances, err := instancesOnEC2(ctx, s.EC2, t.request.Mark, t.request.Queue, t.going())
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		at := slices.IndexFunc(t.slots, func(slot slotState) bool { return slot.name == name })
		if at < 0 {
			at = len(t.slots)
			t.slots = append(t.slots, slotState{name: name, base: name})
		}
		t.slots[at].instances = len(instances[name])
		for _, i := range instances[name] {
			t.slots[at].nodes = union(t.slots[at].nodes, []string{i.Tags[capacity.TagNode]})
		}
	}
	if len(t.slots) == 0 {
		return nil
	}
	t.byHand = append(t.byHand,
		"take the nodes out of slurm.conf on Slurm's controller, and restart slurmctld, with\n  pcs-capacity hooks install")
	return s.askSlurm(ctx, t)
}

// anothers adds a problem and returns true if the partition has another provider than requested.
func (t *remains) anothers() bool {
	p, found := t.partition()
	if !found || p.Provider == t.request.Provider {
		return false
	}
	t.problem(capacity.WrongProvider, "give --provider "+string(p.Provider), "partition %q of %s has provider %q",
		p.Name, p.File, p.Provider)
	return true
}

// instancesOnEC2 returns our instances of the slots to be removed, by slot.
func instancesOnEC2(ctx context.Context, aws interface {
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
}, mark, queue string, what going) (map[string][]capacity.Instance, error) {
	ours, err := aws.InstancesByTag(ctx,
		map[string][]string{capacity.TagCluster: {mark}, capacity.TagPartition: {queue}})
	if err != nil {
		return nil, fmt.Errorf("looking for instances of partition %s: %w", queue, err)
	}
	found := map[string][]capacity.Instance{}
	for _, i := range capacity.WithNodes(ours, slurm.Expand) {
		if node := i.Tags[capacity.TagNode]; node != "" && !i.Ended() {
			if slot, goes := what.slotOf(node); goes {
				found[slot] = append(found[slot], i)
			}
		}
	}
	return found, nil
}

// going selects the nodes of a partition that are removed.
type going struct {
	// Slots are those of the request, with their known nodes.
	Slots map[string][]string
	// All: nodes of unknown slots go too, except slots in Stay.
	All  bool
	Stay []string
}

func (t *remains) going() going {
	what := going{Slots: t.slotNodes(), All: t.request.NodeGroup == ""}
	if t.request.Config != nil {
		for _, p := range t.request.Config.Partitions {
			for _, g := range p.Groups {
				what.Stay = append(what.Stay, g.SlotNames(p.Provider)...)
			}
		}
	}
	return what
}

// slotOf returns the slot of a node, and whether it goes.
func (g going) slotOf(node string) (slot string, goes bool) {
	for name, nodes := range g.Slots {
		if slices.Contains(nodes, node) {
			return name, true
		}
	}
	slot, named := capacity.SlotOf(node)
	if !named {
		slot = node
	}
	_, has := g.Slots[slot]
	return slot, has || g.All && !slices.Contains(g.Stay, slot)
}

// entry returns a node group of the settings; zero if they do not have it.
func (t *remains) entry(base string) capacity.GroupSettings {
	p, _ := t.partition()
	return groupOf(p, base)
}

// basesOnEC2 returns the node groups to be removed.
func (t *remains) basesOnEC2(templates []capacity.LaunchTemplate) []string {
	var bases []string
	p, _ := t.partition()
	for _, g := range p.Groups {
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

// slotsOnEC2 returns the slots of a node group; if it has left the settings, all that it may have had.
func (t *remains) slotsOnEC2(base string) []string {
	if g := t.entry(base); g.Name != "" {
		return g.SlotNames(capacity.ProviderEC2)
	}
	return slices.DeleteFunc([]string{base + "-a", base + "-b", base},
		func(slot string) bool { return slot != base && t.elsewhere(slot) })
}

// elsewhere reports whether the settings have a slot.
func (t *remains) elsewhere(slot string) bool { return slices.Contains(t.going().Stay, slot) }
