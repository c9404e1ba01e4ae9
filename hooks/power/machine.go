package power

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Answer is the result of an effect.
type Answer struct {
	// Failure is nil on success.
	Failure *Failure
	// At is the machine's time; Offset is AWS's time minus the machine's.
	At     time.Time
	Offset time.Duration
	// What was read or created.
	Instances   []capacity.Instance
	Reservation capacity.Reservation
	Held        capacity.Held // the ledger's entry for a token that an earlier run has used
	Platform    string
	Jobs        []capacity.Job
	Records     []state.Record
	States      map[string]string   // of instances
	Failures    map[string]*Failure // of Release, by id
	Nodes       []string
	Changed     bool
}

// now is AWS's time.
func (a Answer) now() time.Time { return a.At.Add(a.Offset) }

// machine is the state of something that proceeds from answer to answer. next does not change the state. Its effects
// are carried out in order, and the answer to the last one is the next argument. A machine without effects has ended.
// The first answer has only the time.
type machine[M any] interface {
	next(Answer) (M, []capacity.Effect)
}

// walk runs a machine to its end.
func walk[M machine[M]](m M, first Answer, do func(capacity.Effect) Answer) M {
	answer := first
	for {
		after, effects := m.next(answer)
		if m = after; len(effects) == 0 {
			return m
		}
		for _, e := range effects {
			answer = do(e)
		}
	}
}
