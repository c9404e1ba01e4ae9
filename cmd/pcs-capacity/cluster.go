package main

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
)

// readSubnets asks for the subnets of the settings and, on PCS, for those of the cluster
// and its VPC, as setup does. They are in the settings' region.
func readSubnets(ctx context.Context, cfg *maybeConfig, aws *ec2.Client) market.Subnets {
	ids := subnetIDs(cfg.Config)
	if cfg.Cluster != "" {
		cluster, err := newPCS(aws).Cluster(ctx, cfg.Cluster)
		if err != nil {
			return market.Subnets{Err: err}
		}
		ids = append(ids, cluster.SubnetIDs...)
	}
	return market.ReadSubnets(ctx, aws.In(cfg.Region), ids, cfg.Cluster != "")
}

// subnetIDs are the subnets that the settings name.
func subnetIDs(cfg *config.Config) []string {
	var ids []string
	for _, p := range cfg.Partitions {
		for _, g := range p.Groups {
			ids = append(ids, g.SubnetIDs...)
		}
	}
	return ids
}

// subnetWord says in a table whether the cluster can run nodes in a zone: it has a subnet
// there, or only its VPC has one, which setup --subnet-ids takes.
func subnetWord(use market.ZoneUse) string {
	switch {
	case use.Subnets == nil:
		return "?"
	case len(use.Subnets) > 0:
		return "yes"
	case len(use.Neighbours) > 0:
		return "in VPC"
	}
	return "no"
}

// subnetCell names the subnets: neighbours are in parentheses.
func subnetCell(use market.ZoneUse) string {
	switch {
	case use.Subnets == nil:
		return "?"
	case len(use.Subnets) > 0:
		return use.Subnets[0] + more(len(use.Subnets))
	case len(use.Neighbours) > 0:
		return "(" + use.Neighbours[0] + more(len(use.Neighbours)) + ")"
	}
	return ""
}

func more(n int) string {
	if n < 2 {
		return ""
	}
	return ", …"
}
