package lifecycle

import (
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
	if p.seen.Cluster == nil {
		return
	}
	found, err := p.State.Misplaced()
	if err != nil {
		p.problem(capacity.StateFile, err)
	}
	for _, f := range found {
		m := misplaced{Misplaced: f}
		i := slices.IndexFunc(p.seen.Cluster.Nodes, func(n capacity.Node) bool { return n.Name == f.Node })
		if i >= 0 && !p.seen.Cluster.Nodes[i].PoweredDown() { // else that instance is gone
			m.up = p.seen.Cluster.Nodes[i].Up()
			_, _, m.slot, _ = p.Settings.PlaceOf(f.Node)
			if slot, ok := p.seen.Snap.Slot(m.slot); ok {
				m.differs = p.seen.Snap.Misplaced(slot, f.Metadata, p.seen.Now)
			}
		}
		p.seen.Misplaced = append(p.seen.Misplaced, m)
		if m.differs != "" {
			p.say(capacity.WrongInstance, capacity.Subject{Slot: m.slot, Node: f.Node}, "find out what launched it, and power the node down", "node %s: %s", f.Node, m.differs)
		}
	}
}

// drainMisplaced drains the first of such nodes where the settings say so, if its Prolog
// looked recently, and forgets what turned out right.
func drainMisplaced(s Seen) (effects []capacity.Effect) {
	if s.NoAWS {
		return nil
	}
	drained := s.Settings.OnMismatch != capacity.DrainMismatch
	for _, m := range s.Misplaced {
		switch {
		case m.differs == "":
			effects = append(effects, KeepNotMisplaced{m.Node})
		case m.up && !drained && s.Now.Sub(m.At) < recently:
			effects = append(effects, DrainMisplaced{m.slot, m.Node, m.differs})
			drained = true
		}
	}
	return effects
}
