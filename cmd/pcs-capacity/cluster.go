package main

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// clusterSubnets is where the configured cluster can run nodes.
type clusterSubnets struct {
	// own are the subnets of the settings and of the PCS cluster.
	own []capacity.Subnet
	// byZone and nearByZone are ids by Availability Zone id (R10): own ones, and others
	// of the same VPCs, which `setup --subnet-ids` can use.
	byZone, nearByZone map[string][]string
	// err is why they are not known.
	err error
}

// zoneUse is what a cluster has in one zone. Its fields are nil when nobody knows.
type zoneUse struct {
	Subnets []string `json:"subnets"`
	// Neighbours are subnets of the cluster's VPC that the cluster does not use yet.
	Neighbours []string `json:"neighbour_subnets"`
}

// in is what the cluster has in a zone. Nobody knows while EC2 shows no zone, as it may
// until a block opens.
func (s clusterSubnets) in(azID string) zoneUse {
	if s.err != nil || azID == "" {
		return zoneUse{}
	}
	return zoneUse{emptyIfNil(s.byZone[azID]), emptyIfNil(s.nearByZone[azID])}
}

// rank sorts zones: with a subnet, with a neighbour, without.
func (u zoneUse) rank() int {
	switch {
	case len(u.Subnets) > 0:
		return 0
	case len(u.Neighbours) > 0:
		return 1
	}
	return 2
}

// shown is the cell of a table: neighbours are in parentheses.
func (u zoneUse) shown() string {
	switch {
	case u.Subnets == nil:
		return "?"
	case len(u.Subnets) > 0:
		return u.Subnets[0] + more(len(u.Subnets))
	case len(u.Neighbours) > 0:
		return "(" + u.Neighbours[0] + more(len(u.Neighbours)) + ")"
	}
	return ""
}

func more(n int) string {
	if n < 2 {
		return ""
	}
	return ", …"
}

// readClusterSubnets asks for the subnets of the settings and, on PCS, for those of the
// cluster and its VPC, as setup does. They lie in the settings' region.
func readClusterSubnets(ctx context.Context, g *Globals, cfg *maybeConfig, aws *ec2.Client) clusterSubnets {
	var s clusterSubnets
	s.err = s.read(ctx, g, cfg, aws.In(cfg.Region))
	return s
}

func (s *clusterSubnets) read(ctx context.Context, g *Globals, cfg *maybeConfig, home *ec2.Client) error {
	ids := subnetIDs(cfg.Config)
	if cfg.Cluster != "" {
		pcsClient, err := newPCS(ctx, g, cfg)
		if err != nil {
			return err
		}
		cluster, err := pcsClient.Cluster(ctx, cfg.Cluster)
		if err != nil {
			return err
		}
		ids = append(ids, cluster.SubnetIDs...)
	}
	var err error
	if s.own, err = home.Subnets(ctx, ids); err != nil {
		return err
	}
	s.byZone, s.nearByZone = map[string][]string{}, map[string][]string{}
	isOwn := map[string]bool{}
	for _, n := range s.own {
		isOwn[n.ID] = true
		s.byZone[n.AZID] = append(s.byZone[n.AZID], n.ID)
	}
	if cfg.Cluster == "" {
		return nil
	}
	near, err := home.NeighbourSubnets(ctx, ids)
	for _, n := range near {
		if !isOwn[n.ID] {
			s.nearByZone[n.AZID] = append(s.nearByZone[n.AZID], n.ID)
		}
	}
	return err
}

// subnetIDs are the subnets that the settings name.
func subnetIDs(cfg *config.Config) []string {
	var ids []string
	for _, p := range cfg.Partitions {
		for _, g := range p.NodeGroups {
			ids = append(ids, g.SubnetIDs...)
		}
	}
	return ids
}
