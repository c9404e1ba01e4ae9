package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// showZone says whether the cluster can run nodes in the zone of an offering (R10).
func showZone(t *terminal.Terminal, cfg *maybeConfig, cluster clusterSubnets, o capacity.Offering) {
	where := capacity.FormatZone(o.AZID, o.AZ)
	use := cluster.in(o.AZID)
	switch {
	case cluster.err != nil:
		t.Say("WARNING: whether the cluster can use %s is not known: %s", where, firstLine(cluster.err))
	case len(cluster.own) == 0:
		t.Say("  cluster  not compared: the settings name no cluster and no subnet")
	case len(use.Subnets) > 0:
		t.Say("  cluster  has %s in this zone%s", strings.Join(use.Subnets, ", "), usedBy(cfg.Config, o.InstanceType, use.Subnets))
	default:
		t.Say("WARNING: THE CLUSTER HAS NO SUBNET IN %s, where this block would lie; it has %s.", where, zonesOf(cluster.own))
		t.Say("WARNING: Only a subnet in the block's own zone can run its nodes: %s.", remedy(use))
	}
}

func remedy(use zoneUse) string {
	if len(use.Neighbours) > 0 {
		return fmt.Sprintf("give %s, which is in its VPC, to `pcs-capacity setup --subnet-ids`, or take another offering", use.Neighbours[0])
	}
	return "make one before you buy, or take another offering"
}

func zonesOf(subnets []capacity.Subnet) string {
	var parts []string
	for _, s := range subnets {
		if part := fmt.Sprintf("%s in %s", s.ID, capacity.FormatZone(s.AZID, s.AZ)); !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

func usedBy(cfg *config.Config, instanceType string, subnets []string) string {
	p, g, found := groupFor(cfg, instanceType, subnets)
	if !found {
		return ""
	}
	return fmt.Sprintf(", used by node group %s of partition %s", g.Name, p.Name)
}

// groupFor is the first node group of the settings that buys blocks of a type and has
// one of the subnets.
func groupFor(cfg *config.Config, instanceType string, subnets []string) (config.Partition, config.NodeGroup, bool) {
	for _, p := range cfg.Partitions {
		for _, g := range p.NodeGroups {
			if g.InstanceType == instanceType && g.PurchaseOption == capacity.CapacityBlock &&
				slices.ContainsFunc(g.SubnetIDs, func(id string) bool { return slices.Contains(subnets, id) }) {
				return p, g, true
			}
		}
	}
	return config.Partition{}, config.NodeGroup{}, false
}

// nextStep is what makes a block usable, with the names of the settings where they have
// a node group for it.
func nextStep(cfg *maybeConfig, cluster clusterSubnets, r capacity.Reservation) string {
	p, g, found := groupFor(cfg.Config, r.InstanceType, cluster.in(r.AZID).Subnets)
	switch {
	case found && p.Provider == capacity.ProviderEC2 && g.Select != nil:
		return fmt.Sprintf("  give %s the tags that node_group %q of partition %q selects (%s), then run\n  pcs-capacity sync", r.ID, g.Name, p.Name, p.File)
	case found && p.Provider == capacity.ProviderEC2:
		return fmt.Sprintf("  add %q to capacity_reservation_ids of node_group %q of partition %q (%s), then run\n  pcs-capacity sync", r.ID, g.Name, p.Name, p.File)
	case !found && cfg.Cluster == "" && len(cfg.Partitions) > 0:
		return fmt.Sprintf("  add %q to a [[partition.node_group]] of %s in %s (%s), then run\n  pcs-capacity sync", r.ID, r.InstanceType, capacity.FormatZone(r.AZID, r.AZ), cfg.Path)
	}
	command := "  pcs-capacity setup --reservation " + r.ID
	if found {
		command += fmt.Sprintf(" --queue %s --node-group %s", p.Name, g.Name)
	} else {
		command += " --queue QUEUE --node-group NAME --like NODE_GROUP"
	}
	if cfg.Cluster == "" {
		command += " --cluster CLUSTER"
	}
	return command
}
