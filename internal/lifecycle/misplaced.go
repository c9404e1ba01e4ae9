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
}

// forgetMisplaced forgets findings that no longer hold.
func forgetMisplaced(s Seen) (effects []capacity.Effect) {
	if s.NoAWS {
		return nil
	}
	for _, m := range s.Misplaced {
		if m.differs == "" {
			effects = append(effects, KeepNotMisplaced{m.Node})
		}
	}
	return effects
}
