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

// Waiting is a job and nodes that are powered up for it.
type Waiting struct {
	Job   int
	Nodes []string
}

// launchGroups divides nodes into groups, in the order of their first nodes. nodes are sorted; other nodes of the
// jobs are ignored.
func launchGroups(nodes []string, waits []Waiting, known []capacity.Job) []group {
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
		for _, n := range w.Nodes {
			if _, ours := leader[n]; !ours {
				continue
			}
			if other, seen := first[w.Job]; seen {
				leader[find(n)] = find(other)
			} else {
				first[w.Job] = n
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
		n, ours := first[w.Job]
		if !ours {
			continue
		}
		g := &groups[index[find(n)]]
		job, there := holds[w.Job]
		switch {
		case !there:
			g.lost = append(g.lost, w.Job)
		case !slices.ContainsFunc(g.jobs, func(j capacity.Job) bool { return j.ID == w.Job }):
			g.jobs = append(g.jobs, job)
		}
	}
	for _, g := range groups {
		slices.SortFunc(g.jobs, func(a, b capacity.Job) int { return a.ID - b.ID })
	}
	return groups
}

// abandoned reports whether every job that the nodes were powered up for is gone.
func (g group) abandoned() bool { return len(g.jobs) == 0 && len(g.lost) > 0 }

// shown are the jobs' ids as squeue shows them.
func (g group) shown() []string {
	var ids []string
	for _, j := range g.jobs {
		ids = append(ids, j.Shown)
	}
	return ids
}

// restarts are those of the jobs before this run.
func (g group) restarts() []int {
	var counts []int
	for _, j := range g.jobs {
		counts = append(counts, j.Restarts)
	}
	return counts
}
