package capacity

import (
	"fmt"
	"slices"
)

// ActionsDiffer returns the node groups of the settings whose two slots run different lifecycle actions of PCS when
// their nodes boot: somebody has changed those of one, and the other's next block comes up without the change.
func ActionsDiffer(made []Made, settings Settings) (differ []string) {
	actions := map[string]string{}
	for _, m := range made {
		if m.What == MadeNodeGroup {
			actions[m.Name] = m.Actions
		}
	}
	for _, p := range settings.Partitions {
		for _, g := range p.Groups {
			names := SlotNames(ProviderPCS, g.Name)
			a, hasA := actions[names[0]]
			b, hasB := actions[names[1]]
			if p.Provider == ProviderPCS && hasA && hasB && a != b {
				differ = append(differ, g.Name)
			}
		}
	}
	return differ
}

// OfActions returns the problems of node groups whose slots differ, as far as the settings have them.
func OfActions(differ []string, settings Settings) (all []Problem) {
	for _, p := range settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider != ProviderPCS || !slices.Contains(differ, g.Name) {
				continue
			}
			slots := SlotNames(p.Provider, g.Name)
			all = append(all, Problemf(ActionsNotAlike, Subject{Partition: p.Name},
				fmt.Sprintf("run `pcs-capacity setup --queue %s --node-group %s --reservation CR` for the block that is not open yet: it takes those of the slot that was changed last", p.Name, g.Name),
				"nodes of %s and of %s run different lifecycle actions at their boot", slots[0], slots[1]))
		}
	}
	return all
}
