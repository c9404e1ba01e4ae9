package power

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Suspend is SuspendProgram and ResumeFailProgram. Both terminate the instances of nodes that Slurm gives up;
// ResumeFailProgram also makes nodes that did not boot usable again. They touch only instances with our cluster's
// mark.
type Suspend struct {
	*Site
	// Called is the machine's time when Slurm called the hook.
	Called time.Time
}

// SuspendBudget bounds a run. Slurm calls SuspendProgram once for a power-down, so a run uses all of it before it
// leaves an instance to the next launch of its node, or to sync.
const SuspendBudget = 90 * time.Second

// Run terminates the instances of the nodes in a hostlist, and takes nodes that did not boot out of DOWN, even if a
// termination failed: the place in the block is paid for, and the next launch of a node terminates the leftovers.
// Failures are retried until ctx ends. Only nodes that did not boot need slurmctld.
func (s *Suspend) Run(ctx context.Context, list string) error {
	nodes, err := hostlist.Expand(list)
	if err != nil {
		return fmt.Errorf("reading the nodes to power down: %w", err)
	}
	x := s.executor(ctx, ctx, SuspendBudget)
	x.insists = true
	do := func(e capacity.Effect) Answer { return x.Do(ctx, e) }
	first := Answer{At: s.MachineTime(), Offset: s.EC2.Offset()}
	var both sync.WaitGroup
	both.Go(func() { walk(notBooting{nodes: nodes, called: s.Called}, first, do) })
	ended := walk(terminating{cluster: s.Cluster, nodes: nodes, called: s.Called}, first, do)
	both.Wait()
	if ended.failure != nil {
		return ended.failure
	}
	return nil
}
