package setup_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Things of the simulator's default scenario, in us-east-2; its cluster is ml, SMALL,
// with one node group, compute, of at most 4 nodes.
const (
	openBlock  = "cr-0e2000000000000a1" // 16 × p5.48xlarge in use2-az1, for 5 days more
	laterBlock = "cr-0e2000000000000a2" // the same, from then on for a week
	p4Block    = "cr-0e2000000000000b3" // 8 × p4d.24xlarge in use2-az2
	unpaid     = "cr-0e2000000000000c4"
	gpuODCR    = "cr-0e200000000000a11" // 4 × g6.12xlarge in use2-az1
	sharedODCR = "cr-0e200000000000a16" // of another account: 2 × p5.48xlarge in use2-az1
	subnetA    = "subnet-0e200000000000a01"
	subnetB    = "subnet-0e200000000000b02"
	image      = "ami-0e200000000000a01"
	region     = "us-east-2"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// The garbage of thousands of calls over the wire takes a quarter of the time of these tests.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// account is a simulated AWS whose clock stands still, and a setup that talks to it over the
// wire, through a server that can look at the traffic.
type account struct {
	*testing.T
	sim   *awssim.Sim
	aws   http.Handler // of sim
	setup setup.Setup
	ec2   *ec2.Client
	dir   string

	mu      sync.Mutex
	writes  []string
	rewrite func(operation string, answer []byte) []byte // changes PCS's answers; nil leaves them
}

func newAccount(t *testing.T, change func(*awssim.Scenario)) *account {
	t.Helper()

	scenario := awssim.DefaultScenario()
	scenario.PCSDelay = 0
	if change != nil {
		change(scenario)
	}

	sim, err := awssim.New(scenario, awssim.NewClock(noon, 0))
	if err != nil {
		t.Fatal(err)
	}

	w := &account{T: t, sim: sim, aws: sim.Handler(), dir: t.TempDir()}
	server := httptest.NewServer(w)
	t.Cleanup(func() {
		server.Close()
		_ = sim.Close()
	})

	for _, kv := range append(sim.Env(), "AWS_ENDPOINT_URL="+server.URL, "AWS_MAX_ATTEMPTS=1", "AWS_CA_BUNDLE=",
		"AWS_CONFIG_FILE="+w.dir+"/aws-config", "AWS_SHARED_CREDENTIALS_FILE="+w.dir+"/aws-credentials") {
		key, value, _ := strings.Cut(kv, "=")
		t.Setenv(key, value)
	}

	if w.ec2, err = ec2.New(t.Context(), ec2.Options{}); err != nil {
		t.Fatal(err)
	}

	w.setup = setup.Setup{PCS: pcs.From(w.ec2.Shared()), EC2: w.ec2, Poll: time.Millisecond}

	return w
}

// ServeHTTP notes which operations write, and hands the request to the simulator.
func (w *account) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}

	r.Body = io.NopCloser(bytes.NewReader(body))
	operation := r.Header.Get("X-Amz-Target")
	if _, name, ok := strings.Cut(operation, "."); ok {
		operation = name
	} else if _, rest, ok := strings.Cut(string(body), "Action="); ok {
		operation, _, _ = strings.Cut(rest, "&")
	}

	w.mu.Lock()
	if !slices.ContainsFunc(
		[]string{"Describe", "Get", "List", "Simulate"},
		func(reads string) bool { return strings.HasPrefix(operation, reads) },
	) &&
		!strings.Contains(string(body), "DryRun=true") {
		w.writes = append(w.writes, operation)
	}

	rewrite := w.rewrite
	w.mu.Unlock()

	if rewrite == nil {
		w.aws.ServeHTTP(to, r)
		return
	}

	recorded := httptest.NewRecorder()
	w.aws.ServeHTTP(recorded, r)

	answer := rewrite(operation, recorded.Body.Bytes())
	for key, values := range recorded.Header() {
		if key != "Content-Length" && key != "X-Amz-Crc32" {
			to.Header()[key] = values
		}
	}

	to.WriteHeader(recorded.Code)
	_, _ = to.Write(answer)
}

