package market

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// GroupFor returns the first node group of the settings that buys blocks of a type and has one of the
// subnets.
func GroupFor(cfg *config.Config, instanceType string,
	subnets []string) (capacity.PartitionSettings, capacity.GroupSettings, bool) {
	for _, p := range cfg.Partitions {
		for _, g := range p.Groups {
			if g.InstanceType == instanceType && g.PurchaseOption.Bought() &&
				slices.ContainsFunc(g.SubnetIDs, func(id string) bool { return slices.Contains(subnets, id) }) {
				return p, g, true
			}
		}
	}
	return capacity.PartitionSettings{}, capacity.GroupSettings{}, false
}

// overlapping returns the reservations of a node group that are open at the same time as r,
// reservations without an end included.
func overlapping(g capacity.GroupSettings, r capacity.Reservation, others []capacity.Reservation) (ids []string) {
	for _, o := range others {
		has := slices.Contains(g.ReservationIDs, o.ID) || g.Select != nil && g.Select.Matches(o)
		if has && o.ID != r.ID && o.State.Live() && (r.End.IsZero() || o.Start.Before(r.End)) &&
			(o.End.IsZero() || r.Start.Before(o.End)) {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// slotTaken is the remedy for a reservation that finds no slot in a node group.
func slotTaken(p capacity.PartitionSettings, g capacity.GroupSettings, r capacity.Reservation, taken []string) string {
	hooks := "\n  pcs-capacity hooks install"
	text := fmt.Sprintf("  %s would wait: node_group %q of partition %q (%s) has %s at that time. ", r.ID, g.Name,
		p.Name, p.File, strings.Join(taken, ", "))
	switch {
	case p.Provider.Guest():
		text, hooks = text+"Add it", ""
	case g.Slots < 2:
		text += "Set slots = 2 there and add it to capacity_reservation_ids, or add it"
	default:
		text += "Add it"
	}
	return text + " to another node_group; then run" + hooks + "\n  pcs-capacity sync"
}

// NextStep lists the steps that make a block usable, in lines to read or to run, with the names of
// the settings where they have a node group for it. others are the reservations that sync saw.
func NextStep(cfg *config.Config, subnets Subnets, r capacity.Reservation, others []capacity.Reservation) string {
	p, g, found := GroupFor(cfg, r.InstanceType, subnets.In(r.AZID).Subnets)
	if found && !p.Provider.Configures() {
		if taken := overlapping(g, r, others); len(taken) >= max(g.Slots, 1) {
			return slotTaken(p, g, r, taken)
		}
	}
	switch {
	case found && !p.Provider.Configures() && g.Select != nil:
		return fmt.Sprintf(
			"  give %s the tags that node_group %q of partition %q selects (%s), then run\n  pcs-capacity sync", r.ID,
			g.Name, p.Name, p.File)
	case found && !p.Provider.Configures():
		return fmt.Sprintf(
			"  add %q to capacity_reservation_ids of node_group %q of partition %q (%s), then run\n  pcs-capacity sync",
			r.ID, g.Name, p.Name, p.File)
	case !found && cfg.Cluster == "" && len(cfg.Partitions) > 0:
		return fmt.Sprintf("  add %q to a [[partition.node_group]] of %s in %s (%s), then run\n  pcs-capacity sync",
			r.ID, r.InstanceType, capacity.FormatZone(r.AZID, r.AZ), cfg.Path)
	}
	command := "  pcs-capacity setup --reservation " + r.ID
	if !found {
		return command + " --queue QUEUE"
	}
	command += " --queue " + p.Name
	if len(p.Groups) > 1 || g.Name != p.Name {
		command += " --node-group " + g.Name
	}
	return command
}
