package power

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// freshFacts asks EC2 about the reservations and subnets of the named partitions: a launch is decided on the current
// state, never on the snapshot file.
func (s *site) freshFacts(ctx context.Context, names map[string]bool, last *capacity.Snapshot) (capacity.Seen, error) {
	var subnets, ids []string
	var selects []capacity.GroupSettings
	for _, p := range s.settings.Partitions {
		if !names[p.Name] {
			continue
		}
		for _, g := range p.Groups {
			subnets = append(subnets, g.SubnetIDs...)
			ids = append(ids, g.ReservationIDs...)
			if g.PurchaseOption.Bought() {
				s.ExpectBlocks()
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
			if selected[i], err = s.ReservationsByTag(ctx, g.Select.Tags); err != nil {
				return fmt.Errorf("finding the reservations of node group %s: %w", g.Name, err)
			}
			return nil
		})
	}
	reads.Go(func() error {
		known, missing, err := s.KnownSubnets(ctx, subnets)
		for _, m := range missing {
			s.Warn("EC2 does not describe a subnet of the settings; nothing is launched into it", "subnet", m.ID,
				"err", m.Err)
		}
		seen.Subnets = known
		return err
	})
	reads.Go(func() error {
		some, unknown, err := s.ec2Client.Reservations(ctx, ids)
		if err != nil {
			return err
		}
		for _, m := range unknown {
			// A reservation missing from one answer still has its slot: no other may take it.
			if last == nil {
				break
			}
			if before, ok := last.Reservation(m.ID); ok && before.LiveAt(s.Now()) {
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
