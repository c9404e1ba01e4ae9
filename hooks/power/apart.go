package power

import (
	"cmp"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file separates jobs whose common launch failed. Jobs that share a node are launched together, so one job can
// spoil the launch of the others: it needs more nodes than one place has, or names a place that is full. That job
// alone is charged with the failure and goes back into the queue; the others are launched at once.

// spot is where a job could be launched.
type spot struct {
	slot   string
	target target
}

// ask is the request of one job of a group; the components of a het job are one ask.
type ask struct {
	jobs  []capacity.Job
	nodes map[string]bool // of the group
	where map[spot]bool
}

// asks are those of the jobs of a group.
func (f *facts) asks(g group) []ask {
	among := setOf(g.nodes)
	var all []ask
	for _, j := range g.jobs {
		one := ask{jobs: []capacity.Job{j}, nodes: map[string]bool{}, where: map[spot]bool{}}
		slots, counts := map[string]place{}, map[string]int{}
		for _, n := range j.Nodes {
			if at, ours := f.placeOf(n); ours && among[n] {
				one.nodes[n] = true
				slots[at.slot] = at
				counts[at.slot]++
			}
		}
		for slot, at := range slots {
			targets, _, refused := f.targets(one.jobs, at, counts[slot], among)
			if refused != nil {
				clear(one.where)
				break
			}
			for _, t := range targets {
				one.where[spot{slot, t}] = true
			}
		}
		i := slices.IndexFunc(all, func(a ask) bool { return j.HetJobID != 0 && a.jobs[0].HetJobID == j.HetJobID })
		if i < 0 {
			all = append(all, one)
			continue
		}
		all[i].jobs = append(all[i].jobs, j)
		for n := range one.nodes {
			all[i].nodes[n] = true
		}
		for s := range one.where {
			all[i].where[s] = true
		}
	}
	return all
}

// charged returns the jobs to be tried without the others of their group. It ranks the jobs: first those that can go
// to most places, of these the ones with fewest nodes, then the oldest. A job is charged if it would enlarge the
// launch of those before it by a node, or narrow it by a place.
func charged(asks []ask) (apart []capacity.Job) {
	order := slices.Clone(asks)
	slices.SortStableFunc(order, func(a, b ask) int {
		return cmp.Or(len(b.where)-len(a.where), len(a.nodes)-len(b.nodes), a.jobs[0].ID-b.jobs[0].ID)
	})
	var kept []ask // of jobs that share nodes the first, with all the nodes
	for _, a := range order {
		shares := slices.DeleteFunc(slices.Clone(kept), func(k ask) bool { return !intersect(a.nodes, k.nodes) })
		switch {
		case len(shares) == 0:
			kept = append(kept, a)
		case len(shares) > 1 || !within(a.nodes, shares[0].nodes) || !within(shares[0].where, a.where):
			apart = append(apart, a.jobs...)
		}
	}
	return apart
}

func intersect[K comparable](a, b map[K]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

// within reports whether a is a subset of b.
func within[K comparable](a, b map[K]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

// blame divides the failed groups into charged jobs, whose nodes' other jobs are launched once more without them, and
// the rest: groups where nobody is charged, where EC2 may have launched something, where part of a group runs, or
// where no time is left. known are the jobs as they were when the run began.
func (f *facts) blame(outcomes []outcome, known []capacity.Job,
	noTime bool) (rest []outcome, nodes []string, out []refusedJob) {
	f = f.deciding()
	for _, o := range outcomes {
		var charge []capacity.Job
		if len(o.jobs) > 1 {
			charge = charged(f.asks(o.group))
		}
		if len(charge) == 0 {
			rest = append(rest, o)
			continue
		}
		if !o.failure.Outcome.Nothing() || o.failure.is(capacity.NotTried) || len(o.launched) > 0 || noTime {
			o.behind = map[string]bool{}
			for _, j := range charge {
				o.behind[j.Shown] = true
			}
			rest = append(rest, o)
			continue
		}
		at, _ := f.placeOf(o.nodes[0])
		for _, j := range charge {
			out = append(out, refusedJob{Job: j, partition: at.partition.Name, why: o.failure, later: true, behind: true})
		}
		nodes = append(nodes, o.nodes...)
	}
	return rest, nodes, wholeHetJobs(out, known)
}
