package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// configureBudget is the time for changes of compute node groups: PCS replaces a launch
// template in minutes, and Slurm's ResumeTimeout does not wait for it.
const configureBudget = 15 * time.Minute

// PCS is a cluster of PCS, by name or id.
type PCS struct {
	pcs.Provisioner
	Cluster string
}

// configure makes the compute node groups of slots match their reservations. PCS itself launches the nodes; nothing
// is sent down here.
func (r *Resume) configure(ctx context.Context, slots map[string]place) error {
	ctx, cancel := context.WithTimeout(ctx, configureBudget)
	defer cancel()
	partitions := map[string]bool{}
	for _, at := range slots {
		partitions[at.partition.Name] = true
	}
	names := slices.Sorted(maps.Keys(slots))
	held, err := r.PCS.PCS.Slots(ctx, r.PCS.Cluster, names)
	if err != nil {
		return err
	}
	snap, err := r.freshSnapshot(ctx, partitions, capacity.Seen{Held: held})
	if err != nil {
		return err
	}
	x := r.executor(ctx, ctx, configureBudget)
	var errs []error
	for _, slot := range names {
		m := configuring{at: slots[slot], reservation: held[slot], snap: snap, now: r.now()}
		s := walk(m, Answer{}, func(e capacity.Effect) Answer { return x.Do(ctx, e) })
		if s.failure != nil {
			errs = append(errs, s.failure)
		}
	}
	return errors.Join(errs...)
}

// configure makes a compute node group match a reservation.
func (p *PCS) configure(ctx context.Context, e Configure) (bool, error) {
	request := pcs.ConfigureRequest{Cluster: p.Cluster, Group: e.Slot, Reservation: e.Reservation,
		MaxNodes: e.Group.MaxNodes, Dynamic: e.Group.Dynamic}
	for _, s := range e.Group.Subnets { // those in the reservation's zone
		request.SubnetIDs = append(request.SubnetIDs, s.ID)
	}
	if len(request.SubnetIDs) == 1 {
		request.SubnetID = request.SubnetIDs[0]
	}
	changed, err := p.Configure(ctx, request)
	if err != nil {
		err = fmt.Errorf("configuring compute node group %s: %w", e.Slot, err)
	}
	return changed, err
}
