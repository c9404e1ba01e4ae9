package capacity

import (
	"fmt"
	"strings"
)

// leastNodes is the least number of nodes on which the job can run in a node group, as far as its request shows. fits
// is false if no number of nodes is enough, because one node would need more GPUs or CPUs than it has. Where options
// contradict each other, Slurm itself refuses the job or drops one of them, by version.
func (r Request) leastNodes(g NodeGroup) (n int, fits bool) {
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

// holds reports whether the candidate is large enough for the job.
func (c candidate) holds(r Request) bool {
	n, fits := r.leastNodes(c.group)
	return fits && n <= c.size()
}

// Sentences for a job that asks for too many nodes; [Sentences] has them too.
const (
	tooManyNodes = "the job asks for %d nodes, %s; use --nodes=%d"
	largestHas   = "but the largest reservation of partition %s that it may use has %d"
)

// refuseSize refuses a job for which even the largest candidate is too small.
func refuseSize(r Request, largest candidate, p Partition) Verdict {
	g := largest.group
	n, fits := r.leastNodes(g)
	if !fits && r.CPUsPerTask > g.CPUs && g.CPUs > 0 {
		return refuse(TooManyNodes,
			fmt.Sprintf("the job asks for %d CPUs for a task, but the nodes of partition %s (%s) have %d; ask for %d or less",
				r.CPUsPerTask, p.Name, g.InstanceType, g.CPUs, g.CPUs))
	}
	if !fits {
		return refuse(TooManyNodes,
			fmt.Sprintf("the job asks for %d GPUs on one node, but those of partition %s (%s) have %d; ask for %d or less",
				max(r.GPUsPerNode, r.GPUsPerTask), p.Name, g.InstanceType, g.GPUs, g.GPUs))
	}
	has := fmt.Sprintf(largestHas, p.Name, largest.size())
	asked := r.Nodes == n && !r.Counted
	r.Nodes = 0 // sbatch may have derived it from the other options
	if other, _ := r.leastNodes(g); asked && other < n {
		return refuse(TooManyNodes, fmt.Sprintf(tooManyNodes, n, has, largest.size()))
	}
	why := r.whyNodes(g)
	if why != "" {
		why = " (" + why + ")"
	}
	return refuse(TooManyNodes, fmt.Sprintf("the job needs %d nodes%s, %s; ask for less", n, why, has))
}

// whyNodes lists the options that make a job without --nodes need several nodes.
func (r Request) whyNodes(g NodeGroup) string {
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
