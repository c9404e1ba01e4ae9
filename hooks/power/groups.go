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
	leader := map[string]string{}
	for _, n := range nodes {
		leader[n] = n
	}
	find := func(n string) string {
		for leader[n] != n {
			n = leader[n]
		}
		return n
	}
	first := map[int]string{} // of each job
	for _, w := range waits {
		for _, n := range w.nodes {
			if _, ours := leader[n]; !ours {
				continue
			}
			if other, seen := first[w.job]; seen {
				leader[find(n)] = find(other)
			} else {
				first[w.job] = n
			}
		}
	}
	holds := map[int]capacity.Job{} // of those that have their nodes
	for _, j := range known {
		if j.Allocated() {
			holds[j.ID] = j
		}
	}
	index := map[string]int{}
	var groups []group
	for _, n := range nodes {
		at, seen := index[find(n)]
		if !seen {
			at = len(groups)
			index[find(n)] = at
			groups = append(groups, group{})
		}
		groups[at].nodes = append(groups[at].nodes, n)
	}
	for _, w := range waits {
		n, ours := first[w.job]
		if !ours {
			continue
		}
		g := &groups[index[find(n)]]
		job, there := holds[w.job]
		switch {
		case !there:
			g.lost = append(g.lost, w.job)
		case !slices.ContainsFunc(g.jobs, func(j capacity.Job) bool { return j.ID == w.job }):
			g.jobs = append(g.jobs, job)
		}
	}
	for _, g := range groups {
		slices.SortFunc(g.jobs, func(a, b capacity.Job) int { return a.ID - b.ID })
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

// setOf is a set of names.
func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// without is a list without some of its names.
func without(names []string, gone func(name string) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), gone)
}
