package lifecycle

import (
	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// misplaced is a node whose instance does not match its slot's reservation.
type misplaced struct {
	state.Misplaced
	slot, differs string
	up            bool
	// guest: the node is somebody else's, so it is not drained.
	guest bool
}

// drainMisplaced drains the first misplaced node if the settings say so and its Prolog looked recently. It forgets
// findings that no longer hold.
func drainMisplaced(s Seen) (effects []capacity.Effect) {
	if s.NoAWS {
		return nil
	}
	drained := s.Settings.OnMismatch != capacity.DrainMismatch
	for _, m := range s.Misplaced {
		switch {
		case m.differs == "":
			effects = append(effects, KeepNotMisplaced{m.Node})
		case m.up && !m.guest && !drained && s.Now.Sub(m.At) < recently:
			effects = append(effects, DrainMisplaced{m.slot, m.Node, m.differs})
			drained = true
		}
	}
	return effects
}
