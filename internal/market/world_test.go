package market

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// worldTOML is an AWS account whose zone us-east-2a sells in dollars and us-east-2b in yuan, for a smaller number.
const worldTOML = `
account = "111122223333"
payment_delay = "0s"
[[instance_type]]
name = "p5.48xlarge"
vcpus = 192
memory_mib = 2097152
gpus = 8
usage_classes = ["capacity-block"]
[[instance_type]]
name = "g6.12xlarge"
vcpus = 48
memory_mib = 196608
gpus = 4
usage_classes = ["on-demand"]
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }, { name = "us-east-2b", id = "use2-az2" }]
vpc = [{ id = "vpc-0e2000000000000a1", cidr = "10.2.0.0/16" }]
subnet = [
  { id = "subnet-0e200000000000a01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "10.2.1.0/24" },
  { id = "subnet-0e200000000000a02", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "10.2.2.0/24" },
  { id = "subnet-0e200000000000b01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2b", cidr = "10.2.3.0/24" },
]
capacity = [{ zone = "us-east-2a", type = "p5.48xlarge", count = 64 }, { zone = "us-east-2b", type = "g6.12xlarge", count = 4 }]
offering = [
  { zone = "us-east-2a", type = "p5.48xlarge", max_count = 8, price = 10, start_days = [1] },
  { zone = "us-east-2b", type = "p5.48xlarge", max_count = 16, price = 5, start_days = [1], currency = "CNY" },
]
reservation = [
  { id = "cr-0e2000000000000a1", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "-2d 11:30", end = "+5d 11:30" },
  { id = "cr-0e2000000000000b2", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2b", count = 4, start = "-2d 11:30", end = "+5d 11:30" },
]
`

const (
	dollarBlock = "cr-0e2000000000000a1"
	yuanBlock   = "cr-0e2000000000000b2"
	subnetA1    = "subnet-0e200000000000a01"
	subnetA2    = "subnet-0e200000000000a02"
	subnetB     = "subnet-0e200000000000b01"
	day         = 24 * time.Hour
)

// fourForADay asks for 4 instances for a day.
var fourForADay = ec2.OfferingQuery{InstanceType: "p5.48xlarge", Count: 4, Duration: day}

// opening is when a world begins.
var opening = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// world is a simulated AWS, and somebody who buys there.
type world struct {
	*testing.T
	sim      *awssim.Sim
	aws      *ec2.Client
	dir      state.Dir
	patience time.Duration         // how long it waits in all, in AWS's time
	waiting  func(context.Context) // called in each wait; nil for nothing
	customer
}

// newWorld has a clock that only the waits of its buyer move, and a scenario that change may change.
func newWorld(t *testing.T, change func(*awssim.Scenario)) *world {
	t.Helper()

	scenario, err := awssim.ParseScenario("world", []byte(worldTOML))
	if err != nil {
		t.Fatal(err)
	}

	if change != nil {
		change(scenario)
	}

	sim, err := awssim.New(scenario, awssim.NewClock(opening, 0))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { sim.Close() })

	files := t.TempDir()
	if err := sim.Serve(t.Setenv, "AWS_CONFIG_FILE="+files+"/config", "AWS_SHARED_CREDENTIALS_FILE="+files+
		"/credentials"); err != nil {
		t.Fatal(err)
	}

	return (&world{T: t, sim: sim, dir: state.Dir(files + "/state"), patience: day}).somebodyElse()
}

// somebodyElse buys in the same world, with a client of their own.
func (w *world) somebodyElse() *world {
	w.Helper()

	aws, err := ec2.New(w.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		w.Fatal(err)
	}

	return &world{T: w.T, sim: w.sim, aws: aws, dir: w.dir, patience: w.patience, waiting: w.waiting}
}

// worldWith has blocks in some states that were bought by an offering, each by a purchase buy-ID.
func worldWith(t *testing.T, states map[string]string, offering string) *world {
	t.Helper()

	return newWorld(t, func(s *awssim.Scenario) {
		for id, state := range states {
			r := awssim.ReservationScenario{
				ID:    id,
				Kind:  "capacity-block",
				Type:  "p5.48xlarge",
				Zone:  "us-east-2a",
				Count: 4,
				State: state,
				Tags: map[string]string{
					capacity.TagOffering: offering,
					capacity.TagPurchase: "buy-" + id,
					capacity.TagFee:      "960.00 USD",
				},
			}
			if err := r.End.UnmarshalText([]byte("+2d 11:30")); err != nil {
				t.Fatal(err)
			}

			s.Regions[0].Reservations = append(s.Regions[0].Reservations, r)
		}
	})
}

