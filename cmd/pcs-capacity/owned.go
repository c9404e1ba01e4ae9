package main

import (
	"context"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// idleNodes are the nodes that Slurm has idle, or why it does not say.
type idleNodes struct {
	names []string
	err   error
}

// slurmWait bounds the question to Slurm, which a laptop does not have and a login node
// may not reach.
const slurmWait = 3 * time.Second

// readIdle asks Slurm, where the settings have a partition.
func readIdle(ctx context.Context, cfg *maybeConfig) idleNodes {
	if len(cfg.Partitions) == 0 {
		return idleNodes{}
	}
	ctx, cancel := context.WithTimeout(ctx, slurmWait)
	defer cancel()
	nodes, err := slurm.New(cfg.Cluster).Nodes(ctx)
	idle := idleNodes{err: err}
	for _, n := range nodes {
		if n.Up() && n.Base() == "IDLE" {
			idle.names = append(idle.names, n.Name)
		}
	}
	return idle
}

// owned is what the partitions of the settings have: reservations by id, with their slots.
type owned struct {
	turns map[string]capacity.Turn
	// idle is how many nodes of a reservation are idle; without an entry nobody knows.
	idle map[string]int
	// waiting are the reservations that another one keeps from their slot.
	waiting []capacity.Turn
	// idleErr is why Slurm did not say.
	idleErr error
}

// ownedOf finds the slots of reservations as sync does: it goes on from where the last
// snapshot has them, and takes from it what is not among those that were found.
func ownedOf(cfg *maybeConfig, aws *ec2.Client, found []capacity.Reservation, slurm idleNodes) owned {
	o := owned{turns: map[string]capacity.Turn{}, idle: map[string]int{}, idleErr: slurm.err}
	if len(cfg.Partitions) == 0 {
		return o
	}
	settings, home := cfg.Domain(), aws.In(cfg.Region).Region()
	before := lastSnapshot(cfg.Config)
	var ours []capacity.Reservation
	for _, r := range found {
		if r.Region == home && hasReservation(settings, r) {
			ours = append(ours, r)
		}
	}
	if before != nil {
		ours = append(ours, before.Reservations...)
	}
	snap := capacity.Build(settings,
		capacity.Seen{Reservations: ours, Before: before, Now: aws.In(cfg.Region).Now()})
	idleBySlot := map[string]int{}
	for _, node := range slurm.names {
		if _, _, slot, ok := settings.PlaceOf(node); ok {
			idleBySlot[slot]++
		}
	}
	idle := snap.IdleIn(idleBySlot)
	for _, t := range snap.AllTurns() {
		id := t.Reservation.ID
		if len(t.Group.Slots) > 1 && before == nil {
			t.Slot = &capacity.Slot{} // which of them it has, only sync has seen
		} else if slurm.err == nil {
			o.idle[id] = idle[id]
		}
		o.turns[id] = t
	}
	o.waiting = snap.Waiting(aws.Now())
	return o
}

// hasReservation reports whether a node group of the settings has a reservation.
func hasReservation(s capacity.Settings, r capacity.Reservation) bool {
	return slices.ContainsFunc(s.Partitions, func(p capacity.PartitionSettings) bool {
		return slices.ContainsFunc(p.Groups, func(g capacity.GroupSettings) bool {
			return slices.Contains(g.ReservationIDs, r.ID) || g.Select.Matches(r)
		})
	})
}

// slotOf is the partition and the slot of a reservation, as far as they are known.
func (o owned) slotOf(id string) (partition, slot string) {
	if t, ours := o.turns[id]; ours {
		return t.Partition.Name, t.Slot.Name
	}
	return "", ""
}

// usedBy is both, as gpu/gpu-a.
func (o owned) usedBy(id string) string {
	partition, slot := o.slotOf(id)
	if slot == "" {
		return partition
	}
	return partition + "/" + slot
}

// idleIn is how many nodes of a reservation are idle; nil where nobody knows.
func (o owned) idleIn(id string) *int {
	if n, known := o.idle[id]; known {
		return &n
	}
	return nil
}

// addTo says in which slots the blocks of a timeline are.
func (o owned) addTo(lanes []capacity.Lane) {
	for _, lane := range lanes {
		for i := range lane.Blocks {
			b := &lane.Blocks[i]
			_, b.Slot = o.slotOf(b.Reservation.ID)
			b.NodesIdle = o.idleIn(b.Reservation.ID)
		}
	}
}

// notCounted reports whether a reservation has instances that may be idle nodes of ours,
// which nobody could count.
func (o owned) notCounted(r capacity.Reservation) bool {
	_, ours := o.turns[r.ID]
	return ours && r.Used() > 0 && o.idleIn(r.ID) == nil
}

// sayNotCounted says why.
func (o owned) sayNotCounted(t *terminal.Terminal) {
	if o.idleErr != nil {
		t.Say("Idle nodes of the cluster could not be counted: %s", o.idleErr)
	} else {
		t.Say("Idle nodes of the cluster could not be counted: which slots its reservations have is not known before `pcs-capacity sync` has run.")
	}
}

// say tells what of a list waits for its turn, and whether idle nodes could not be counted.
func (o owned) say(t *terminal.Terminal, rows []listRow) {
	for _, w := range o.waiting {
		if slices.ContainsFunc(rows, func(r listRow) bool { return r.ID == w.Reservation.ID }) {
			t.Say("%s", w.WaitProblem().Text())
		}
	}
	if slices.ContainsFunc(rows, func(r listRow) bool { return r.Partition != "" && r.Used > 0 && r.NodesIdle == nil }) {
		o.sayNotCounted(t)
	}
}

// lastSnapshot is what sync saw last; nil if it cannot be read. It tells which reservation
// has a slot that several could have.
func lastSnapshot(cfg *config.Config) *capacity.Snapshot {
	snap, err := state.Dir(cfg.StateDir).ReadSnapshot()
	if err != nil {
		return nil
	}
	return snap
}
