package power

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// freshSnapshot is a snapshot of EC2's current state for the named partitions. It has the other partitions only with
// the ids of the settings. seen is what is already known about where reservations are.
func (r *Resume) freshSnapshot(ctx context.Context, names map[string]bool,
	seen capacity.Seen) (*capacity.Snapshot, error) {
	fresh, err := r.freshFacts(ctx, names)
	if err != nil {
		return nil, err
	}
	seen.Subnets, seen.Reservations = fresh.Subnets, append(seen.Reservations, fresh.Reservations...)
	snap := capacity.Build(r.Settings, seen)
	snap.TakenAt = r.now()
	return snap, nil
}

// freshFacts asks EC2 about the reservations and subnets of the named partitions: a launch is decided on the current
// state, never on the snapshot file.
func (r *Resume) freshFacts(ctx context.Context, names map[string]bool) (capacity.Seen, error) {
	var subnets, ids []string
	var selects []capacity.GroupSettings
	for _, p := range r.Settings.Partitions {
		if !names[p.Name] {
			continue
		}
		for _, g := range p.Groups {
			subnets = append(subnets, g.SubnetIDs...)
			ids = append(ids, g.ReservationIDs...)
			if g.PurchaseOption.Bought() {
				r.EC2.ExpectBlocks()
			}
			if g.Select != nil {
				selects = append(selects, g)
			}
		}
	}
	var seen capacity.Seen
	var found []capacity.Reservation
	selected := make([][]capacity.Reservation, len(selects))
	reads, ctx := errgroup.WithContext(ctx)
	for i, g := range selects {
		reads.Go(func() (err error) {
			if selected[i], err = r.EC2.ReservationsByTag(ctx, g.Select.Tags); err != nil {
				return fmt.Errorf("finding the reservations of node group %s: %w", g.Name, err)
			}
			return nil
		})
	}
	reads.Go(func() error {
		known, missing, err := r.EC2.KnownSubnets(ctx, subnets)
		for _, m := range missing {
			r.Log.Warn("EC2 does not describe a subnet of the settings; nothing is launched into it", "subnet", m.ID,
				"err", m.Err)
		}
		seen.Subnets = known
		return err
	})
	reads.Go(func() error {
		some, unknown, err := r.EC2.Reservations(ctx, ids)
		if err != nil {
			return err
		}
		for _, m := range unknown {
			// A reservation missing from one answer still has its slot: no other may take it.
			if r.Last == nil {
				break
			}
			if before, ok := r.Last.Reservation(m.ID); ok && before.LiveAt(r.now()) {
				some = append(some, before)
			}
		}
		found = some
		return nil
	})
	if err := reads.Wait(); err != nil {
		return capacity.Seen{}, err
	}
	seen.Reservations = append(slices.Concat(selected...), found...)
	return seen, nil
}
