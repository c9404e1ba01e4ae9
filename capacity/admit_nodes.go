package capacity

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// ByNumber compares two nodes of a slot by their numbers.
func ByNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// slotNodes are all nodes of a slot, and the usable ones: those that can ever have an instance for a job.
type slotNodes struct{ all, usable map[string]bool }

// refuseNodes refuses a job that can never have the nodes of its --nodelist, or whose --exclude leaves too few nodes;
// nil if neither holds or nobody knows. may are the candidates open to the job, all those of the partition.
func refuseNodes(r Request, may, all []candidate, p Partition) *Verdict {
	if r.NodeList == "" && r.Exclude == "" {
		return nil
	}
	required, err := hostlist.Expand(r.NodeList)
	if err != nil {
		return nil // a file, which sbatch reads later, or a list that Slurm itself refuses
	}
	excluded, err := hostlist.Expand(r.Exclude)
	if err != nil {
		return nil
	}
	slots, known := nodesOf(may, all, p)
	if !known {
		return nil
	}
	ours, usable := map[string]bool{}, map[string]bool{}
	for _, s := range slots {
		for n := range s.all {
			ours[n] = true
		}
		for n := range s.usable {
			usable[n] = true
		}
	}
	has := hostlist.Compress(sortedNodes(usable))
	never := slices.DeleteFunc(required, func(n string) bool { return !ours[n] || usable[n] })
	if len(never) > 0 {
		v := refuse(NodesNotUsable, fmt.Sprintf(
			"no instance is ever launched for %s that this job can use; it can use %s of partition %s: change --nodelist",
			hostlist.Compress(never), has, p.Name))
		return &v
	}
	need := 0
	for _, c := range may {
		if n, fits := r.leastNodes(c.group); fits && (need == 0 || n < need) {
			need = n
		}
	}
	need = max(need, 1)
	left := len(usable)
	for _, n := range slices.Compact(slices.Sorted(slices.Values(excluded))) {
		if usable[n] {
			left--
		}
	}
	if len(excluded) > 0 && left < need {
		v := refuse(NodesNotUsable,
			fmt.Sprintf("the job needs %s of %s of partition %s, and --exclude leaves %d; leave out fewer",
				countOf(need, "node"), has, p.Name, left))
		return &v
	}
	return nil
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func sortedNodes(set map[string]bool) []string {
	var names []string
	for n := range set {
		names = append(names, n)
	}
	slices.SortFunc(names, ByNumber)
	return names
}

// nodesOf returns the nodes of all slots of the partition, by slot; known is false if Slurm has not listed them. A
// node is usable if a reservation open to the job can have it; with more nodes than instances, the first nodes are
// usable. With provider pcs there is a node for each instance.
func nodesOf(may, all []candidate, p Partition) (slots map[string]slotNodes, known bool) {
	slots = map[string]slotNodes{}
	for _, c := range all {
		if _, seen := slots[c.slot.Name]; seen {
			continue
		}
		names, err := hostlist.Expand(c.slot.Nodes)
		if err != nil || len(names) == 0 {
			return nil, false
		}
		slices.SortFunc(names, ByNumber)
		s := slotNodes{map[string]bool{}, map[string]bool{}}
		places := len(names)
		if p.Provider.Launches() {
			places = min(places, placesOf(c.slot.Name, may, all))
		}
		for i, n := range names {
			s.all[n] = true
			if i < places {
				s.usable[n] = true
			}
		}
		slots[c.slot.Name] = s
	}
	return slots, true
}

// placesOf is the most nodes of a slot that can have an instance for the job. Reservations without an end share the
// slot; the others take turns.
func placesOf(slot string, may, all []candidate) int {
	const any = hostlist.Max
	most, shared := 0, 0
	for _, c := range may {
		if c.slot.Name != slot {
			continue
		}
		if c.onDemand() || c.reservation.Size() == 0 { // EC2 may report size 0 for a block that has not opened
			return any
		}
		if c.window.Unbounded() {
			shared = 1
			continue
		}
		most = max(most, c.size())
	}
	if shared == 0 {
		return most
	}
	shared = 0
	for _, c := range all {
		if c.slot.Name != slot || !c.window.Unbounded() || c.ended(c.window.Start) {
			continue
		}
		if c.unknown || c.reservation.Size() == 0 {
			return any
		}
		shared += c.reservation.Size()
	}
	return max(most, shared)
}
