package lifecycle

import (
	"iter"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// givenUp returns to Slurm the nodes that did not boot within ResumeTimeout and are still DOWN. ResumeFailProgram
// does so at once, but Slurm calls it only once, and it may have been killed.
func givenUp(s Seen) (effects []capacity.Effect) {
	for slot, nodes := range s.ofSlots(func(n capacity.Node) bool { return n.TimedOut() }) {
		effects = append(effects, ReturnNodes{Slot: slot, Nodes: nodes, Reason: "ResumeTimeout reached: given back by sync",
			Why: "DOWN since ResumeTimeout; ResumeFailProgram did not"})
	}
	return effects
}

// completing returns to Slurm the nodes that are off while a job still completes there: the job would wait until
// another job powers them up. Slurm 24.11 has such jobs when a job that ended before a restart of slurmctld is
// requeued after it.
func completing(s Seen) (effects []capacity.Effect) {
	jobs := s.completing()
	for slot, nodes := range s.ofSlots(func(n capacity.Node) bool { return n.PoweredDown() && jobs[n.Name] != "" }) {
		job := jobs[nodes[0]]
		effects = append(effects,
			ReturnNodes{Slot: slot, Nodes: nodes, Job: job, Reason: "powered down with a job completing: given back by sync",
				Why: "powered down with job " + job + " still completing there", StillOff: true})
	}
	return effects
}

// completing are the jobs that complete, by node: squeue shows nodes that have not said that it is over.
func (s Seen) completing() map[string]string {
	jobs := map[string]string{}
	for _, j := range s.Jobs {
		if j.State == "COMPLETING" {
			for _, n := range j.Nodes {
				jobs[n] = j.Shown
			}
		}
	}
	return jobs
}

// ofSlots yields, by slot, the names of matching nodes that Slurm powers up with our programs.
func (s Seen) ofSlots(of func(capacity.Node) bool) iter.Seq2[string, []string] {
	return func(yield func(slot string, names []string) bool) {
		done := map[string]bool{} // a slot may be in two partitions
		for _, part := range s.Snap.Partitions {
			if !part.Provider.Launches() {
				continue
			}
			for _, g := range part.Groups {
				for _, slot := range g.Slots {
					names := s.Cluster.those(s.Cluster.SlotNodes(slot.Name), of)
					if len(names) > 0 && !done[slot.Name] && !yield(slot.Name, names) {
						return
					}
					done[slot.Name] = true
				}
			}
		}
	}
}
