package wire

import (
	"context"
	"errors"

	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// PCS shows a PCS cluster, by name or id, to the control loop.
type PCS struct {
	*pcs.Client
	Cluster string
}

// Held are those of the compute node groups that exist, each with the reservation that
// our tag names; "" for one that does not carry the tag of this cluster.
func (p PCS) Held(ctx context.Context, groups []string) (map[string]string, error) {
	if p.Cluster == "" {
		return nil, errors.New("the settings name no PCS cluster; add cluster = \"NAME\"")
	}
	slots, err := p.Slots(ctx, p.Cluster, groups)
	if err != nil {
		return nil, err
	}
	held := map[string]string{}
	for _, slot := range slots {
		held[slot.Name] = slot.ReservationID
	}
	return held, nil
}
