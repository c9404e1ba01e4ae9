package lifecycle

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// feature is the slot's name if every shown node of the slot has it as a feature, else "": Slurm would refuse a job
// with a constraint that no node has.
func (c *Cluster) feature(slot string, nodes []string) string {
	shown := c.shown(nodes)
	if len(shown) == 0 ||
		slices.ContainsFunc(shown, func(n capacity.Node) bool { return !slices.Contains(n.Features, slot) }) {
		return ""
	}
	return slot
}

// parts are the numbers of GPUs and CPUs in a node; if the nodes differ, the largest.
func (c *Cluster) parts(nodes []string) (gpus, cpus int) {
	for _, n := range c.shown(nodes) {
		gpus, cpus = max(gpus, n.GPUs), max(cpus, n.CPUs)
	}
	return gpus, cpus
}

// lost returns the nodes of a slot that stand for its failed hosts: as many as EC2 counts, chosen from nodes that
// take no jobs. A job of the whole block then waits in the queue instead of being launched in vain. nodes are those
// with instances. A lost node stays lost while it stays down.
func (c *Cluster) lost(v capacity.Standing, nodes []string) []string {
	places, usable := places(v)
	missing := min(places-usable, len(nodes))
	if places == 0 || missing <= 0 {
		return nil
	}
	byName := c.byName()
	var before []string
	for _, r := range c.Reservations {
		if g := r.Guard(); g.Kind == "surplus" && g.Slot == v.Slot.Name && r.Ours() {
			before = append(before, r.Nodes...)
		}
	}
	// A down node is stronger evidence than one that is off, so it is lost first.
	rank := func(name string) int {
		switch n := byName[name]; {
		case slices.Contains(before, name):
			return 0
		case !n.PoweredDown():
			return 1
		}
		return 2
	}
	var out []string
	for _, name := range slices.Backward(nodes) {
		n, shown := byName[name]
		if idle := !shown || n.PoweredDown() || !n.Up() && !n.Boots(); idle {
			out = append(out, name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	return out[:min(missing, len(out))]
}

// out returns the nodes to which Slurm gives no job, by state and reason.
func (c *Cluster) out(names []string) []capacity.NodesOut {
	byName := c.byName()
	down := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return byName[name].Out() == "" })
	type kind struct{ state, reason string }
	var all []capacity.NodesOut
	for k, names := range grouped(down, func(name string) kind { return kind{byName[name].Out(), byName[name].Reason} }) {
		all = append(all, capacity.NodesOut{Nodes: hostlist.Compress(names), Count: len(names), State: k.state, Reason: k.reason})
	}
	return all
}

// grouped yields those of all with the same key, in the order of the first of each.
func grouped[K comparable, T any](all []T, key func(T) K) iter.Seq2[K, []T] {
	return func(yield func(K, []T) bool) {
		groups, order := map[K][]T{}, []K{}
		for _, one := range all {
			k := key(one)
			if groups[k] == nil {
				order = append(order, k)
			}
			groups[k] = append(groups[k], one)
		}
		for _, k := range order {
			if !yield(k, groups[k]) {
				return
			}
		}
	}
}

// named names instances with their nodes, and chooses a word for one or for several.
func named(instances, nodes []string, one, several string) (who, word string) {
	if len(instances) == 1 {
		return fmt.Sprintf("instance %s (%s)", instances[0], nodes[0]), one
	}
	return fmt.Sprintf("instances %s (%s)", strings.Join(instances, ", "), hostlist.Compress(nodes)), several
}

// outOfService reports the nodes of open reservations that are paid for and get no job.
func outOfService(s Seen) (problems []capacity.Problem) {
	for _, v := range s.slots() {
		open := v.Reservation.State == capacity.StateActive && !v.Window.Start.After(s.Now) &&
			(v.Window.Unbounded() || v.Window.Fence.After(s.Now))
		if !open || v.Former {
			continue
		}
		for _, o := range v.Slot.Out {
			problems = append(problems, capacity.Problemf("nodes-out", capacity.Subject{Partition: v.Partition.Name,
				Slot: v.Slot.Name, Node: o.Nodes, Reservation: v.Reservation.ID}, fmt.Sprintf("when that is mended: `%s`",
				capacity.GiveBack(o.Nodes, o.State, v.Partition.Provider)), "%s is open and paid, and no job gets nodes %s",
				v.Reservation.ID, o))
		}
	}
	return problems
}

// unlocked names the partitions whose allow_accounts Slurm does not enforce.
func unlocked(snap *capacity.Snapshot, c *Cluster) []capacity.Problem {
	var problems, last []capacity.Problem
	for _, p := range snap.Partitions {
		sp, there := c.partition(p.Name)
		if !there {
			continue
		}
		for _, m := range capacity.Unlocked(p, sp.AllowAccounts, c.Accounting()) {
			if m.Code == capacity.AccountsUnchecked { // true of the whole cluster, so reported once
				last = []capacity.Problem{m}
			} else {
				problems = append(problems, m)
			}
		}
	}
	return append(problems, last...)
}

// NextBoundary is the next moment at which a reservation of the snapshot opens, warns or requeues its jobs, meets its
// fence or ends; false if there is none.
func NextBoundary(snap *capacity.Snapshot, now time.Time) (at time.Time, ok bool) {
	for _, v := range snap.Standings(now) {
		all := []time.Time{v.Event(now).At}
		if fence := v.Window.Fence; !fence.IsZero() {
			all = append(all, capacity.RequeueAt(fence, snap.KillWait.Duration))
			for _, minutes := range warnings {
				all = append(all, fence.Add(-time.Duration(minutes)*time.Minute))
			}
		}
		for _, t := range all {
			if t.After(now) && (!ok || t.Before(at)) {
				at, ok = t, true
			}
		}
	}
	return at, ok
}
