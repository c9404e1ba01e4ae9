//go:build !race

// Some hundred runs of the program, each with a deadline; under the race detector they
// start so slowly that the deadline comes before the fault. `make test` runs them without.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// fault is what happens to one call of a program that buys.
type fault struct {
	name string
	// before keeps the call from its effect; else the effect comes first.
	before bool
	// interrupt the program (Ctrl-C), and let it do with the call what it likes; kill it; status answers with it; hang until the program gives up; else the
	// connection is cut.
	interrupt, kill, hang bool
	status                int
	// rest does the same to every later call: AWS is down from then on.
	rest bool
}

var callFaults = []fault{
	{name: "cut before the effect", before: true},
	{name: "cut after the effect"},
	{name: "500 before the effect", before: true, status: 500},
	{name: "500 after the effect", status: 500},
	{name: "throttled", before: true, status: 503},
	{name: "killed before the effect", before: true, kill: true},
	{name: "killed after the effect", kill: true},
	{name: "down from here on", before: true, rest: true},
	{name: "interrupted", interrupt: true},
}

// A program that is asked nothing else has a timeout for these only.
var purchaseFaults = []fault{
	{name: "timeout before the effect", before: true, hang: true},
	{name: "timeout after the effect", hang: true},
	{name: "down after the effect", rest: true},
	{name: "throttled after the effect", status: 503},
}

var purchases = map[string][]string{
	"purchase": {"purchase", "cb-0d05ecddf72412d79", "-t", "p5.48xlarge", "-n", "4", "-d", "7d", "--confirm-fee", "21143.81"},
	"extend":   {"extend", "cr-0e2000000000000a1", "-d", "7d", "--confirm-fee", "21143.81"},
}

// The program buys through every fault at every call that it makes, and is run once more
// when AWS is well again. EC2 has then sold one, and neither run said anything else than
// what EC2 did.
func TestR3_OnePurchaseWhateverHappens(t *testing.T) {
	program := itself(t)
	for kind, args := range purchases {
		calls := newFaultyWorld(t, nil, 0).callsOf(t, program, args)
		for n, operation := range calls {
			faults, attempts := callFaults, 1
			if buys(operation) {
				attempts = 3 // the SDK's default, so that a retry of the purchase would show
				faults = append(faults[:len(faults):len(faults)], purchaseFaults...)
			}
			for _, f := range faults {
				t.Run(fmt.Sprintf("%s/call %d %s/%s", kind, n+1, operation, f.name), func(t *testing.T) {
					t.Parallel()
					w := newFaultyWorld(t, &f, n+1)
					w.attempts = attempts
					w.checkTwoRuns(t, program, args)
				})
			}
		}
	}
}

func buys(operation string) bool { return strings.HasPrefix(operation, "PurchaseCapacityBlock") }

