package awssim

import (
	"cmp"
	"slices"
	"time"
)

// Request is one call of AWS as the simulator saw it, in real time: from its arrival to its answer.
type Request struct {
	CallKey
	Began, Ended time.Time
}

// RecordRequests notes every call from now on; stop ends that, and returns the calls.
func (s *Sim) RecordRequests() (stop func() []Request) {
	record := &[]Request{}
	s.mu.Lock()
	s.record = record
	s.mu.Unlock()
	return func() []Request {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.record == record {
			s.record = nil
		}
		return slices.Clone(*record)
	}
}

// note adds a call that has been answered to the record, if there is one.
func (s *Sim) note(c *call, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record != nil {
		*s.record = append(*s.record, Request{CallKey{c.Service, c.Operation, c.Region}, began, time.Now()})
	}
}

// Sequence returns the longest chain of requests each of which began after the one before it had
// ended: how often a caller waited for an answer. It needs a latency (Delay) well above what a
// caller takes to send requests side by side.
func Sequence(all []Request) []Request {
	all = slices.SortedFunc(slices.Values(all), func(a, b Request) int {
		return cmp.Or(a.Ended.Compare(b.Ended), b.Began.Compare(a.Began))
	})
	var chain []Request
	for _, r := range all { // the one that ends first leaves most room for others
		if len(chain) == 0 || r.Began.After(chain[len(chain)-1].Ended) {
			chain = append(chain, r)
		}
	}
	return chain
}
