package awssim

import (
	"maps"
	"slices"
	"time"
)

// Purchase is one line of the ledger: a block or an extension that was bought, whether or not
// the client got the answer.
type Purchase struct {
	At            time.Time `json:"at"` // simulated
	Region        string    `json:"region"`
	Kind          string    `json:"kind"` // block, extension
	OfferingID    string    `json:"offering_id"`
	ReservationID string    `json:"capacity_reservation_id"`
	InstanceType  string    `json:"instance_type"`
	Count         int       `json:"instance_count"`
	Start         time.Time `json:"start"`
	End           time.Time `json:"end"`
	Fee           string    `json:"fee"`
	Currency      string    `json:"currency"`
}

// Ledger lists every purchase that took effect, oldest first.
func (s *Sim) Ledger() []Purchase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ledger)
}

// Calls counts the calls that reached an operation, whatever their answer.
func (s *Sim) Calls() map[CallKey]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[CallKey]int, len(s.calls))
	for k, n := range s.calls {
		out[k] = n
	}
	return out
}

// ResetCalls sets every count to zero.
func (s *Sim) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.calls)
	clear(s.callers)
}

// CalledBy lists the operations that an access key has called, such as ec2:RunInstances.
func (s *Sim) CalledBy(accessKey string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.callers[accessKey]))
}
