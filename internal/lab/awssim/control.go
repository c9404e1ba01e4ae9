package awssim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ClockState is the answer of GET /_sim/clock.
type ClockState struct {
	Now   time.Time `json:"now"`
	Speed float64   `json:"speed"` // simulated seconds per second
}

// ClockChange is the body of POST /_sim/clock; fields left out stay.
type ClockChange struct {
	Set     *time.Time `json:"set,omitempty"`
	Advance *Duration  `json:"advance,omitempty"`
	Speed   *float64   `json:"speed,omitempty"`
}

// routeControl adds the control requests under /_sim/. All bodies are JSON.
func (s *Sim) routeControl(mux *http.ServeMux) {
	mux.HandleFunc("GET /_sim/clock", func(w http.ResponseWriter, r *http.Request) { reply(w, s.clockState()) })
	mux.HandleFunc("POST /_sim/clock", accept(s.changeClock))
	mux.HandleFunc("GET /_sim/faults", func(w http.ResponseWriter, r *http.Request) { reply(w, s.Faults()) })
	mux.HandleFunc("POST /_sim/faults", accept(func(f Fault) (any, error) {
		id, err := s.AddFault(f)
		return map[string]int{"id": id}, err
	}))
	mux.HandleFunc("DELETE /_sim/faults", func(w http.ResponseWriter, r *http.Request) {
		s.ClearFaults()
		reply(w, s.Faults())
	})
	mux.HandleFunc("GET /_sim/lag", func(w http.ResponseWriter, r *http.Request) { reply(w, s.currentLag()) })
	mux.HandleFunc("POST /_sim/lag", accept(func(l Lag) (any, error) {
		s.SetLag(l)
		return s.currentLag(), nil
	}))
	mux.HandleFunc("GET /_sim/capacity", func(w http.ResponseWriter, r *http.Request) { reply(w, s.capacities()) })
	mux.HandleFunc("POST /_sim/capacity", accept(func(c Capacity) (any, error) {
		err := s.SetCapacity(cmp.Or(c.Region, s.homeRegion()), c.Zone, c.Type, c.Count)
		return s.capacities(), err
	}))
	mux.HandleFunc("GET /_sim/ledger", func(w http.ResponseWriter, r *http.Request) { reply(w, s.Ledger()) })
	mux.HandleFunc("GET /_sim/instances", func(w http.ResponseWriter, r *http.Request) {
		reply(w, s.Instances(r.URL.Query().Get("region")))
	})
	mux.HandleFunc("/_sim/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no control request "+r.Method+" "+r.URL.Path, http.StatusNotFound)
	})
}

func (s *Sim) clockState() ClockState {
	return ClockState{Now: s.clock.Now(), Speed: s.clock.Speed()}
}

// changeClock answers once everything that became due has happened.
func (s *Sim) changeClock(change ClockChange) (any, error) {
	if change.Set != nil {
		s.clock.Set(*change.Set)
	}

	if change.Advance != nil {
		s.clock.Advance(time.Duration(*change.Advance))
	}

	if change.Speed != nil {
		s.clock.SetSpeed(*change.Speed)
	}

	s.do(func() {})

	return s.clockState(), nil
}

// accept decodes a JSON body strictly and answers with what f returns; its error is the caller's.
func accept[In any](f func(In) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In

		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
		d.DisallowUnknownFields()

		err := d.Decode(&in)

		var out any
		if err == nil {
			out, err = f(in)
		}

		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}

		reply(w, out)
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // plain data; a client that is gone needs no answer
}

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
	return append([]Purchase{}, s.ledger...) // an empty list, not null
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

// Effect is the effect of a fault on a call.
type Effect string

const (
	FailBefore Effect = "fail-before" // an error instead of the effect
	FailAfter  Effect = "fail-after"  // the effect, then an error
	CutBefore  Effect = "cut-before"  // the connection is cut, no effect
	CutAfter   Effect = "cut-after"   // the effect, then the connection is cut
	Delay      Effect = "delay"       // only latency
	Silent     Effect = "silent"      // no effect and no answer: the connection stays open, until the fault is cleared
	FailLater  Effect = "fail-later"  // PCS takes the call, and what it begins ends in CREATE_FAILED and the like
)

// Fault hits calls of one operation. Empty Service, Operation or Region match every one, so that
// {Effect: CutBefore, Region: "us-east-2"} is a region that is down.
type Fault struct {
	ID        int      `json:"id"`                // given by AddFault
	Service   string   `json:"service,omitempty"` // ec2, pcs, resource-groups, imds
	Operation string   `json:"operation,omitempty"`
	Region    string   `json:"region,omitempty"`
	Effect    Effect   `json:"effect"`
	Code      string   `json:"code,omitempty"`    // error code of fail-…, also in errorInfo; default InternalError
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
	f := Fault{
		Operation: operation,
		Effect:    FailBefore,
		Code:      "AccessDeniedException",
		Status:    http.StatusForbidden,
		Message: "User: arn:aws:iam::111122223333:user/simulated is not authorized to perform: " + action +
			" because no identity-based policy allows the " + action + " action",
	}
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
	return (f.Service == "" || f.Service == c.Service) && (f.Operation == "" || f.Operation == c.Operation) &&
		(f.Region == "" || f.Region == c.Region)
}

// awaitLatency waits out the latency and tells whether the call goes on to its effect.
func (s *Sim) awaitLatency(f *Fault, r *http.Request) bool {
	select { // or until the client is gone
	case <-time.After(time.Duration(f.Latency)):
	case <-r.Context().Done():
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

// breaks reports whether the answer is lost after the effect.
func (f *Fault) breaks() bool { return f.Effect == FailAfter || f.Effect == CutAfter }

// AddFault makes calls fail from now on and returns the fault's id.
func (s *Sim) AddFault(f Fault) (int, error) {
	switch f.Effect {
	case FailBefore, FailAfter, CutBefore, CutAfter, Delay, Silent, FailLater:
	default:
		return 0, fmt.Errorf(
			"fault effect %q: want fail-before, fail-after, fail-later, cut-before, cut-after, delay or silent",
			f.Effect,
		)
	}

	if f.Skip < 0 || f.Count < 0 || f.Latency < 0 {
		return 0, fmt.Errorf("fault: skip, count and latency cannot be negative")
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.serial++
	f.ID = int(s.serial)
	f.cleared = s.cleared
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

// dropConnection answers with the fault's error, or cuts the connection.
func (s *Sim) dropConnection(w http.ResponseWriter, c *call, f *Fault) {
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