// The same with kill -9 at every step of writing the files: strace kills the program
// when it enters the system call.
func TestR3_OnePurchaseWhereverTheRecordStops(t *testing.T) {
	program := itself(t)
	killed := 0
	for kind, args := range purchases {
		for _, call := range []string{"fsync", "/^rename"} {
			for n := 1; n <= 4; n++ {
				t.Run(fmt.Sprintf("%s/%s %d", kind, strings.Trim(call, "/^"), n), func(t *testing.T) {
					w := newFaultyWorld(t, nil, 0)
					strace := append([]string{"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
						"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n)}, program...)
					if w.checkTwoRunsOf(t, strace, program, args).killed {
						killed++
					}
				})
			}
		}
	}
	if killed < 8 {
		t.Errorf("only %d runs were killed", killed)
	}
}

// Two at the same time with one state_dir: one buys, the other says so or takes up what
// was bought.
func TestR3_TwoAtOnceBuyOne(t *testing.T) {
	program := itself(t)
	for kind, args := range purchases {
		t.Run(kind, func(t *testing.T) {
			w := newFaultyWorld(t, nil, 0)
			var outcomes [4]outcome
			var running sync.WaitGroup
			for i := range outcomes {
				running.Go(func() { outcomes[i] = w.run(t, program, args) })
			}
			running.Wait()
			if bought := w.ledger(t); len(bought) != 1 {
				t.Errorf("%d bought", len(bought))
			}
			for _, o := range outcomes {
				if o.status != 0 && !strings.Contains(o.stderr, "another purchase or extension runs") {
					t.Errorf("exit status %d: %s", o.status, o.stderr)
				}
			}
		})
	}
}

// faultyWorld is a simulated AWS, on a clock that runs 20 times as fast, in front of
// which one call meets a fault.
type faultyWorld struct {
	sim    *awssim.Sim
	url    string
	config string
	// attempts is what the SDK may make of a call that it retries.
	attempts int

	mu sync.Mutex
	// fault hits the call of that number; nil once AWS is well.
	fault *fault
	at    int
	calls []string
	// signal goes to the program that runs.
	signal func(os.Signal)
}

func newFaultyWorld(t *testing.T, f *fault, at int) *faultyWorld {
	t.Helper()
	scenario, err := awssim.LoadScenario(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	scenario.PaymentDelay = awssim.Duration(2 * time.Second)
	sim, err := awssim.New(scenario, awssim.NewClock(simStart, 20))
	if err != nil {
		t.Fatal(err)
	}
	w := &faultyWorld{sim: sim, fault: f, at: at, attempts: 1, signal: func(os.Signal) {}}
	server := httptest.NewServer(w)
	t.Cleanup(func() {
		server.Close()
		_ = sim.Close()
	})
	w.url = server.URL
	dir := t.TempDir()
	w.config = filepath.Join(dir, "config.toml")
	settings := fmt.Sprintf(`
state_dir = %q

[purchase]
timeout = "1s"
settle = "1s"

[[partition]]
name = "gpu"
provider = "ec2"

  [[partition.node_group]]
  name = "gpu"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0e200000000000a01"]
  max_nodes = 4
  launch_template = "lt-0e2000000000000a2"
`, filepath.Join(dir, "state"))
	if err := os.WriteFile(w.config, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

// ServeHTTP hands a call to the simulator, unless the fault is its.
func (w *faultyWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		w.sim.Handler().ServeHTTP(rw, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	form, _ := url.ParseQuery(string(body))
	w.mu.Lock()
	w.calls = append(w.calls, form.Get("Action"))
	f, signal := w.fault, w.signal
	if f != nil && len(w.calls) != w.at && (len(w.calls) < w.at || !f.rest) {
		f = nil
	}
	w.mu.Unlock()

	if f != nil && f.interrupt {
		signal(os.Interrupt)
		if !buys(form.Get("Action")) {
			<-r.Context().Done() // a program that goes on with the call would hang here
		}
		f = nil
	}
	answer := httptest.NewRecorder()
	if f == nil || !f.before {
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.sim.Handler().ServeHTTP(answer, r)
	}
	if f == nil {
		for name, values := range answer.Header() {
			rw.Header()[name] = values
		}
		rw.WriteHeader(answer.Code)
		_, _ = answer.Body.WriteTo(rw)
		return
	}
	switch {
	case f.kill:
		signal(syscall.SIGKILL)
	case f.hang:
		<-r.Context().Done()
	case f.status != 0:
		code := "InternalError"
		if f.status == 503 {
			code = "RequestLimitExceeded"
		}
		rw.Header().Set("Date", w.sim.Clock().Now().Format(http.TimeFormat))
		rw.WriteHeader(f.status)
		fmt.Fprintf(rw, `<Response><Errors><Error><Code>%s</Code><Message>injected</Message></Error></Errors><RequestID>x</RequestID></Response>`, code)
		return
	}
	panic(http.ErrAbortHandler)
}

// outcome is what one run of the program did.
type outcome struct {
	status         int
	killed         bool
	stdout, stderr string
}

// mostTime bounds a run that can end. One that follows a payment while AWS is down waits
// for ever, and is killed.
const mostTime, downTime = 30 * time.Second, 1500 * time.Millisecond

// run runs the program to its end, or kills it.
func (w *faultyWorld) run(t *testing.T, program, args []string) outcome {
	t.Helper()
	limit := mostTime
	if w.fault != nil && w.fault.rest {
		limit = downTime
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	words := append(append(program[1:len(program):len(program)], "--config", w.config), args...)
	cmd := exec.CommandContext(ctx, program[0], words...)
	cmd.Env = append(os.Environ(), append(w.sim.Env(), "AWS_ENDPOINT_URL="+w.url, fmt.Sprintf("AWS_MAX_ATTEMPTS=%d", w.attempts), "AWS_EC2_METADATA_DISABLED=true", "TZ=UTC", "GOMAXPROCS=1")...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.signal = func(s os.Signal) { _ = cmd.Process.Signal(s) }
	w.mu.Unlock()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), cmd.ProcessState.ExitCode() < 0, stdout.String(), stderr.String()}
}

// callsOf are the calls of a run in which all goes well.
func (w *faultyWorld) callsOf(t *testing.T, program, args []string) []string {
	t.Helper()
	if o := w.run(t, program, args); o.status != 0 {
		t.Fatalf("a run without faults: exit status %d\n%s", o.status, o.stderr)
	}
	return w.calls
}

// ledger is every purchase that took effect.
func (w *faultyWorld) ledger(t *testing.T) []awssim.Purchase {
	t.Helper()
	answer, err := http.Get(w.url + "/_sim/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var all []awssim.Purchase
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func (w *faultyWorld) checkTwoRuns(t *testing.T, program, args []string) {
	t.Helper()
	w.checkTwoRunsOf(t, program, program, args)
}

var (
	saysBought    = regexp.MustCompile(`it was bought|is bought|[Aa]n earlier run bought`)
	saysNotBought = regexp.MustCompile(`was not bought|nothing was bought`)
)

// checkTwoRunsOf runs the first program through the fault and the second one when AWS
// is well again, and returns what the first one did.
func (w *faultyWorld) checkTwoRunsOf(t *testing.T, first, second, args []string) outcome {
	t.Helper()
	one := w.run(t, first, args)
	bought := w.ledger(t)
	said := one.stdout + one.stderr
	switch {
	case len(bought) > 1:
		t.Errorf("the first run bought %d", len(bought))
	case w.fault != nil && w.fault.interrupt && !slices.ContainsFunc(w.calls[:w.at], buys) && len(bought) > 0:
		t.Errorf("it went on to buy after an interrupt")
	case one.status == 0 && len(bought) != 1:
		t.Errorf("exit status 0, and %d bought", len(bought))
	case len(bought) == 1 && saysNotBought.MatchString(said):
		t.Errorf("it was bought")
	case len(bought) == 0 && (one.stdout != "" || saysBought.MatchString(said)):
		t.Errorf("it was not bought")
	}
	w.mu.Lock()
	w.fault = nil
	w.mu.Unlock()
	two := w.run(t, second, args)
	bought = w.ledger(t)
	if two.status != 0 || len(bought) != 1 || !strings.HasPrefix(lastLine(two.stdout), bought[0].ReservationID+" ") {
		t.Errorf("the second run ends with status %d, %d bought", two.status, len(bought))
	}
	if t.Failed() {
		t.Logf("first run, exit status %d:\n%s%ssecond run, exit status %d:\n%s%s", one.status, one.stderr, one.stdout, two.status, two.stderr, two.stdout)
	}
	return one
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// itself is pcs-capacity, which this test program is when it is called by that name: a
// fault test runs what it is compiled with.
func itself(t *testing.T) []string {
	t.Helper()
	path, err := exec.LookPath("pcs-capacity")
	if err != nil {
		t.Fatal(err)
	}
	return []string{path}
}
