package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file keeps a job for which capacity is held in one zone, and its nodes of one node group
// on one type. Nodes that are up already say where: the rest is launched there or not at all. If
// it cannot be, the job goes back into the queue, and those of its nodes that no other job has
// are powered down, so that its next launch is free to choose.

// neighbor is a node of a job that is up, or on its way there, while others are launched for it.
type neighbor struct {
	node, group string
	// azID and instanceType are its instance's; "" if EC2 does not show one.
	azID, instanceType string
}

func (n neighbor) String() string { return fmt.Sprintf("%s in %s", n.instanceType, n.azID) }

// Codes of launches that neighbors keep from everywhere.
const (
	severalPlaces = "several-places"
	noPlaceBeside = "no-place-beside"
	placeUnknown  = "place-unknown"
)

// besideNeighbors are those of the targets of a node group that are where the neighbors are.
// hostlist is Slurm's list of names.
func besideNeighbors(targets []target, group string, near []neighbor, hostlist func([]string) string) ([]target, error) {
	if len(near) == 0 {
		return targets, nil
	}
	refused := func(code, message string) error {
		return &refusal{code: code, message: message + "; nodes that no other job uses are powered down, and the job is launched anew in one place", letGo: nodesOf(near)}
	}
	where := map[string][]string{} // nodes by place
	var places []string
	var azID, instanceType string
	several := false
	for _, n := range near {
		if n.azID == "" {
			return nil, refused(placeUnknown, fmt.Sprintf("%s is up, or about to be, and nobody knows in which zone", n.node))
		}
		if where[n.String()] == nil {
			places = append(places, n.String())
		}
		where[n.String()] = append(where[n.String()], n.node)
		several = several || azID != "" && n.azID != azID
		azID = n.azID
		if n.group == group {
			several = several || instanceType != "" && n.instanceType != instanceType
			instanceType = n.instanceType
		}
	}
	var said []string
	for _, p := range places {
		said = append(said, fmt.Sprintf("%s as %s", hostlist(where[p]), p))
	}
	up := "nodes of the job are up: " + strings.Join(said, ", ")
	if several {
		return nil, refused(severalPlaces, up)
	}
	var there []target
	for _, t := range targets {
		if t.azID == azID && (instanceType == "" || t.instanceType == instanceType) {
			there = append(there, t)
		}
	}
	if len(there) == 0 {
		return nil, refused(noPlaceBeside, up+", and the rest cannot be launched there")
	}
	return there, nil
}

func nodesOf(near []neighbor) (nodes []string) {
	for _, n := range near {
		nodes = append(nodes, n.node)
	}
	return nodes
}

// targets are chooseTargets for nodes of a group, beside the nodes that its jobs have already
// if capacity is held for them.
func (u *powerUp) targets(jobs []capacity.Job, at place, nodes int, among map[string]bool) ([]target, []neighbor, error) {
	targets, err := chooseTargets(jobs, at, nodes, u.facts)
	if err != nil || !holds(targets) {
		return targets, nil, err
	}
	near := u.neighbors(jobs, among)
	targets, err = besideNeighbors(targets, at.group.Name, near, u.Slurm.Hostlist)
	return targets, near, err
}

func holds(targets []target) bool {
	return slices.ContainsFunc(targets, func(t target) bool { return t.hold })
}

// neighbors are the nodes of jobs that are ours and not among those that are launched.
func (u *powerUp) neighbors(jobs []capacity.Job, among map[string]bool) (near []neighbor) {
	seen := map[string]bool{}
	for _, j := range jobs {
		for _, n := range j.Nodes {
			at, ours := u.placeOf(n)
			if !ours || at.partition.Provider != capacity.ProviderEC2 || among[n] || seen[n] {
				continue
			}
			seen[n] = true
			one := neighbor{node: n, group: at.group.Name}
			if live := u.facts.live[n]; len(live) == 1 {
				one = u.neighbor(n, at, live[0])
			}
			near = append(near, one)
		}
	}
	return near
}

func (u *powerUp) neighbor(node string, at place, i capacity.Instance) neighbor {
	return neighbor{node, at.group.Name, u.facts.zoneOf(i.SubnetID), i.Type}
}

// zoneOf is the id of the zone of a subnet of the settings; "" of another one.
func (f *facts) zoneOf(subnetID string) string {
	for _, p := range f.snap.Partitions {
		for _, g := range p.Groups {
			for _, s := range g.Subnets {
				if s.ID == subnetID {
					return s.AZID
				}
			}
		}
	}
	return ""
}

// besideLaunched are the targets of a part, as they are when others of its job are launched.
func (u *powerUp) besideLaunched(p part, got map[string]launched) ([]target, error) {
	if !p.together {
		return p.targets, nil
	}
	near := slices.Clone(p.near)
	for n, l := range got {
		at, _ := u.placeOf(n)
		near = append(near, u.neighbor(n, at, l.instance))
	}
	return besideNeighbors(p.targets, p.place.group.Name, near, u.Slurm.Hostlist)
}

// letGo powers down those of the nodes that no job but the given ones has, when they are idle.
func (r *Resume) letGo(ctx context.Context, nodes []string, but []capacity.Job) {
	if len(nodes) == 0 {
		return
	}
	jobs, err := r.Slurm.Jobs(ctx)
	used := map[string]bool{}
	for _, j := range jobs {
		if j.Allocated() && !slices.ContainsFunc(but, func(b capacity.Job) bool { return b.ID == j.ID }) {
			for _, n := range j.Nodes {
				used[n] = true
			}
		}
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return used[n] })
	if err == nil && len(nodes) > 0 {
		r.Log.Info("powered down, since a job has no room beside them", "nodes", r.Slurm.Hostlist(nodes))
		err = r.Slurm.PowerDown(ctx, nodes, "powered down: the rest of a job found no room beside it")
	}
	if err != nil {
		r.Log.Warn("nodes that a job found no room beside stay up", "nodes", r.Slurm.Hostlist(nodes), "err", err)
	}
}

// besideOf are the nodes to let go after a launch failed.
func besideOf(err error) []string {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.letGo
	}
	var none *notHeld
	if errors.As(err, &none) {
		return none.letGo
	}
	return nil
}
