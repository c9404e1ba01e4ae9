package power

import (
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// group is a set of nodes that is launched whole or not at all: the nodes of one job, and of every job that shares a
// node with it.
type group struct {
	// nodes in the order of Slurm's hostlists.
	nodes []string
	// jobs that wait for a node of the group and still hold it, by id; none for nodes
	// that sync or an administrator powered up.
	jobs []capacity.Job
	// lost are jobs that ended between the power-up and this hook.
	lost []int
}

// wait is a job and nodes that are powered up for it.
type wait struct {
	job   int
	nodes []string
}

// launchGroups divides nodes into groups, in the order of their first nodes. nodes are sorted; other nodes of the
// jobs are ignored.
func launchGroups(nodes []string, waits []wait, known []capacity.Job) []group {
	holds := map[int]capacity.Job{} // of those that have their nodes
	for _, j := range known {
		if j.Allocated() {
			holds[j.ID] = j
		}
	}
	of := map[string]*group{} // by node
	for _, n := range nodes {
		of[n] = &group{nodes: []string{n}}
	}
	for _, w := range waits {
		var g *group
		for _, n := range w.nodes {
			other := of[n]
			switch {
			case other == nil || other == g:
			case g == nil:
				g = other
			default: // the job joins them
				g.nodes, g.jobs = append(g.nodes, other.nodes...), append(g.jobs, other.jobs...)
				g.lost = append(g.lost, other.lost...)
				for _, n := range other.nodes {
					of[n] = g
				}
			}
		}
		if g == nil {
			continue
		}
		job, has := holds[w.job]
		switch {
		case !has:
			g.lost = append(g.lost, w.job)
		case !slices.ContainsFunc(g.jobs, func(j capacity.Job) bool { return j.ID == w.job }):
			g.jobs = append(g.jobs, job)
		}
	}
	var groups []group
	index := map[*group]int{}
	for _, n := range nodes {
		i, there := index[of[n]]
		if !there {
			i = len(groups)
			index[of[n]] = i
			groups = append(groups, group{jobs: of[n].jobs, lost: of[n].lost})
			slices.SortFunc(groups[i].jobs, func(a, b capacity.Job) int { return a.ID - b.ID })
		}
		groups[i].nodes = append(groups[i].nodes, n)
	}
	return groups
}

// waiting are the nodes that jobs have.
func waiting(jobs []capacity.Job) (waits []wait) {
	for _, j := range jobs {
		if j.Allocated() {
			waits = append(waits, wait{j.ID, j.Nodes})
		}
	}
	return waits
}

// shown are the jobs' ids as squeue shows them.
func shown(jobs []capacity.Job) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.Shown)
	}
	return ids
}

// without is a list without some of its names.
func without(names []string, gone func(name string) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), gone)
}
