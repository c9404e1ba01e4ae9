package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// misplaced is a node whose instance is not what its slot's reservation is.
type misplaced struct {
	state.Misplaced
	slot, differs string
	up            bool
}

// lookForMisplaced judges what the Prologs of nodes found by what AWS and Slurm say now.
func (p *pass) lookForMisplaced() {
	if p.cluster == nil {
		return
	}
	found, err := p.State.Misplaced()
	if err != nil {
		p.problem(capacity.StateFile, err)
	}
	for _, f := range found {
		m := misplaced{Misplaced: f}
		i := slices.IndexFunc(p.cluster.Nodes, func(n Node) bool { return n.Name == f.Node })
		if i >= 0 && !p.cluster.Nodes[i].PoweredDown { // else that instance is gone
			m.up = p.cluster.Nodes[i].Up
			_, _, m.slot, _ = p.Settings.PlaceOf(f.Node)
			if slot, ok := p.snap.Slot(m.slot); ok {
				m.differs = p.snap.Misplaced(slot, f.Metadata, p.now)
			}
		}
		p.misplaced = append(p.misplaced, m)
		if m.differs != "" {
			p.say(capacity.WrongInstance, capacity.Subject{Slot: m.slot, Node: f.Node}, "find out what launched it, and power the node down", "node %s: %s", f.Node, m.differs)
		}
	}
}

// drainMisplaced drains the first of such nodes where the settings say so, if its Prolog
// looked recently. What is known of it is forgotten then, so that a node that somebody
// resumes is judged anew.
func (p *pass) drainMisplaced(ctx context.Context) {
	drained := p.Settings.OnMismatch != capacity.DrainMismatch || p.awsErr != nil
	for _, m := range p.misplaced {
		drop := m.differs == "" && p.awsErr == nil
		if m.differs != "" && m.up && !drained && p.now.Sub(m.At) < recently {
			err := p.Slurm.Drain(ctx, []string{m.Node}, "pcs-capacity: "+m.differs)
			p.did(Done{Do: "drain-node", Slot: m.slot, Message: fmt.Sprintf("slot %s: drained %s: %s", m.slot, m.Node, m.differs)}, err)
			drained, drop = true, err == nil
		}
		if drop {
			p.fail(p.State.DropMisplaced(m.Node))
		}
	}
}
