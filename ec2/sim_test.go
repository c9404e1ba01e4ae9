package ec2

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// Things of the simulator's default scenario, in us-east-2.
const (
	openBlock   = "cr-0e2000000000000a1" // 16 × p5.48xlarge in use2-az1
	laterBlock  = "cr-0e2000000000000a2" // the same, from in 5 days on
	ultraBlock  = "cr-0e2000000000000c6" // two UltraServers
	gpuODCR     = "cr-0e200000000000a11" // 4 × g6.12xlarge
	borrowed    = "cr-0e200000000000a15" // interruptible
	sharedODCR  = "cr-0e200000000000a16" // of another account, whose us-east-2c it is
	nodes       = "lt-0e2000000000000a2" // with an image
	subnetA     = "subnet-0e200000000000a01"
	subnetB     = "subnet-0e200000000000b02"
	groupOfAll  = "sg-0e2000000000000a1"
	image       = "ami-0e200000000000a01"
	homeRegion  = "us-east-2"
	otherRegion = "us-west-2"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// newSim is a simulator whose clock stands still, and a client that talks to it.
func newSim(t *testing.T) (*awssim.Sim, *Client) {
	t.Helper()
	sim, c, _ := countedSim(t)
	return sim, c
}

// countedSim also counts the HTTP requests that arrive, by their operation,
// whatever becomes of them.
func countedSim(t *testing.T) (*awssim.Sim, *Client, func(operation string) int) {
	t.Helper()
	return simOf(t, nil)
}

// simOf is a countedSim of a scenario, nil for the simulator's default.
func simOf(t testing.TB, scenario *awssim.Scenario) (*awssim.Sim, *Client, func(operation string) int) {
	t.Helper()
	sim, err := awssim.New(scenario, awssim.NewClock(noon, 0))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	arrived := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if form, err := url.ParseQuery(string(body)); err == nil {
			mu.Lock()
			arrived[form.Get("Action")]++
			mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		sim.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		_ = sim.Close()
	})
	files := t.TempDir()
	for _, kv := range append(sim.Env(), "AWS_ENDPOINT_URL="+server.URL, "AWS_CONFIG_FILE="+files+"/config", "AWS_SHARED_CREDENTIALS_FILE="+files+"/credentials") {
		key, value, _ := strings.Cut(kv, "=")
		t.Setenv(key, value)
	}
	c, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return sim, c, func(operation string) int {
		mu.Lock()
		defer mu.Unlock()
		return arrived[operation]
	}
}

func calls(sim *awssim.Sim, operation string) int {
	n := 0
	for key, count := range sim.Calls() {
		if key.Operation == operation {
			n += count
		}
	}
	return n
}

func fault(t *testing.T, sim *awssim.Sim, f awssim.Fault) {
	t.Helper()
	if _, err := sim.AddFault(f); err != nil {
		t.Fatal(err)
	}
}
