package hooks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// place is the slot that a node belongs to, found by the node's name alone.
type place struct {
	partition config.Partition
	group     config.NodeGroup
	slot      string
}

// placeOf finds the slot of a node: the slot's name, a hyphen, and a number.
func placeOf(cfg *config.Config, node string) (place, bool) {
	at := strings.LastIndexByte(node, '-')
	if at < 0 || node[at+1:] == "" || strings.Trim(node[at+1:], "0123456789") != "" {
		return place{}, false
	}
	for _, p := range cfg.Partitions {
		for _, g := range p.NodeGroups {
			if slices.Contains(slotNames(p, g), node[:at]) {
				return place{p, g, node[:at]}, true
			}
		}
	}
	return place{}, false
}

// slotNames are the slots of a node group: PCS has two compute node groups for it.
func slotNames(p config.Partition, g config.NodeGroup) []string {
	if p.Provider == capacity.ProviderPCS {
		return []string{g.Name + "-a", g.Name + "-b"}
	}
	return []string{g.Name}
}

// freshSnapshot asks EC2 about the reservations and subnets of the named partitions:
// a launch is decided on what is true now, never on the snapshot file. The other
// partitions are in it with the ids of the settings only.
func (r *Resume) freshSnapshot(ctx context.Context, names map[string]bool) (*capacity.Snapshot, error) {
	snap := &capacity.Snapshot{Timing: r.Config.Timing.Domain()}
	var subnets, reservations []string
	for _, p := range r.Config.Partitions {
		out := capacity.Partition{Name: p.Name, Provider: p.Provider, AllowAccounts: p.AllowAccounts, MinTime: p.MinTime}
		for _, g := range p.NodeGroups {
			ids := g.ReservationIDs
			if names[p.Name] {
				subnets = append(subnets, g.SubnetIDs...)
				if g.Select != nil {
					found, err := r.EC2.ReservationsByTag(ctx, g.Select.Tags)
					if err != nil {
						return nil, fmt.Errorf("finding the reservations of node group %s: %w", g.Name, err)
					}
					slices.SortFunc(found, func(a, b capacity.Reservation) int { return a.Start.Compare(b.Start) })
					for _, found := range found {
						ids = append(ids, found.ID)
					}
				}
				reservations = append(reservations, ids...)
			}
			group := capacity.NodeGroup{Name: g.Name, InstanceType: g.InstanceType, PurchaseOption: g.PurchaseOption, MaxNodes: g.MaxNodes, Dynamic: g.Dynamic}
			for _, slot := range slotNames(p, g) {
				group.Slots = append(group.Slots, capacity.Slot{Name: slot, ReservationIDs: ids})
			}
			out.Groups = append(out.Groups, group)
		}
		snap.Partitions = append(snap.Partitions, out)
	}
	found, err := r.EC2.Subnets(ctx, unique(subnets))
	if err != nil {
		return nil, err
	}
	for i, p := range r.Config.Partitions {
		for j, g := range p.NodeGroups {
			for _, s := range found {
				if slices.Contains(g.SubnetIDs, s.ID) {
					snap.Partitions[i].Groups[j].Subnets = append(snap.Partitions[i].Groups[j].Subnets, s)
				}
			}
		}
	}
	if len(reservations) > 0 {
		if snap.Reservations, err = r.EC2.Reservations(ctx, unique(reservations)); err != nil {
			return nil, err
		}
	}
	snap.TakenAt = r.now()
	return snap, nil
}

func unique(all []string) []string {
	sorted := slices.Sorted(slices.Values(all))
	return slices.Compact(sorted)
}
