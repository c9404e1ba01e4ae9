package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// readSubnets asks for the subnets of the settings and, on PCS, for those of the cluster
// and its VPC, as setup does. They are in the settings' region.
func readSubnets(ctx context.Context, cfg *maybeConfig, aws *ec2.Client) market.Subnets {
	var ids []string
	for _, p := range cfg.Partitions {
		for _, g := range p.Groups {
			ids = append(ids, g.SubnetIDs...)
		}
	}

	if cfg.Cluster != "" {
		cluster, err := newPCS(aws).Cluster(ctx, cfg.Cluster)
		if err != nil {
			return market.Subnets{Err: err}
		}

		ids = append(ids, cluster.SubnetIDs...)
	}

	return market.ReadSubnets(ctx, aws.In(cfg.Region), ids, cfg.Cluster != "")
}

// idleNodes are the nodes that Slurm has idle, or why it does not say.
type idleNodes struct {
	names []string
	err   error
}

// slurmWait bounds the question to Slurm, which a laptop does not have and a login node may not reach.
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
		if n.IsUp() && n.BaseState() == "IDLE" {
			idle.names = append(idle.names, n.Name)
		}
	}

	return idle
}

// owner names what of the settings has a reservation, as far as it is known.
type owner struct {
	Partition string `json:"partition"`
	Slot      string `json:"slot"`
	// NodesIdle count as free; nil where Slurm does not say, or no partition has it.
	NodesIdle *int   `json:"nodes_idle"`
	WaitsFor  string `json:"waits_for,omitempty"` // the reservation that has the slot in its place
	problem   string // of one that waits
}

// UsedBy returns partition and slot, such as gpu/gpu-a.
func (o owner) UsedBy() string {
	if o.Slot == "" {
		return o.Partition
	}
	return o.Partition + "/" + o.Slot
}

// owned maps the reservations of the settings to their owners.
type owned struct {
	byID    map[string]owner
	idle    map[string]int // the idle nodes that could be counted, by reservation
	snap    *capacity.Snapshot
	idleErr error // why Slurm did not say which nodes are idle
}

func (o owned) of(id string) owner { return o.byID[id] }

// ownedOf finds the slots of reservations of one region as sync does: it goes on from where the last
// snapshot has them, and takes from it what is not among those that were found.
func ownedOf(cfg *maybeConfig, aws *ec2.Client, found []capacity.Reservation, slurm idleNodes) owned {
	settings, now := cfg.Domain(), aws.In(cfg.Region).Now()

	before, err := state.Dir(cfg.StateDir).ReadSnapshot()
	if err == nil {
		found = append(slices.Clone(found), before.Reservations...)
	}

	snap := capacity.Build(settings, capacity.Facts{Reservations: found, Before: before, Now: now})

	o := owned{byID: map[string]owner{}, idle: map[string]int{}, idleErr: slurm.err, snap: snap}
	if o.idleErr == nil { // for the reservations that are not counted below
		o.idleErr = errors.New("the slots of its reservations are unknown until `pcs-capacity sync` has run")
	}

	idleBySlot := map[string]int{}
	for _, node := range slurm.names {
		if _, _, slot, ok := settings.FindNode(node); ok {
			idleBySlot[slot]++
		}
	}

	idle := snap.IdleByReservation(idleBySlot)
	for _, t := range snap.AllTurns() {
		one := owner{Partition: t.Partition.Name}
		if len(t.Group.Slots) == 1 || err == nil { // else only sync has seen which of them it has
			one.Slot = t.Slot.Name
			if n := idle[t.Reservation.ID]; slurm.err == nil {
				one.NodesIdle, o.idle[t.Reservation.ID] = &n, n
			}
		}

		o.byID[t.Reservation.ID] = one
	}

	for _, w := range snap.WaitingTurns(now) {
		one := o.byID[w.Reservation.ID]
		one.WaitsFor, one.problem = w.Behind, w.WaitProblem().Text()
		o.byID[w.Reservation.ID] = one
	}

	return o
}

// inRegion returns the reservations that are in a region.
func inRegion(region string, all []capacity.Reservation) []capacity.Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(r capacity.Reservation) bool { return r.Region != region })
}

// say tells what of some reservations waits for its turn, and that instances may be idle nodes of ours which nobody
// could count.
func (o owned) say(t *terminal.Terminal, waits bool, all ...capacity.Reservation) {
	uncounted := false
	for _, r := range all {
		own, ours := o.byID[r.ID]
		if waits && own.problem != "" {
			t.Say("%s", own.problem)
		}

		uncounted = uncounted || ours && r.Used() > 0 && own.NodesIdle == nil
	}

	if uncounted {
		t.Say("Idle nodes of the cluster could not be counted: %s", o.idleErr)
	}
}
