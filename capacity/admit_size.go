package capacity

import (
	"fmt"
	"strings"
)

// leastNodes is the least number of nodes on which the job can run in a node group, as far as its request shows. fits
// is false if no number of nodes is enough, because one node would need more GPUs than it has.
func (r Request) leastNodes(g NodeGroup) (n int, fits bool) {
	n, tasksPerNode := r.Nodes, r.TasksPerNode
	if g.GPUs > 0 { // else nobody knows how many GPUs a node has
		if max(r.GPUsPerNode, r.GPUsPerTask) > g.GPUs {
			return 0, false
		}
		n = max(n, divideUp(r.GPUs, g.GPUs))
		if r.GPUsPerTask > 0 && (tasksPerNode == 0 || g.GPUs/r.GPUsPerTask < tasksPerNode) {
			tasksPerNode = g.GPUs / r.GPUsPerTask
		}
	}
	if tasksPerNode > 0 {
		n = max(n, divideUp(r.Tasks, tasksPerNode))
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
	if !fits {
		return refuse(TooManyNodes,
			fmt.Sprintf("the job asks for %d GPUs on one node, but those of partition %s (%s) have %d; ask for %d or less",
				max(r.GPUsPerNode, r.GPUsPerTask), p.Name, g.InstanceType, g.GPUs, g.GPUs))
	}
	has := fmt.Sprintf(largestHas, p.Name, largest.size())
	r.Nodes = 0 // sbatch may have derived it from the other options
	if other, _ := r.leastNodes(g); other < n {
		return refuse(TooManyNodes, fmt.Sprintf(tooManyNodes, n, has, largest.size()))
	}
	return refuse(TooManyNodes, fmt.Sprintf("the job needs %d nodes (%s), %s; ask for less", n, r.whyNodes(g), has))
}

// whyNodes lists the options that make a job without --nodes need several nodes.
func (r Request) whyNodes(g NodeGroup) string {
	var parts []string
	tasks := r.Tasks
	if r.TasksPerNode+r.GPUsPerTask == 0 {
		tasks = 0 // any number of tasks can share a node
	}
	for _, option := range []struct {
		name  string
		value int
	}{{"--gpus", r.GPUs}, {"--gpus-per-task", r.GPUsPerTask}, {"--ntasks", tasks}, {"--ntasks-per-node", r.TasksPerNode}} {
		if option.value > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", option.name, option.value))
		}
	}
	if g.GPUs > 0 && r.GPUs+r.GPUsPerTask > 0 {
		parts = append(parts, fmt.Sprintf("%d GPUs a node", g.GPUs))
	}
	return strings.Join(parts, ", ")
}