// post asks PCS for what its API has and the SDK has not.
func (w *account) post(operation, body string) string {
	w.Helper()

	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "AWSParallelComputingService."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261120/"+region+"/pcs/aws4_request")

	recorded := httptest.NewRecorder()
	w.aws.ServeHTTP(recorded, r)

	if recorded.Code != http.StatusOK {
		w.Fatalf("%s: HTTP %d: %s", operation, recorded.Code, recorded.Body)
	}

	return recorded.Body.String()
}

// written lists the writing calls since the last time it was asked.
func (w *account) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()

	list := w.writes
	w.writes = nil

	return list
}

func (w *account) configPath() string { return filepath.Join(w.dir, "etc", "config.toml") }

// config is what the settings say now; nil if there are none.
func (w *account) config() *config.Config {
	w.Helper()

	c, err := config.Load(w.configPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		w.Fatal(err)
	}

	return c
}

// request is what most tests ask for.
func (w *account) request(reservation string) setup.Request {
	return setup.Request{
		Cluster: "ml", Queue: "gpu", NodeGroup: "gpu", Reservation: reservation, Like: "compute",
		MaxNodes: 4, ConfigPath: w.configPath(), Config: w.config(),
	}
}

func (w *account) plan(r setup.Request) *setup.Plan {
	w.Helper()
	r.Config = w.config()

	p, err := w.setup.Plan(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}

	return p
}

// run plans and applies, which must both go well. Slurm is not waited for.
func (w *account) run(r setup.Request) *setup.Plan {
	w.Helper()
	s := w.setup
	s.Slurm = nil
	r.Config = w.config()

	p, err := s.Plan(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}

	if err := s.Apply(w.Context(), p); err != nil {
		w.Fatal(err)
	}

	return p
}

func (w *account) inventory() pcs.Inventory {
	w.Helper()

	inv, err := w.setup.PCS.Inventory(w.Context(), "ml")
	if err != nil {
		w.Fatal(err)
	}

	return inv
}

func (w *account) group(name string) pcs.NodeGroup {
	w.Helper()

	g, found := w.inventory().Group(name)
	if !found {
		w.Fatalf("there is no node group %s", name)
	}

	return g
}

func (w *account) template(g pcs.NodeGroup) capacity.LaunchTemplate {
	w.Helper()

	t, found, err := w.ec2.LaunchTemplate(w.Context(), g.TemplateID, g.TemplateVersion)
	if err != nil || !found {
		w.Fatalf("launch template of %s: %v, %v", g.Name, found, err)
	}

	return t
}

func (w *account) fault(f awssim.Fault) {
	w.Helper()

	if _, err := w.sim.AddFault(f); err != nil {
		w.Fatal(err)
	}
}

// buyNextWeek buys 4 × p5.48xlarge in use2-az1 that open in 8 days, and waits for the payment.
func (w *account) buyNextWeek() string {
	w.Helper()

	buyer, err := ec2.New(w.Context(), ec2.Options{}) // one client searches a few times a minute
	if err != nil {
		w.Fatal(err)
	}

	offers, err := buyer.Offerings(
		w.Context(),
		ec2.OfferingQuery{
			InstanceType: "p5.48xlarge",
			Count:        4,
			Duration:     48 * time.Hour,
			StartAfter:   w.sim.Clock().Now().Add(7 * 24 * time.Hour),
		},
	)
	if err != nil {
		w.Fatal(err)
	}

	i := slices.IndexFunc(offers, func(o capacity.Offering) bool { return o.AZID == "use2-az1" })
	if i < 0 {
		w.Fatalf("no block for sale: %v", offers)
	}

	bought, err := buyer.Purchase(w.Context(), ec2.Buy, offers[i].ID, "Linux/UNIX", nil)
	if err != nil {
		w.Fatal(err)
	}

	w.sim.Clock().Advance(10 * time.Minute)

	return bought.ID
}

func codes(p *setup.Plan) []string {
	var all []string
	for _, m := range p.Mismatches() {
		all = append(all, string(m.Code))
	}

	return slices.Sorted(slices.Values(all))
}

// actions are those of a plan in the order of its table, files last.
func actions(p *setup.Plan) string {
	var all []string
	for _, file := range []bool{false, true} {
		for _, s := range p.Steps() {
			if file == (s.What == setup.WhatFile) {
				all = append(all, string(s.Verb))
			}
		}
	}

	return strings.Join(all, " ")
}
