package main_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"time"
)

// latency is less than EC2 ever takes. Without any, the SDK's clients take some answers
// for broken connections and ask again: aws-sdk-go-v2 issue 2737.
const latency = 10 * time.Millisecond

// replay answers a question that it has heard before from memory, so that a benchmark
// measures the programs that ask more than the simulator.
type replay struct {
	next http.Handler

	mu      sync.Mutex
	answers map[string]*httptest.ResponseRecorder
}

var scope = regexp.MustCompile(`Credential=[^/]+/[^/]+/([^/]+)/([^/]+)/`)

func (p *replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	// A question is the same when region, service and parameters are.
	question := string(body)
	if m := scope.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		question = m[1] + " " + m[2] + " " + question
	}
	p.mu.Lock()
	answer := p.answers[question]
	p.mu.Unlock()
	if answer == nil {
		answer = httptest.NewRecorder()
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.next.ServeHTTP(answer, r)
		p.mu.Lock()
		p.answers[question] = answer
		p.mu.Unlock()
	}
	time.Sleep(latency)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a client that is gone needs no answer
}
