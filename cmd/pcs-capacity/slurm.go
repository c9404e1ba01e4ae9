package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmSource shows Slurm to the control loop.
type slurmSource struct{ *slurm.Client }

var _ lifecycle.Slurm = slurmSource{}

func (s slurmSource) Look(ctx context.Context) (*lifecycle.Cluster, error) {
	cfg, err := s.Config(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := s.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	partitions, err := s.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	reservations, err := s.Reservations(ctx)
	if err != nil {
		return nil, err
	}
	c := &lifecycle.Cluster{Version: cfg.Version.String(), TimeMinCollapses: cfg.Version.TimeMinCollapses()}
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, lifecycle.Node{Name: n.Name, Features: n.Features, State: nodeState(n), Up: nodeUp(n)})
	}
	for _, p := range partitions {
		names, err := slurm.Expand(p.Nodes)
		if err != nil {
			return nil, err
		}
		c.Partitions = append(c.Partitions, lifecycle.Partition{Name: p.Name, Default: p.Default, MaxTime: limit(p.MaxTime), Nodes: names})
	}
	for _, r := range reservations {
		names, err := slurm.Expand(r.Nodes)
		if err != nil {
			return nil, err
		}
		c.Reservations = append(c.Reservations, lifecycle.Reservation{Name: r.Name, Nodes: names, Start: r.Start, End: r.End,
			Flags: r.Flags, Users: r.Users, Active: r.Active})
	}
	return c, nil
}

func (s slurmSource) Jobs(ctx context.Context) ([]lifecycle.Job, error) {
	jobs, err := s.Client.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var all []lifecycle.Job
	for _, j := range jobs {
		names, err := slurm.Expand(j.Nodes)
		if err != nil {
			return nil, err
		}
		all = append(all, lifecycle.Job{ID: j.ID, Shown: j.DisplayID(), Partition: j.Partition, State: j.State, Configuring: j.Configuring(),
			Nodes: names, Start: j.Start, End: j.End, Limit: limit(j.TimeLimit), TimeMin: limit(j.TimeMin), Comment: j.Comment})
	}
	return all, nil
}

func (s slurmSource) CreateReservation(ctx context.Context, r lifecycle.Reservation) error {
	return s.Client.CreateReservation(ctx, s.reservation(r))
}

func (s slurmSource) UpdateReservation(ctx context.Context, r lifecycle.Reservation) error {
	return s.Client.UpdateReservation(ctx, s.reservation(r))
}

func (s slurmSource) DeleteReservation(ctx context.Context, name string) error {
	if err := s.Client.DeleteReservation(ctx, name); !errors.Is(err, slurm.ErrNoReserve) {
		return err
	}
	return nil
}

// Hostlist folds node names.
func (slurmSource) Hostlist(names []string) string { return slurm.Compress(names) }

func (s slurmSource) reservation(r lifecycle.Reservation) slurm.Reservation {
	return slurm.Reservation{Name: r.Name, Nodes: s.Hostlist(r.Nodes), Start: r.Start, End: r.End, Flags: r.Flags, Users: r.Users, Active: r.Active,
		Comment: "pcs-capacity sync keeps this; it is made again when deleted"}
}

func limit(l slurm.Limit) capacity.Limit {
	return capacity.Limit{Set: l.Set, Unlimited: l.Infinite, Minutes: l.Minutes}
}

// powerFlags are the states of a node that say more than its base state, the most
// telling first.
var powerFlags = []string{"POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP", "POWERED_DOWN", "DRAIN", "NOT_RESPONDING"}

// nodeState is one word for what a node is doing.
func nodeState(n slurm.Node) string {
	for _, flag := range powerFlags {
		if n.Has(flag) {
			return strings.ToLower(strings.ReplaceAll(flag, "_", "-"))
		}
	}
	return strings.ToLower(n.State)
}

// nodeUp reports whether a node can run jobs: its slurmd answers and nothing keeps
// jobs away, busy or not.
func nodeUp(n slurm.Node) bool {
	if slices.ContainsFunc(powerFlags, n.Has) {
		return false
	}
	switch n.State {
	case "IDLE", "MIXED", "ALLOCATED":
		return true
	}
	return false
}
