package main

import (
	"context"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/wiring"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// wiredCluster is a PCS cluster with its node groups and queues.
type wiredCluster struct {
	wiring.Cluster
	aws *ec2.Client
}

func readCluster(ctx context.Context, g *Globals, cfg *config.Config) (*wiredCluster, error) {
	aws, err := newEC2(ctx, g, &maybeConfig{cfg, true})
	if err != nil {
		return nil, err
	}
	p := pcs.Provisioner{PCS: newPCS(aws), EC2: aws}
	inv, err := p.PCS.Inventory(ctx, cfg.Cluster)
	if err != nil {
		return nil, err
	}
	change := func(ctx context.Context, change map[string]string) error {
		return p.ChangeClusterSettings(ctx, inv.Cluster.ID, change)
	}
	return &wiredCluster{wiring.Cluster{Inventory: inv, Change: change}, aws}, nil
}

// closed refuses to touch the cluster while a block is open: paid hours are not for changes
// of slurmctld.
func (c wiredCluster) closed(ctx context.Context, cfg *config.Config) error {
	settings := cfg.Domain()
	var ids []string
	var selected []capacity.Reservation
	for _, p := range settings.Partitions {
		for _, g := range p.Groups {
			ids = append(ids, g.ReservationIDs...)
			if g.Select != nil {
				some, err := c.aws.ReservationsByTag(ctx, g.Select.Tags)
				if err != nil {
					return err
				}
				selected = append(selected, some...)
			}
		}
	}
	found, _, err := c.aws.Reservations(ctx, ids)
	if err != nil {
		return err
	}
	found = append(found, selected...)
	for _, r := range found {
		if r.Kind.Bought() && r.LiveAt(c.aws.Now()) && !r.Start.After(c.aws.Now()) {
			return fmt.Errorf(
				"block %s is open until %s, and PCS changes the settings of a cluster by restarting its slurmctld; run this again before a block opens or after it ended, or with --force",
				r.ID, capacity.FormatUTC(r.End))
		}
	}
	return nil
}
