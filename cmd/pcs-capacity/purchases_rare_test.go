package main

import (
	"bytes"
	"context"
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

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

var purchases = map[string][]string{
	"purchase": {
		"purchase",
		"cb-0d05ecddf72412d79",
		"-t",
		"p5.48xlarge",
		"-n",
		"4",
		"-d",
		"7d",
		"--confirm-fee",
		"21143.81",
	},
	"extend": {"extend", "cr-0e2000000000000a1", "-d", "7d", "--confirm-fee", "21143.81"},
}

// Two at the same time with one state_dir: one buys, the other says so or takes up what was bought.
func TestR3_TwoAtOnceBuyOne(t *testing.T) {
	t.Parallel()

	for kind, args := range purchases {
		t.Run(kind, func(t *testing.T) {
			c := newShopper(t, args)

			var (
				outcomes [4]outcome
				running  sync.WaitGroup
			)
			for i := range outcomes {
				running.Go(func() { outcomes[i] = c.buy(t) })
			}

			running.Wait()

			if bought := c.sim.Ledger(); len(bought) != 1 {
				t.Errorf("%d bought", len(bought))
			}

			for _, o := range outcomes {
				if o.status != 0 && !strings.Contains(o.stderr, "another purchase or extension is running") {
					t.Errorf("exit status %d: %s", o.status, o.stderr)
				}
			}
		})
	}
}

// TestRare_R3_OnePurchaseThroughEachFault: the program buys through every fault at every call that it makes, and is run
// once more when AWS is well again. EC2 has then sold one, and neither run said anything else than what EC2 did.
func TestRare_R3_OnePurchaseThroughEachFault(t *testing.T) {
	t.Parallel()

	for kind, args := range purchases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			calm := newShopper(t, args)
			calm.check(t, calm.buy(t))

			struck := 0
			for _, call := range calm.calls {
				faults := callFaults
				if buys(call) {
					faults = slices.Concat(faults, purchaseFaults)
				}

				for _, f := range faults {
					t.Run(call+"/"+f.name, func(t *testing.T) {
						c := newShopper(t, args)
						c.fault, c.at = &f, call
						first := c.buy(t)
						c.check(t, first)

						if c.hit {
							struck++
						}

						c.fault = nil
						c.settle(t, first)
					})
				}
			}

			if struck == 0 {
				t.Error("no fault was met")
			}
		})
	}
}

