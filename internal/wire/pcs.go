package wire

import (
	"context"
	"errors"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// PCS shows a PCS cluster, by name or id, to hooks and to the control loop.
type PCS struct {
	pcs.Provisioner
	Cluster string
}

// Held are those of the compute node groups that exist, each with the reservation that
// our tag names; "" for one that does not carry the tag of this cluster.
func (p PCS) Held(ctx context.Context, groups []string) (map[string]string, error) {
	if p.Cluster == "" {
		return nil, errors.New("the settings name no PCS cluster; add cluster = \"NAME\"")
	}
	slots, err := p.PCS.Slots(ctx, p.Cluster, groups)
	if err != nil {
		return nil, err
	}
	held := map[string]string{}
	for _, slot := range slots {
		held[slot.Name] = slot.ReservationID
	}
	return held, nil
}

// Configure makes a compute node group right for a reservation.
func (p PCS) Configure(ctx context.Context, group string, r capacity.Reservation, g capacity.NodeGroup) (bool, error) {
	var subnets, inZone []string
	for _, s := range g.Subnets {
		subnets = append(subnets, s.ID)
		if s.AZID == r.AZID {
			inZone = append(inZone, s.ID)
		}
	}
	own := ""
	if len(inZone) == 1 {
		own = inZone[0]
	}
	return p.Provisioner.Configure(ctx, pcs.ConfigureRequest{Cluster: p.Cluster, Group: group, Reservation: r, SubnetIDs: subnets, SubnetID: own,
		MaxNodes: g.MaxNodes, Dynamic: g.Dynamic})
}
