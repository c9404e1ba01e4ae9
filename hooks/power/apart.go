package power

import (
	"cmp"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file takes jobs apart whose common launch failed. Jobs that share a node are launched
// together, so one of them can spoil the launch of the others: it needs more nodes than there
// are in one place, or names a place that is full. It alone is charged with the failure: it goes
// back into the queue, and the others are launched at once.

// spot is where a job could be launched.
type spot struct {
	slot   string
	target target
}

// ask is what a job of a group asks for by itself; the components of a het job are one.
type ask struct {
	jobs  []capacity.Job
	nodes map[string]bool // of the group
	where map[spot]bool
}

// asks are those of the jobs of a group.
func (u *powerUp) asks(g group) []ask {
	among := setOf(g.nodes)
	var all []ask
	for _, j := range g.jobs {
		one := ask{jobs: []capacity.Job{j}, nodes: map[string]bool{}, where: map[spot]bool{}}
		slots, counts := map[string]place{}, map[string]int{}
		for _, n := range j.Nodes {
			if at, ours := u.placeOf(n); ours && among[n] {
				one.nodes[n] = true
				slots[at.slot] = at
				counts[at.slot]++
			}
		}
		for slot, at := range slots {
			targets, _, err := u.targets(one.jobs, at, counts[slot], among)
			if err != nil {
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

// charged are the jobs to be tried without the others of their group. Those that can go to
// most places come first, of these the ones with fewest nodes, then the oldest. Who comes after
// them must not enlarge their launch, by a node more, nor narrow it, by a place less.
func charged(asks []ask) (apart []capacity.Job) {
	order := slices.Clone(asks)
	slices.SortStableFunc(order, func(a, b ask) int {
		return cmp.Or(len(b.where)-len(a.where), len(a.nodes)-len(b.nodes), a.jobs[0].ID-b.jobs[0].ID)
	})
	var kept []ask // of those that share nodes the first, which has all the nodes
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

// within reports whether a has nothing that b has not.
func within[K comparable](a, b map[K]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

// tryApart launches what failed once more, without the jobs that are charged with it. It returns
// what it leaves as it is: where nobody is charged, where the error does not say that nothing is
// there, or where part of a group is there.
func (u *powerUp) tryApart(outcomes []outcome) (rest []outcome) {
	if len(outcomes) == 0 || u.facts == nil {
		return outcomes
	}
	var nodes []string
	var out []refusedJob
	u.deciding.Lock()
	defer u.deciding.Unlock()
	for _, o := range outcomes {
		var blame []capacity.Job
		if o.err != nil && len(o.jobs) > 1 {
			blame = charged(u.asks(o.group))
		}
		if len(blame) == 0 {
			rest = append(rest, o)
			continue
		}
		if !capacity.OutcomeOf(o.err).Nothing() || len(o.launched) > 0 || u.work.Err() != nil {
			o.behind = map[string]bool{}
			for _, j := range blame {
				o.behind[j.Shown] = true
			}
			rest = append(rest, o)
			continue
		}
		f := explain(o.err)
		why := &refusal{code: f.code, ec2Code: f.ec2Code, message: f.message, notBefore: f.notBefore, letGo: besideOf(o.err)}
		at, _ := u.placeOf(o.nodes[0])
		for _, j := range blame {
			out = append(out, refusedJob{Job: j, partition: at.partition.Name, why: why, later: true, behind: true})
		}
		nodes = append(nodes, o.nodes...)
	}
	if len(out) == 0 {
		return rest
	}
	groups, failed := u.takeOut(nodes, wholeHetJobs(out, u.known))
	u.start(groups)
	return append(rest, failed...)
}
