package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// configureBudget bounds the changes of compute node groups: PCS replaces a launch template in minutes, and Slurm's
// ResumeTimeout does not wait for it.
const configureBudget = 15 * time.Minute

// configureSlots makes the compute node groups of slots match their reservations. PCS itself launches the nodes;
// nothing is taken down here.
func (h *Hook) configureSlots(ctx context.Context, slots map[string]slotInfo, last *capacity.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, configureBudget)
	defer cancel()

	partitions := map[string]bool{}
	for _, at := range slots {
		partitions[at.partition.Name] = true
	}

	names := slices.Sorted(maps.Keys(slots))

	// What a node group was set up for is PCS's to say; the settings may have moved on.
	held, err := h.Slots(ctx, h.Cluster, names)
	if err != nil {
		return err
	}

	seen, err := h.freshFacts(ctx, partitions, last)
	if err != nil {
		return err
	}

	seen.Held = held

	snap := capacity.Build(h.Settings, seen)
	snap.TakenAt = h.Now()

	var errs []error
	for _, slot := range names {
		errs = append(errs, h.configure(ctx, slots[slot], held[slot], snap))
	}

	return errors.Join(errs...)
}

// configure makes a compute node group match the reservation that it was set up for, "" for none, and records it.
func (h *Hook) configure(ctx context.Context, at slotInfo, reservation string, snap *capacity.Snapshot) error {
	record := state.Record{
		At:          h.Now(),
		Hook:        "resume",
		Partition:   at.partition.Name,
		Reservation: reservation,
		Code:        string(capacity.OK),
		Message:     "compute node group " + at.name + " is up to date",
	}

	request, err := configuration(h.Cluster, at, reservation, snap, h.Now())
	changed := false
	if err == nil {
		changed, err = h.Configure(ctx, request)
	}

	if changed {
		record.Message = "configured compute node group " + at.name
	}

	if err != nil {
		err = fmt.Errorf("compute node group %s: %w", at.name, err)
		p, code := problemOf(err)
		record.Code = string(p.Code)
		record.EC2Code = code
		record.Message = hook.OneLine(p.Text())
	}

	h.record(record)

	return err
}

// configuration returns what a compute node group must match: the reservation, and the subnets in its zone.
func configuration(
	cluster string, at slotInfo, reservation string, snap *capacity.Snapshot, now time.Time,
) (pcs.ConfigureRequest, error) {
	request := pcs.ConfigureRequest{Cluster: cluster, Group: at.name}
	if reservation == "" {
		return request, errors.New("it has not been set up for a reservation; run `pcs-capacity setup`")
	}

	p, g := at.settingsIn(snap)
	r, known := snap.Reservation(reservation)
	if !known {
		return request, refuse(capacity.ReservationNotKnown,
			"reservation %s is not in the settings of partition %s, or EC2 does not describe it", reservation, p.Name)
	}

	// PCS would accept the change, and then launch nothing.
	for _, m := range capacity.Match(r, g, now) {
		if m.Code != capacity.WrongSize { // a group may be smaller or larger than its block
			return request, refuse(capacity.Mismatched, "%s", m.Text())
		}
	}

	request.Reservation = r
	request.MaxNodes = g.MaxNodes
	request.Dynamic = g.Dynamic
	for _, s := range g.Subnets {
		if s.AZID == r.AZID {
			request.SubnetIDs = append(request.SubnetIDs, s.ID)
		}
	}

	// With EFA interfaces the launch template itself names the subnet, so it must be the only one.
	if len(request.SubnetIDs) == 1 {
		request.SubnetID = request.SubnetIDs[0]
	}

	return request, nil
}
