package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// leastNodes is the least number of nodes on which the job can run in a node group, as far as its request shows. fits
// is false if no number of nodes is enough, because one node would need more GPUs or CPUs than it has. Where options
// contradict each other, Slurm itself refuses the job or drops one of them, by version.
func (r Request) leastNodes(g *NodeGroup) (n int, fits bool) {
	n, tasks, perNode := r.Nodes, r.Tasks, r.TasksPerNode
	switch {
	case tasks == 0:
		tasks = n * perNode
	case n > tasks:
		n = tasks // as Slurm does
	case n > 0 && tasks > n*perNode:
		perNode = 0
	}
	atMost := func(most int) {
		if perNode == 0 || most < perNode {
			perNode = most
		}
	}
	if g.GPUs > 0 { // else nobody knows how many GPUs a node has
		if max(r.GPUsPerNode, r.GPUsPerTask) > g.GPUs {
			return 0, false
		}
		n = max(n, divideUp(r.GPUs, g.GPUs))
		if r.GPUsPerTask > 0 {
			atMost(g.GPUs / r.GPUsPerTask)
		}
	}
	if g.CPUs > 0 && !r.Overcommit {
		if r.CPUsPerTask > g.CPUs {
			return 0, false
		}
		atMost(g.CPUs / max(1, r.CPUsPerTask))
	}
	if perNode > 0 {
		n = max(n, divideUp(tasks, perNode))
	}
	return n, true
}

func divideUp(a, b int) int { return (a + b - 1) / b }

func (c Turn) holds(r Request) bool {
	n, fits := r.leastNodes(c.Group)
	return fits && n <= c.size()
}

// refuseSize refuses a job for which even the largest Turn is too small.
func refuseSize(r Request, largest Turn, p Partition) Verdict {
	g := largest.Group
	n, fits := r.leastNodes(g)
	if !fits && r.CPUsPerTask > g.CPUs && g.CPUs > 0 {
		return refuse(TooManyNodes, "the job asks for %d CPUs for a task, but the nodes of partition %s (%s) have %d; ask for %d or less",
			r.CPUsPerTask, p.Name, g.InstanceType, g.CPUs, g.CPUs)
	}
	if !fits {
		return refuse(TooManyNodes, "the job asks for %d GPUs on one node, but those of partition %s (%s) have %d; ask for %d or less",
			max(r.GPUsPerNode, r.GPUsPerTask), p.Name, g.InstanceType, g.GPUs, g.GPUs)
	}
	has := fmt.Sprintf("but the largest reservation of partition %s that it may use has %d", p.Name, largest.size())
	asked := r.Nodes == n && !r.Counted
	r.Nodes = 0 // sbatch may have derived it from the other options
	if other, _ := r.leastNodes(g); asked && other < n {
		return refuse(TooManyNodes, "the job asks for %d nodes, %s; use --nodes=%d", n, has, largest.size())
	}
	why := r.whyNodes(g)
	if why != "" {
		why = " (" + why + ")"
	}
	return refuse(TooManyNodes, "the job needs %d nodes%s, %s; ask for less", n, why, has)
}

// whyNodes lists the options that make a job without --nodes need several nodes.
func (r Request) whyNodes(g *NodeGroup) string {
	var parts []string
	tasks := r.Tasks
	if r.TasksPerNode+r.GPUsPerTask+g.CPUs == 0 {
		tasks = 0 // any number of tasks can share a node
	}
	for _, option := range []struct {
		name  string
		value int
	}{{"--gpus", r.GPUs}, {"--gpus-per-task", r.GPUsPerTask}, {"--ntasks", tasks}, {"--ntasks-per-node", r.TasksPerNode},
		{"--cpus-per-task", r.CPUsPerTask}} {
		if option.value > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", option.name, option.value))
		}
	}
	if g.GPUs > 0 && r.GPUs+r.GPUsPerTask > 0 {
		parts = append(parts, fmt.Sprintf("%d GPUs a node", g.GPUs))
	}
	if g.CPUs > 0 && tasks+r.CPUsPerTask > 0 {
		parts = append(parts, fmt.Sprintf("%d CPUs a node", g.CPUs))
	}
	return strings.Join(parts, ", ")
}

// ByNumber compares two nodes of a slot by their numbers.
func ByNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// refuseNodes refuses a job that can never have the nodes of its --nodelist, or whose --exclude leaves too few nodes;
// zero if neither holds or nobody knows. may are the candidates open to the job, all those of the partition.
func refuseNodes(r Request, may, all []Turn, p Partition) Verdict {
	if r.NodeList == "" && r.Exclude == "" {
		return Verdict{}
	}
	required, err := hostlist.Expand(r.NodeList)
	if err != nil {
		return Verdict{} // a file, which sbatch reads later, or a list that Slurm itself refuses
	}
	excluded, err := hostlist.Expand(r.Exclude)
	if err != nil {
		return Verdict{}
	}
	usable, known := nodesOf(may, all, p) // by every node of the partition
	if !known {
		return Verdict{}
	}
	can := slices.DeleteFunc(slices.SortedFunc(maps.Keys(usable), ByNumber), func(n string) bool { return !usable[n] })
	has, left := hostlist.Compress(can), len(can)
	never := slices.DeleteFunc(required, func(n string) bool { may, ours := usable[n]; return !ours || may })
	if len(never) > 0 {
		return refuse(NodesNotUsable, "no instance is ever launched for %s that this job can use; it can use %s of partition %s: change --nodelist",
			hostlist.Compress(never), has, p.Name)
	}
	need := 0
	for _, c := range may {
		if n, fits := r.leastNodes(c.Group); fits && (need == 0 || n < need) {
			need = n
		}
	}
	need = max(need, 1)
	for _, n := range slices.Compact(slices.Sorted(slices.Values(excluded))) {
		if usable[n] {
			left--
		}
	}
	if len(excluded) > 0 && left < need {
		return refuse(NodesNotUsable, "the job needs %s of %s of partition %s, and --exclude leaves %d; leave out fewer",
			countOf(need, "node"), has, p.Name, left)
	}
	return Verdict{}
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// nodesOf tells of each node of the partition whether it is usable; known is false if Slurm has not listed them. A node
// is usable if a reservation open to the job can have it; with more nodes than instances, the first nodes are
// usable. With provider pcs there is a node for each instance.
func nodesOf(may, all []Turn, p Partition) (usable map[string]bool, known bool) {
	usable = map[string]bool{}
	for _, c := range all {
		names, err := hostlist.Expand(c.Slot.Nodes)
		if err != nil || len(names) == 0 {
			return nil, false
		}
		slices.SortFunc(names, ByNumber)
		places := len(names)
		if p.Provider.Launches() {
			places = min(places, placesOf(c.Slot.Name, may, all))
		}
		for i, n := range names {
			usable[n] = usable[n] || i < places
		}
	}
	return usable, true
}

// placesOf is the most nodes of a slot that can have an instance for the job. Reservations without an end share the
// slot; the others take turns.
func placesOf(slot string, may, all []Turn) int {
	const any = hostlist.Max
	most, shared := 0, 0
	for _, c := range may {
		if c.Slot.Name != slot {
			continue
		}
		if c.onDemand() || c.Reservation.Size() == 0 { // EC2 may report size 0 for a block that has not opened
			return any
		}
		if c.Window.Unbounded() {
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
		if c.Slot.Name != slot || !c.Window.Unbounded() || c.ended(c.Window.Start) {
			continue
		}
		if c.Unknown || c.Reservation.Size() == 0 {
			return any
		}
		shared += c.Reservation.Size()
	}
	return max(most, shared)
}
