package market

import (
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// GroupFor returns the first node group of the settings that buys blocks of a type and has one of the subnets.
func GroupFor(cfg *config.Config, instanceType string,
	subnets []string,
) (capacity.PartitionSettings, capacity.GroupSettings, bool) {
	for _, p := range cfg.Partitions {
		for _, g := range p.Groups {
			if g.InstanceType == instanceType && g.PurchaseOption.IsBlock() &&
				slices.ContainsFunc(g.SubnetIDs, func(id string) bool { return slices.Contains(subnets, id) }) {
				return p, g, true
			}
		}
	}

	return capacity.PartitionSettings{}, capacity.GroupSettings{}, false
}

// NextStep lists the steps that make a block usable, in lines to read or to run, with the names of
// the settings where they have a node group for it.
func NextStep(cfg *config.Config, subnets Subnets, r capacity.Reservation) string {
	p, g, found := GroupFor(cfg, r.InstanceType, subnets.Zone(r.AZID).Subnets)
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
