package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// configure makes the compute node groups of slots right for the reservations that
// they were set up for. PCS launches their nodes itself; nothing is sent down here.
func (r *Resume) configure(ctx context.Context, slots map[string]place) error {
	ctx, cancel := context.WithTimeout(ctx, configureBudget)
	defer cancel()
	partitions := map[string]bool{}
	for _, at := range slots {
		partitions[at.partition.Name] = true
	}
	names := slices.Sorted(maps.Keys(slots))
	held, err := r.PCS.Held(ctx, names)
	if err != nil {
		return err
	}
	snap, err := r.freshSnapshot(ctx, partitions, capacity.Seen{Held: held})
	if err != nil {
		return err
	}
	var errs []error
	for _, slot := range names {
		at := slots[slot]
		record := state.Record{At: r.now(), Hook: "resume", Partition: at.partition.Name, Code: string(capacity.OK)}
		record.Reservation, record.Message, err = r.configureSlot(ctx, at, held[slot], snap)
		if err != nil {
			f := explain(err)
			record.Code, record.EC2Code, record.Message = f.code, f.ec2Code, hook.OneLine(f.message)
			errs = append(errs, err)
		}
		r.record(record)
	}
	return errors.Join(errs...)
}

func (r *Resume) configureSlot(ctx context.Context, at place, id string, snap *capacity.Snapshot) (reservation, done string, err error) {
	if id == "" {
		return "", "", fmt.Errorf("compute node group %s was set up for no reservation; run `pcs-capacity setup`", at.slot)
	}
	p, _ := snap.Partition(at.partition.Name)
	g := p.Groups[slices.IndexFunc(p.Groups, func(g capacity.NodeGroup) bool { return g.Name == at.group.Name })]
	res, known := snap.Reservation(id)
	if !known {
		return id, "", &refusal{code: string(capacity.ReservationNotKnown), message: fmt.Sprintf("reservation %s of compute node group %s is not in the settings of partition %s, or EC2 does not describe it", id, at.slot, p.Name)}
	}
	for _, m := range capacity.Match(res, g, r.now()) {
		if m.Code != capacity.WrongSize { // a group may be smaller or larger than its block
			return id, "", &refusal{code: string(capacity.Mismatched), message: m.Text()}
		}
	}
	g.Subnets = slices.DeleteFunc(slices.Clone(g.Subnets), func(s capacity.Subnet) bool { return s.AZID != res.AZID })
	changed, err := r.PCS.Configure(ctx, at.slot, res, g)
	switch {
	case err != nil:
		return id, "", fmt.Errorf("configuring compute node group %s: %w", at.slot, err)
	case changed:
		return id, "configured compute node group " + at.slot, nil
	}
	return id, "compute node group " + at.slot + " is as it should be", nil
}
