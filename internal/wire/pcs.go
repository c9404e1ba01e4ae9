package wire

import (
	"context"
	"errors"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// PCS shows a PCS cluster, by name or id, to hooks and to the control loop.
type PCS struct {
	pcs.Setup
	Cluster string
}

// Held are those of the compute node groups that exist, each with the reservation that
// our tag names; "" for one that does not carry the tag of this cluster.
func (p PCS) Held(ctx context.Context, groups []string) (map[string]string, error) {
	if p.Cluster == "" {
		return nil, errors.New("the settings name no PCS cluster; add cluster = \"NAME\"")
	}
	cluster, err := p.PCS.Cluster(ctx, p.Cluster)
	if err != nil {
		return nil, err
	}
	held := map[string]string{}
	for _, name := range groups {
		g, found, err := p.PCS.NodeGroup(ctx, cluster.ID, name)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		held[name] = ""
		if g.Tags[capacity.TagCluster] == cluster.Name {
			held[name] = g.Tags[capacity.TagReservation]
		}
	}
	return held, nil
}

// Configure makes a compute node group right for a reservation.
func (p PCS) Configure(ctx context.Context, group string, r capacity.Reservation, g capacity.NodeGroup) (bool, error) {
	var subnets []string
	for _, s := range g.Subnets {
		subnets = append(subnets, s.ID)
	}
	return p.Setup.Configure(ctx, pcs.ConfigureRequest{Cluster: p.Cluster, Group: group, Reservation: r, SubnetIDs: subnets,
		MaxNodes: g.MaxNodes, Dynamic: g.Dynamic})
}
