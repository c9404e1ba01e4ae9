package hooks

import (
	"context"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// place is where a node belongs, found by the node's name alone.
type place struct {
	partition capacity.PartitionSettings
	group     capacity.GroupSettings
	slot      string
}

func (r *Resume) placeOf(node string) (at place, ok bool) {
	at.partition, at.group, at.slot, ok = r.Settings.PlaceOf(node)
	return at, ok
}

// freshSnapshot asks EC2 about the reservations and subnets of the named partitions:
// a launch is decided on what is true now, never on the snapshot file. The other
// partitions are in it with the ids of the settings only. seen is what is known already of
// where reservations are.
func (r *Resume) freshSnapshot(ctx context.Context, names map[string]bool, seen capacity.Seen) (*capacity.Snapshot, error) {
	var subnets, ids []string
	for _, p := range r.Settings.Partitions {
		if !names[p.Name] {
			continue
		}
		for _, g := range p.Groups {
			subnets = append(subnets, g.SubnetIDs...)
			ids = append(ids, g.ReservationIDs...)
			if g.Select == nil {
				continue
			}
			found, err := r.EC2.ReservationsByTag(ctx, g.Select.Tags)
			if err != nil {
				return nil, fmt.Errorf("finding the reservations of node group %s: %w", g.Name, err)
			}
			seen.Reservations = append(seen.Reservations, found...)
		}
	}
	var missing []capacity.Missing
	var err error
	if seen.Subnets, missing, err = r.EC2.KnownSubnets(ctx, subnets); err != nil {
		return nil, err
	}
	for _, m := range missing {
		r.Log.Warn("EC2 does not describe a subnet of the settings; nothing is launched into it", "subnet", m.ID, "err", m.Err)
	}
	found, unknown, err := r.EC2.Reservations(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, m := range unknown {
		// What is left out of one answer still has its slot: another must not be taken for it.
		if r.Last == nil {
			break
		}
		if before, ok := r.Last.Reservation(m.ID); ok && before.LiveAt(r.now()) {
			found = append(found, before)
		}
	}
	seen.Reservations = append(seen.Reservations, found...)
	snap := capacity.Build(r.Settings, seen)
	snap.TakenAt = r.now()
	return snap, nil
}
