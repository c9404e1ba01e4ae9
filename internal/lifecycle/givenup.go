package lifecycle

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// giveBack returns nodes to Slurm that did not boot within ResumeTimeout and are still DOWN:
// ResumeFailProgram does that at once, but Slurm calls it only once, and it may have been
// killed. Slurm then powers them down again, which ends what was launched for them.
func (p *pass) giveBack(ctx context.Context) {
	for slot, nodes := range p.launched(p.cluster.Nodes, func(n Node) bool { return n.GivenUp }) {
		p.did(Done{Do: "return-nodes", Slot: slot,
			Message: fmt.Sprintf("slot %s: gave %s back to Slurm, DOWN since ResumeTimeout; ResumeFailProgram did not", slot, p.Slurm.Hostlist(nodes)),
		}, p.Slurm.PowerDownForce(ctx, nodes, "ResumeTimeout reached: given back by sync"))
	}
}

// endCompleting returns nodes to Slurm that are off, where a job is still completing: it would
// wait until somebody else's job powers them up. Slurm 24.11 has such jobs when one that had
// ended before a restart of slurmctld is requeued after it.
func (p *pass) endCompleting(ctx context.Context) {
	completing := map[string]string{} // the job, by node: squeue shows those that have not said that it is over
	for _, j := range p.jobs {
		if j.State == "COMPLETING" {
			for _, n := range j.Nodes {
				completing[n] = j.Shown
			}
		}
	}
	stuck := func(n Node) bool { return n.PoweredDown && completing[n.Name] != "" }
	if !slices.ContainsFunc(p.cluster.Nodes, stuck) {
		return
	}
	// The nodes were read before the jobs, and may be on their way up since, for another job.
	again, err := p.Slurm.Look(ctx)
	if err != nil {
		p.fail(err)
		return
	}
	for slot, nodes := range p.launched(again.Nodes, stuck) {
		job := completing[nodes[0]]
		p.did(Done{Do: "return-nodes", Slot: slot, Job: job,
			Message: fmt.Sprintf("slot %s: gave %s back to Slurm, powered down with job %s still completing there", slot, p.Slurm.Hostlist(nodes), job),
		}, p.Slurm.PowerDownForce(ctx, nodes, "powered down with a job completing: given back by sync"))
	}
}

// launched are the names of those of the nodes that Slurm powers up with our programs, by slot.
func (p *pass) launched(nodes []Node, of func(Node) bool) iter.Seq2[string, []string] {
	return func(yield func(slot string, names []string) bool) {
		left := map[string]bool{}
		for _, n := range nodes {
			left[n.Name] = of(n)
		}
		for _, part := range p.snap.Partitions {
			if part.Provider != capacity.ProviderEC2 {
				continue
			}
			for _, g := range part.Groups {
				for _, slot := range g.Slots {
					var names []string
					for _, n := range p.cluster.SlotNodes(slot.Name) {
						if left[n] {
							names = append(names, n)
							left[n] = false // a slot may be in two partitions
						}
					}
					if len(names) > 0 && !yield(slot.Name, names) {
						return
					}
				}
			}
		}
	}
}
