package lifecycle

import (
	"context"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// giveBack returns nodes to Slurm that did not boot within ResumeTimeout and are still DOWN:
// ResumeFailProgram does that at once, but Slurm calls it only once, and it may have been
// killed. Slurm then powers them down again, which ends what was launched for them.
func (p *pass) giveBack(ctx context.Context) {
	givenUp := map[string]bool{}
	for _, n := range p.cluster.Nodes {
		givenUp[n.Name] = n.GivenUp
	}
	for _, part := range p.snap.Partitions {
		if part.Provider != capacity.ProviderEC2 {
			continue
		}
		for _, g := range part.Groups {
			for _, slot := range g.Slots {
				var nodes []string
				for _, n := range p.cluster.SlotNodes(slot.Name) {
					if givenUp[n] {
						nodes = append(nodes, n)
						givenUp[n] = false // a slot may be in two partitions
					}
				}
				if len(nodes) == 0 {
					continue
				}
				p.did(Done{Do: "return-nodes", Slot: slot.Name,
					Message: fmt.Sprintf("slot %s: gave %s back to Slurm, DOWN since ResumeTimeout; ResumeFailProgram did not", slot.Name, p.Slurm.Hostlist(nodes)),
				}, p.Slurm.PowerDownForce(ctx, nodes, "ResumeTimeout reached: given back by sync"))
			}
		}
	}
}
