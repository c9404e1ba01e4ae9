package power

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// This file keeps a job that gets an ODCR in one zone, and its nodes of one node group on one instance type. Nodes
// that are already up decide both: the rest is launched there or not at all. If that fails, the job goes back into
// the queue, and its nodes that no other job has are powered down, so its next launch is free to choose.

// neighbor is a node of the job that is up or booting while the job's other nodes are launched.
type neighbor struct {
	node, group string
	// azID and instanceType are those of its instance; "" if EC2 does not show one.
	azID, instanceType string
}

func (n neighbor) String() string { return fmt.Sprintf("%s in %s", n.instanceType, n.azID) }

// besideNeighbors returns the targets of a node group that are where the neighbors are.
func besideNeighbors(targets []target, group string, near []neighbor) ([]target, *Failure) {
	if len(near) == 0 {
		return targets, nil
	}
	refused := func(code capacity.Code, message string) *Failure {
		f := refusal(code,
			"%s; nodes that no other job uses are powered down, and the job is launched anew in one place", message)
		f.LetGo = nodesOf(near)
		return f
	}
	where := map[string][]string{} // nodes by place
	var places []string
	var azID, instanceType string
	several := false
	for _, n := range near {
		if n.azID == "" {
			return nil, refused(capacity.PlaceUnknown,
				fmt.Sprintf("%s is up, or about to be, and nobody knows in which zone", n.node))
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
		said = append(said, fmt.Sprintf("%s as %s", hostlist.Compress(where[p]), p))
	}
	up := "nodes of the job are up: " + strings.Join(said, ", ")
	if several {
		return nil, refused(capacity.SeveralPlaces, up)
	}
	var there []target
	for _, t := range targets {
		if t.azID == azID && (instanceType == "" || t.instanceType == instanceType) {
			there = append(there, t)
		}
	}
	if len(there) == 0 {
		return nil, refused(capacity.NoPlaceBeside, up+", and the rest cannot be launched there")
	}
	return there, nil
}

func nodesOf(near []neighbor) (nodes []string) {
	for _, n := range near {
		nodes = append(nodes, n.node)
	}
	return nodes
}

// targets is chooseTargets for nodes of a group; if the jobs get an ODCR, restricted to the place of the nodes that
// they already have.
func (f *facts) targets(jobs []capacity.Job, at place, nodes int,
	among map[string]bool) ([]target, []neighbor, *Failure) {
	targets, refused := f.chooseTargets(jobs, at, nodes)
	if refused != nil || !holds(targets) {
		return targets, nil, refused
	}
	near := f.neighbors(jobs, among)
	targets, refused = besideNeighbors(targets, at.group.Name, near)
	return targets, near, refused
}

func holds(targets []target) bool {
	return slices.ContainsFunc(targets, func(t target) bool { return t.hold })
}

// neighbors returns our nodes that the jobs have, except those being launched.
func (f *facts) neighbors(jobs []capacity.Job, among map[string]bool) (near []neighbor) {
	seen := map[string]bool{}
	for _, j := range jobs {
		for _, n := range j.Nodes {
			at, ours := f.placeOf(n)
			if !ours || !at.partition.Provider.Launches() || among[n] || seen[n] {
				continue
			}
			seen[n] = true
			one := neighbor{node: n, group: at.group.Name}
			if live := f.live[n]; len(live) == 1 {
				one = f.neighbor(n, at, live[0])
			}
			near = append(near, one)
		}
	}
	return near
}

func (f *facts) neighbor(node string, at place, i capacity.Instance) neighbor {
	return neighbor{node, at.group.Name, f.zoneOf(i.SubnetID), i.Type}
}

// zoneOf is the zone id of a subnet of the settings; "" for any other subnet.
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

// besideLaunched restricts the targets of a part to the place where other nodes of its job have just been launched.
func (f *facts) besideLaunched(p part, got map[string]launched) ([]target, *Failure) {
	if !p.together {
		return p.targets, nil
	}
	near := slices.Clone(p.near)
	for n, l := range got {
		at, _ := f.placeOf(n)
		near = append(near, f.neighbor(n, at, l.instance))
	}
	return besideNeighbors(p.targets, p.place.group.Name, near)
}
