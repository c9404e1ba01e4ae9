package awssim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Effect is the effect of a fault on a call.
type Effect string

const (
	FailBefore Effect = "fail-before" // an error instead of the effect
	FailAfter  Effect = "fail-after"  // the effect, then an error
	CutBefore  Effect = "cut-before"  // the connection is cut, no effect
	CutAfter   Effect = "cut-after"   // the effect, then the connection is cut
	Delay      Effect = "delay"       // only latency
	Silent     Effect = "silent"      // no effect and no answer: the connection stays open, until the fault is cleared
)

// Fault hits calls of one operation. Empty Service, Operation or Region match every one, so that
// {Effect: CutBefore, Region: "us-east-2"} is a region that is down.
type Fault struct {
	ID        int      `json:"id"`                // given by AddFault
	Service   string   `json:"service,omitempty"` // ec2, pcs, imds
	Operation string   `json:"operation,omitempty"`
	Region    string   `json:"region,omitempty"`
	Effect    Effect   `json:"effect"`
	Code      string   `json:"code,omitempty"`    // error code of fail-…; default InternalError
	Message   string   `json:"message,omitempty"` // of the error
	Status    int      `json:"status,omitempty"`  // HTTP status of fail-…; default 500, or 400 with a Code
	Latency   Duration `json:"latency,omitzero"`  // real time, before anything else
	Skip      int      `json:"skip,omitempty"`    // let so many matching calls pass first
	Count     int      `json:"count,omitempty"`   // how many calls it hits; 0: every one

	cleared chan struct{} // closed by ClearFaults
}

// Denies is a caller whose policies do not allow an action, such as ec2:RunInstances.
func Denies(action string) Fault {
	service, operation, _ := strings.Cut(action, ":")
	f := Fault{Operation: operation, Effect: FailBefore, Code: "AccessDeniedException", Status: http.StatusForbidden,
		Message: "User: arn:aws:iam::111122223333:user/simulated is not authorized to perform: " + action + " because no identity-based policy allows the " + action + " action"}
	if service == "ec2" {
		f.Code = "UnauthorizedOperation"
	}
	return f
}

// CallKey names an operation in a region.
type CallKey struct {
	Service   string `json:"service"`
	Operation string `json:"operation"`
	Region    string `json:"region"`
}

func (f *Fault) matches(c *call) bool {
	return (f.Service == "" || f.Service == c.Service) &&
		(f.Operation == "" || f.Operation == c.Operation) &&
		(f.Region == "" || f.Region == c.Region)
}

// hitBefore waits out the latency and tells whether the call goes on to its effect.
func (s *Sim) hitBefore(f *Fault, r *http.Request) bool {
	if f.Latency > 0 {
		waitReal(r, time.Duration(f.Latency))
	}
	if f.Effect == Silent {
		select {
		case <-f.cleared:
		case <-r.Context().Done():
		case <-s.stop:
		}
	}
	return f.Effect != FailBefore && f.Effect != CutBefore && f.Effect != Silent
}

// breaks tells whether the answer is lost after the effect.
func (f *Fault) breaks() bool { return f.Effect == FailAfter || f.Effect == CutAfter }

// AddFault makes calls fail from now on and returns the fault's id.
func (s *Sim) AddFault(f Fault) (int, error) {
	switch f.Effect {
	case FailBefore, FailAfter, CutBefore, CutAfter, Delay, Silent:
	default:
		return 0, fmt.Errorf("fault effect %q: want fail-before, fail-after, cut-before, cut-after, delay or silent", f.Effect)
	}
	if f.Skip < 0 || f.Count < 0 || f.Latency < 0 {
		return 0, fmt.Errorf("fault: skip, count and latency cannot be negative")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	f.ID, f.cleared = int(s.serial), s.cleared
	s.faults = append(s.faults, &f)
	return f.ID, nil
}

// Faults lists the faults that still hit something.
func (s *Sim) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Fault, 0, len(s.faults))
	for _, f := range s.faults {
		out = append(out, *f)
	}
	return out
}

// ClearFaults ends every fault.
func (s *Sim) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cleared)
	s.faults, s.cleared = nil, make(chan struct{})
}

// FailPayments makes the payments of blocks and extensions fail, or succeed again. It decides for
// those that are pending too.
func (s *Sim) FailPayments(fail bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpaid = fail
}

// takeFault finds the first fault that hits the call and uses it up by one.
func (s *Sim) takeFault(c *call) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if !f.matches(c) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		hit := *f
		if f.Count == 1 {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
		} else if f.Count > 1 {
			f.Count--
		}
		return &hit
	}
	return nil
}

// breakOff answers with the fault's error, or cuts the connection.
func (s *Sim) breakOff(w http.ResponseWriter, c *call, f *Fault) {
	if f.Effect == CutBefore || f.Effect == CutAfter || f.Effect == Silent {
		panic(http.ErrAbortHandler) // net/http closes the connection without an answer
	}
	e := &APIError{Code: f.Code, Message: f.Message, Status: f.Status}
	if e.Status == 0 && e.Code == "" {
		e.Status = http.StatusInternalServerError
	}
	if e.Code == "" {
		e.Code = "InternalError"
	}
	if e.Message == "" {
		e.Message = "An internal error has occurred"
	}
	s.answer(w, c, nil, e)
}