// deal has the lock of a buyer until the test ends.
func (w *world) deal(b *Buyer) *deal {
	w.Helper()

	d, err := b.open(w.Context())
	if err != nil {
		w.Fatal(err)
	}

	w.Cleanup(d.close)

	return d
}

func write(t *testing.T, to Intents, i Intent) {
	t.Helper()

	if err := to.Write(i); err != nil {
		t.Fatal(err)
	}
}

// says fails where the customer was not told something.
func (w *world) says(all ...string) {
	w.Helper()

	for _, want := range all {
		if !strings.Contains(w.said(), want) {
			w.Errorf("not said: %s; said: %s", want, w.said())
		}
	}
}

// buyer gives up soon: 2 s for the call, and 40 s until EC2 shows what was bought.
func (w *world) buyer() *Buyer {
	return &Buyer{
		EC2:      w.aws,
		In:       func(region string) World { return w.aws.In(region) },
		Customer: &w.customer,
		StateDir: w.dir,
		Recorded: Lag,
		Pause:    w.pause,
	}
}

// pause is a moment for the machine. It ends what waits for too long.
func (w *world) pause(ctx context.Context, d time.Duration) bool {
	w.sim.Clock().Advance(d)

	if w.waiting != nil {
		w.waiting(ctx)
	}

	return ctx.Err() == nil && w.sim.Clock().Now().Before(opening.Add(w.patience))
}

// offering is the one for sale of 4 instances for a day in a currency.
func (w *world) offering(currency string) capacity.Offering {
	w.Helper()

	found, err := w.aws.Offerings(w.Context(), fourForADay)
	if err != nil {
		w.Fatal(err)
	}

	for _, o := range found {
		if o.Fee.Currency() == currency {
			return o
		}
	}

	w.Fatalf("nothing for sale in %s: %v", currency, found)

	return capacity.Offering{}
}

// order is an order of 4 instances for a day. What was bought goes to bought.
func (w *world) order(offeringID string, fee capacity.Money, bought *Result) PurchaseOrder {
	w.expect(bought)
	return PurchaseOrder{OfferingID: offeringID, Query: fourForADay, Fee: fee, Wait: true}
}

// purchase is the order of what is for sale in dollars, at its fee, and what was bought by it.
func (w *world) purchase() (capacity.Offering, PurchaseOrder, *Result) {
	w.Helper()
	shown, bought := w.offering("USD"), new(Result)
	return shown, w.order(shown.ID, shown.Fee, bought), bought
}

// extension is an order of one more day. What was bought goes to bought.
func (w *world) extension(reservationID string, fee capacity.Money, bought *Result) ExtensionOrder {
	w.expect(bought)
	return ExtensionOrder{ReservationID: reservationID, Length: day, Fee: fee, Wait: true}
}

func (w *world) fault(f awssim.Fault) {
	w.Helper()

	if _, err := w.sim.AddFault(f); err != nil {
		w.Fatal(err)
	}
}

func usd(t *testing.T, amount string) capacity.Money { return money(t, amount, capacity.USD) }

func money(t *testing.T, amount, currency string) capacity.Money {
	t.Helper()

	m, err := capacity.ParseMoney(amount, currency)
	if err != nil {
		t.Fatal(err)
	}

	return m
}

// customer keeps what they are told, and declines every fee.
type customer struct {
	mu   sync.Mutex
	told []string
	// stop is called when they are told something with stopAt in it.
	stop   func()
	stopAt string
	show   func(Preview) error // nil for nothing
	report func(Result) error
}

// expect has the customer show nothing, and keep what the next orders buy.
func (c *customer) expect(bought *Result) {
	c.show = nil
	c.report = func(r Result) error { *bought = r; return nil }
}

// stoppedAt is a context that ends when the customer is told that.
func (w *world) stoppedAt(text string) context.Context {
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	w.stop, w.stopAt = cancel, text
	return ctx
}

var errDeclined = fmt.Errorf("declined")

func (c *customer) Say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()

	text := fmt.Sprintf(format, args...)
	c.told = append(c.told, text)
	if c.stop != nil && strings.Contains(text, c.stopAt) {
		c.stop()
	}
}

func (c *customer) Time(at time.Time) string   { return at.UTC().Format(time.RFC3339) }
func (c *customer) Start(what string) Progress { c.Now(what); return c }
func (c *customer) Now(what string)            { c.Say("%s", what) }
func (c *customer) Done()                      {}

func (c *customer) Show(p Preview) (accepted capacity.Money, err error) {
	if c.show != nil {
		err = c.show(p)
	}

	if p.Ask {
		err = cmp.Or(err, errDeclined)
	}

	return accepted, err
}
func (c *customer) Report(r Result) error { return c.report(r) }

// said is all of it.
func (c *customer) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.told, "\n")
}
