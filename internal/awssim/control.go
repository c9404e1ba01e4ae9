package awssim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
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

// CallCount is one line of GET /_sim/calls.
type CallCount struct {
	CallKey
	Count int `json:"count"`
}

// HostFailure is the body of POST /_sim/host-failure.
type HostFailure struct {
	Region   string `json:"region"` // default: the home region
	Instance string `json:"instance"`
}

// Payments is the body of POST /_sim/payments.
type Payments struct {
	Fail bool `json:"fail"`
}

// GroupFailures is the body of POST /_sim/group-failures: so many creations and updates of compute node groups end
// with this errorInfo.
type GroupFailures struct {
	Count   int    `json:"count"`
	Code    string `json:"code"`
	Message string `json:"message"`
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
	mux.HandleFunc("POST /_sim/payments", accept(func(p Payments) (any, error) {
		s.FailPayments(p.Fail)
		return p, nil
	}))
	mux.HandleFunc("POST /_sim/group-failures", accept(func(f GroupFailures) (any, error) {
		s.FailNodeGroups(f.Count, f.Code, f.Message)
		return f, nil
	}))
	mux.HandleFunc("POST /_sim/limits", accept(func(l Limits) (any, error) { return l, s.SetLimits(l) }))
	mux.HandleFunc("POST /_sim/lag", accept(func(l Lag) (any, error) {
		s.SetLag(l)
		return l, nil
	}))
	mux.HandleFunc("GET /_sim/ledger", func(w http.ResponseWriter, r *http.Request) { reply(w, s.Ledger()) })
	mux.HandleFunc("GET /_sim/calls", func(w http.ResponseWriter, r *http.Request) { reply(w, s.callCounts()) })
	mux.HandleFunc("DELETE /_sim/calls", func(w http.ResponseWriter, r *http.Request) {
		s.ResetCalls()
		reply(w, s.callCounts())
	})
	mux.HandleFunc("GET /_sim/instances", func(w http.ResponseWriter, r *http.Request) {
		reply(w, s.Instances(r.URL.Query().Get("region")))
	})
	mux.HandleFunc("POST /_sim/host-failure", accept(func(h HostFailure) (any, error) {
		return h, s.FailHost(cmp.Or(h.Region, s.homeRegion()), h.Instance)
	}))
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

func (s *Sim) callCounts() []CallCount {
	out := []CallCount{}
	for k, n := range s.Calls() {
		out = append(out, CallCount{k, n})
	}
	slices.SortFunc(out, func(a, b CallCount) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Region, b.Region))
	})
	return out
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
