//go:build !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// What else can become of a program that buys.
var (
	buyerFaults = []fault{
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

var purchases = map[string][]string{
	"purchase": {"purchase", "cb-0d05ecddf72412d79", "-t", "p5.48xlarge", "-n", "4", "-d", "7d", "--confirm-fee", "21143.81"},
	"extend":   {"extend", "cr-0e2000000000000a1", "-d", "7d", "--confirm-fee", "21143.81"},
	"reserve": {"reserve", "-t", "c7i.4xlarge", "-n", "4", "--subnet-ids", "subnet-0e200000000000a01",
		"--start", "2026-12-01T08:00Z", "--commitment", "14d", "--confirm-commitment", "1344"},
}

// The program buys through every fault at every call that it makes, and is run once more
// when AWS is well again. EC2 has then sold one, and neither run said anything else than
// what EC2 did.
var faultedPurchases = []faulted{
	{name: "purchase", workers: 4, start: purchaseOf("purchase"), more: moreFaults, sample: []string{"PurchaseCapacityBlock 1/", "/down from here on", "DescribeCapacityBlockOfferings 1/"}},
	{name: "reserve --start", workers: 4, start: purchaseOf("reserve"), more: moreFaults, sample: []string{"CreateCapacityReservation 1/killed", "CreateCapacityReservation 1/cut", "CreateCapacityReservation 1/timeout"}},
	{name: "extend", workers: 4, start: purchaseOf("extend"), more: moreFaults, sample: []string{"PurchaseCapacityBlockExtension 1/", "/down from here on", "/interrupted"}},
}

// moreFaults are those of a call of a program that buys.
func moreFaults(call string) []fault {
	switch {
	case strings.HasPrefix(call, "slurm "):
		return nil
	case buys(call):
		return slices.Concat(buyerFaults, purchaseFaults)
	}
	return buyerFaults
}

func buys(call string) bool {
	return strings.HasPrefix(call, "ec2 PurchaseCapacityBlock") || strings.HasPrefix(call, "ec2 CreateCapacityReservation")
}

// The same with kill -9 at every step of writing the files: strace kills the program
// when it enters the system call.
func TestR3_OnePurchaseWhereverTheRecordStops(t *testing.T) {
	if testing.Short() {
		t.Skip("16 purchases under strace")
	}
	t.Parallel()
	killed := 0
	for kind, args := range purchases {
		for _, call := range []string{"fsync", "/^rename"} {
			for n := 1; n <= 4; n++ {
				t.Run(fmt.Sprintf("%s/%s %d", kind, strings.Trim(call, "/^"), n), func(t *testing.T) {
					c := newShopper(t, args)
					one := c.buy(t, "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace="+call,
						"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n))
					if one.killed {
						killed++
					}
					if first, second := c.check(t, one), c.settle(t); t.Failed() {
						t.Logf("first run: %s\nsecond run: %s", first, second)
					}
				})
			}
		}
	}
	if killed < 14 {
		t.Errorf("only %d runs were killed", killed)
	}
}

// Two at the same time with one state_dir: one buys, the other says so or takes up what
// was bought.
func TestR3_TwoAtOnceBuyOne(t *testing.T) {
	for kind, args := range purchases {
		t.Run(kind, func(t *testing.T) {
			c := newShopper(t, args)
			var outcomes [4]outcome
			var running sync.WaitGroup
			for i := range outcomes {
				running.Go(func() { outcomes[i] = c.buy(t) })
			}
			running.Wait()
			if bought := c.g.sim.Ledger(); len(bought) != 1 {
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

// shopper is a simulated AWS, on a clock that runs 20 times as fast, behind a gate, and a
// program that buys there.
type shopper struct {
	g      *gate
	args   []string
	dir    string
	config string
	ran    int
}

func purchaseOf(kind string) func(*testing.T) faultedWorld {
	return func(t *testing.T) faultedWorld { return newShopper(t, purchases[kind]) }
}

func newShopper(t *testing.T, args []string) *shopper {
	t.Helper()
	c := &shopper{g: newGate(t), args: args, dir: t.TempDir()}
	c.reset(t)
	return c
}

func (c *shopper) gate() *gate { return c.g }

func (c *shopper) reset(t *testing.T) {
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
	c.g.serve(sim)
	c.ran++
	dir := filepath.Join(c.dir, fmt.Sprint(c.ran))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.config = filepath.Join(dir, "config.toml")
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
	if c.args[0] == "reserve" {
		settings = "cluster = \"ml\"\n" + settings + "\n[reserve]\nenabled = true\n"
	}
	if err := os.WriteFile(c.config, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mostTime bounds a run that can end. One that follows a payment while AWS is down waits
// for ever, and is killed.
const mostTime, downTime = 30 * time.Second, 1500 * time.Millisecond

// buy runs the program to its end, or kills it; strace is in front of it, if anything.
func (c *shopper) buy(t *testing.T, strace ...string) outcome {
	t.Helper()
	limit := mostTime
	f := c.g.fault
	if f != nil && f.rest {
		limit = downTime
	}
	c.g.attempts = 1
	if f != nil && buys(c.g.at) {
		c.g.attempts = 3 // the SDK's default, so that a retry of the purchase would show
	}
	return c.g.run(t, limit, c.g.env(), slices.Concat(strace, itself(t), []string{"--config", c.config}, c.args))
}

var (
	saysBought    = regexp.MustCompile(`it was bought|is bought|[Aa]n earlier run bought`)
	saysNotBought = regexp.MustCompile(`was not bought|nothing was bought`)
)

func (c *shopper) run(t *testing.T) string {
	t.Helper()
	return c.check(t, c.buy(t))
}

// check compares what a run says with what was bought.
func (c *shopper) check(t *testing.T, one outcome) string {
	t.Helper()
	bought := c.g.sim.Ledger()
	said := one.stdout + one.stderr
	switch f := c.g.fault; {
	case len(bought) > 1:
		t.Errorf("the first run bought %d", len(bought))
	case f != nil && f.interrupt && c.g.struck() && !buys(c.g.at) && len(bought) > 0 && c.beforePurchase():
		t.Errorf("it went on to buy after an interrupt")
	case one.status == 0 && len(bought) != 1:
		t.Errorf("exit status 0, and %d bought", len(bought))
	case len(bought) == 1 && saysNotBought.MatchString(said):
		t.Errorf("it was bought")
	case len(bought) == 0 && (one.stdout != "" || saysBought.MatchString(said)):
		t.Errorf("it was not bought")
	}
	return fmt.Sprintf("exit status %d\n%s%s", one.status, one.stderr, one.stdout)
}

// beforePurchase reports whether the call that met the fault came before the purchase.
func (c *shopper) beforePurchase() bool {
	at := slices.Index(c.g.calls, c.g.at)
	return at >= 0 && !slices.ContainsFunc(c.g.calls[:at], buys)
}

func (c *shopper) settle(t *testing.T) string {
	t.Helper()
	two := c.buy(t)
	bought := c.g.sim.Ledger()
	if two.status != 0 || len(bought) != 1 || !strings.HasPrefix(lastLine(two.stdout), bought[0].ReservationID+" ") {
		t.Errorf("the second run ends with status %d, %d bought", two.status, len(bought))
	}
	return fmt.Sprintf("exit status %d\n%s%s", two.status, two.stderr, two.stdout)
}

func (c *shopper) seen(t *testing.T) []string {
	t.Helper()
	return account(t, c.g.sim)
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
