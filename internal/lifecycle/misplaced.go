package lifecycle

import (
	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// misplaced is a node whose instance is not what its slot's reservation is.
type misplaced struct {
	state.Misplaced
	slot, differs string
	up            bool
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