// The same with kill -9 at every step of writing the files: strace kills the program when it enters the system call.
func TestRare_R3_OnePurchaseWhereverTheRecordStops(t *testing.T) {
	t.Parallel()

	killed := 0
	for kind, args := range purchases {
		for _, call := range []string{"fsync", "/^rename"} {
			for n := 1; n <= 4; n++ {
				t.Run(fmt.Sprintf("%s/%s %d", kind, strings.Trim(call, "/^"), n), func(t *testing.T) {
					c := newShopper(t, args)

					one := c.buy(t, "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace="+call,
						"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n))
					if one.status < 0 {
						killed++
					}

					c.check(t, one)
					c.settle(t, one)
				})
			}
		}
	}

	if killed < 4*len(purchases) { // a purchase writes two files at least, each with an fsync and a rename
		t.Errorf("only %d runs were killed", killed)
	}
}

// fault is what happens to one call of a program to AWS.
type fault struct {
	name   string
	before bool // keeps the call from its effect; else the effect comes first
	// interrupt the program (Ctrl-C), and let it do with the call what it likes; kill it; answer with
	// the HTTP status; hang until the program gives up; answer what is no answer; else the connection is cut.
	interrupt, kill, hang, garbage bool
	status                         int
	rest                           bool // does the same to every later call: AWS is down from then on
}

var (
	callFaults = []fault{
		{name: "throttled", before: true, status: http.StatusServiceUnavailable},
		{name: "500 before the effect", before: true, status: http.StatusInternalServerError},
		{name: "500 after the effect", status: http.StatusInternalServerError},
		{name: "cut before the effect", before: true},
		{name: "cut after the effect"},
		{name: "garbage", garbage: true},
		{name: "killed before the effect", before: true, kill: true},
		{name: "killed after the effect", kill: true},
		{name: "down from here on", before: true, rest: true},
		{name: "interrupted", interrupt: true},
	}
	// A program that is asked nothing else has a timeout for these only.
	purchaseFaults = []fault{
		{name: "timeout before the effect", before: true, hang: true},
		{name: "timeout after the effect", hang: true},
		{name: "down after the effect", rest: true},
		{name: "throttled after the effect", status: 503},
	}
)

func buys(call string) bool {
	return strings.HasPrefix(call, "PurchaseCapacityBlock")
}

// shopper is a simulated AWS and a program that buys there. It stands between the two, notes the
// calls, and does a fault to one of them.
type shopper struct {
	sim    *awssim.Sim
	url    string
	args   []string
	config string

	mu    sync.Mutex
	calls []string // operation, and how many calls of it that makes
	// fault hits the call that at names; nil once AWS is well.
	fault  *fault
	at     string
	hit    bool
	signal func(os.Signal) // goes to the program that runs
}

func newShopper(t *testing.T, args []string) *shopper {
	t.Helper()

	c := &shopper{args: args, signal: func(os.Signal) {}}

	scenario, err := awssim.LoadScenario(simWorld)
	if err != nil {
		t.Fatal(err)
	}

	scenario.PaymentDelay = 0
	if c.sim, err = awssim.New(scenario, awssim.NewClock(simStart, 0)); err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(c)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		_ = c.sim.Close()
	})

	c.url = server.URL

	dir := t.TempDir()
	c.config = filepath.Join(dir, "config.toml")
	settings := fmt.Sprintf(`
state_dir = %q

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
	if err := os.WriteFile(c.config, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}

	return c
}

// ServeHTTP hands a call to AWS, unless the fault is its.
func (c *shopper) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}

	form, _ := url.ParseQuery(string(body))
	name := form.Get("Action")

	c.mu.Lock()

	nth := 1
	for _, call := range c.calls {
		if strings.HasPrefix(call, name+" ") {
			nth++
		}
	}

	call := fmt.Sprintf("%s %d", name, nth)
	c.calls = append(c.calls, call)
	f, signal := c.fault, c.signal
	if f != nil && call != c.at && !(f.rest && c.hit) {
		f = nil
	}

	c.hit = c.hit || f != nil
	c.mu.Unlock()
	c.sim.Clock().Advance(time.Minute) // so that the program, which waits for EC2 to settle, comes to an end

	if f != nil && f.interrupt {
		signal(os.Interrupt)

		if !buys(name) {
			<-r.Context().Done() // a program that goes on with the call would hang here
		}

		f = nil
	}

	answer := httptest.NewRecorder()
	if f == nil || !f.before {
		r.Body = io.NopCloser(bytes.NewReader(body))
		c.sim.Handler().ServeHTTP(answer, r)
	}

	switch {
	case f == nil:
	case f.kill:
		signal(syscall.SIGKILL)
		panic(http.ErrAbortHandler)
	case f.hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case f.garbage:
		answer = httptest.NewRecorder()
		answer.WriteString("<html><body>It works!</body></html")
	case f.status != 0: // as EC2 answers that throttles (503) or is broken (500)
		code := "InternalError"
		if f.status == http.StatusServiceUnavailable {
			code = "RequestLimitExceeded"
		}

		answer = httptest.NewRecorder()
		answer.Header().Set("Date", c.sim.Clock().Now().Format(http.TimeFormat))
		answer.WriteHeader(f.status)
		fmt.Fprintf(
			answer,
			`<Response><Errors><Error><Code>%s</Code><Message>injected</Message></Error></Errors><RequestID>x</RequestID></Response>`,
			code,
		)
	default:
		panic(http.ErrAbortHandler)
	}

	for name, values := range answer.Header() {
		rw.Header()[name] = values
	}

	rw.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(rw)
}

// outcome is what one run of the program did; the status of one that was killed is -1.
type outcome struct {
	status         int
	stdout, stderr string
}

// buy runs the program to its end; strace is in front of it, if anything. One that follows a payment
// while AWS is down waits for ever, and is killed.
func (c *shopper) buy(t *testing.T, strace ...string) outcome {
	t.Helper()

	limit, attempts := 2*time.Minute, 1
	if f := c.fault; f != nil && f.rest {
		limit = 2 * time.Second
	}

	if c.fault != nil && buys(c.at) {
		attempts = 3 // the SDK's default, so that a retry of the purchase would show
	}

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	words := slices.Concat(strace, []string{"pcs-capacity", "--config", c.config}, c.args)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)

	cmd.Env = append(
		append(os.Environ(), c.sim.Env()...),
		"AWS_ENDPOINT_URL="+c.url,
		fmt.Sprintf("AWS_MAX_ATTEMPTS=%d", attempts),
		"AWS_EC2_METADATA_DISABLED=true",
		"TZ=UTC",
	)

	var stdout, stderr bytes.Buffer

	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // what a killed program has started may live on

	c.mu.Lock()
	err := cmd.Start()
	c.signal = func(s os.Signal) { _ = cmd.Process.Signal(s) }
	c.mu.Unlock()

	if err != nil {
		t.Error(err)
		return outcome{}
	}

	if exit := (*exec.ExitError)(nil); !errors.As(cmd.Wait(), &exit) && cmd.ProcessState == nil {
		t.Error("it was not waited for")
	}

	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

var (
	saysBought    = regexp.MustCompile(`it was bought|is bought|[Aa]n earlier run bought`)
	saysNotBought = regexp.MustCompile(`was not bought|nothing was bought`)
)

// check compares what a run says with what was bought.
func (c *shopper) check(t *testing.T, one outcome) {
	t.Helper()

	bought, said := c.sim.Ledger(), one.stdout+one.stderr
	switch f := c.fault; {
	case len(bought) > 1:
		t.Errorf("the first run bought %d", len(bought))
	case f != nil && f.interrupt && c.hit && !buys(c.at) && len(bought) > 0 && c.beforePurchase():
		t.Errorf("it went on to buy after an interrupt")
	case one.status == 0 && len(bought) != 1:
		t.Errorf("exit status 0, and %d bought", len(bought))
	case len(bought) == 1 && saysNotBought.MatchString(said):
		t.Errorf("it was bought")
	case len(bought) == 0 && (one.stdout != "" || saysBought.MatchString(said)):
		t.Errorf("it was not bought")
	}
}

// beforePurchase reports whether the call that met the fault came before the purchase.
func (c *shopper) beforePurchase() bool {
	at := slices.Index(c.calls, c.at)
	return at >= 0 && !slices.ContainsFunc(c.calls[:at], buys)
}

// settle runs it again: it buys, or takes up what was bought.
func (c *shopper) settle(t *testing.T, first outcome) {
	t.Helper()

	two := c.buy(t)
	bought := c.sim.Ledger()
	lines := strings.Split(strings.TrimSpace(two.stdout), "\n")
	if two.status != 0 || len(bought) != 1 || !strings.HasPrefix(lines[len(lines)-1], bought[0].ReservationID+" ") {
		t.Errorf("the second run ends with status %d, %d bought", two.status, len(bought))
	}

	if t.Failed() {
		t.Logf("first run: %+v\nsecond run: %+v", first, two)
	}
}
