package power

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Answer says what came of an effect.
type Answer struct {
	// Failure is nil if it was done.
	Failure *Failure
	// At is the machine's time, Offset AWS's time minus that.
	At     time.Time
	Offset time.Duration
	// What was asked for, or made.
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

// machine is a state of something that leads on from answer to answer. next does not change it;
// the effects are carried out in order, and the last one's answer is the next one's argument.
// Without effects it has ended. The first answer is empty but for the time.
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
