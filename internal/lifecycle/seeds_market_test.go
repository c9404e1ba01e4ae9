package lifecycle

import (
	"context"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
)

// decision is one to buy a block or to extend one. Who made it runs the program until it has said that it is done.
type decision struct {
	*month
	id     string // of the offering, or of the block
	team   string // whose block it is to be
	query  ec2.OfferingQuery
	length time.Duration // of an extension; 0 buys a block
	made   time.Time
	wait   bool // for the payment
	told   bool
}

// run is one run of the program, and the trouble that it has at one of its calls: 0 is the one that buys.
type run struct {
	order   *decision
	at      int
	trouble string
	meets   func()
	calls   int
	waited  time.Duration
}

func (b *run) strikes(c model.Call) bool { return b.calls == b.at || b.at == 0 && c.Change }

func (b *run) before(c model.Call) error {
	b.calls++

	m := b.order.month
	if c.EC2 && m.Now().Before(m.down) {
		return errFault
	}

	m.say("  the buyer: %s %s", c.Verb, c.Text)

	if !b.strikes(c) {
		return nil
	}

	switch b.trouble {
	case "is killed before":
		panic(killed{})
	case "fails":
		return errFault
	case "is refused":
		return ec2.ErrNotSent
	case "meets another before":
		b.meets()
	}

	return nil
}

func (b *run) after(c model.Call) error {
	if !b.strikes(c) {
		return nil
	}

	switch b.trouble {
	case "is killed after":
		panic(killed{})
	case "loses its answer":
		return errFault
	case "meets another after":
		b.meets()
	}

	return nil
}

// pause lets time pass while the program waits, with the passes that are due then.
func (b *run) pause(_ context.Context, d time.Duration) bool {
	m := b.order.month
	defer func() { m.buyer = b }()

	m.buyer = nil
	to := m.Now().Add(d)
	if at, due := NextBoundary(m.seen, m.Now()); due && at.Before(to) {
		m.until(to)
	} else {
		m.AdvanceTo(to)
	}

	b.waited += d

	return b.waited < 15*time.Minute
}

// run runs the program.
func (o *decision) run(b *run) error {
	m, before := o.month, o.sold()
	defer func(was *run) { m.buyer = was }(m.buyer)

	b.order, m.buyer = o, b
	report := func(r market.Result) error {
		if o.length == 0 {
			m.aws.Change(r.Reservation.ID, func(one *capacity.Reservation) { one.Tags["team"] = o.team })
		}

		if err := b.before(model.Call{Verb: "tell", Text: o.id}); err != nil {
			return err
		}

		o.told = o.sold() == m.decided[o.id] // else its payment has failed, or an earlier one is told

		return b.after(model.Call{Verb: "tell", Text: o.id})
	}

	buyer := &market.Buyer{
		EC2:      m.aws,
		In:       func(string) market.World { return m.aws },
		Customer: customer{m, report},
		StateDir: m.sources.State,
		Recorded: m.Now().Sub(m.lost),
		Pause:    b.pause,
	}
	err := untilKilled(func() error {
		if o.length > 0 {
			return buyer.Extend(
				m.Context(),
				market.ExtensionOrder{
					ReservationID: o.id,
					Length:        o.length,
					Wait:          o.wait,
				},
			)
		}

		return buyer.Purchase(
			m.Context(),
			market.PurchaseOrder{
				OfferingID: o.id,
				Query:      o.query,
				Wait:       o.wait,
			},
		)
	})
	if m.say("  the buyer says: %v", err); err != nil && strings.Contains(err.Error(), "not bought") &&
		o.sold() > before &&
		b.meets == nil {
		m.bad("R3: %s was bought: %v", o.id, err)
	}

	m.boughtOnce()

	return err
}

// sold is how often EC2 has sold it, and been paid.
func (o *decision) sold() (n int) {
	for _, r := range o.aws.All {
		if r.Tags[capacity.TagOffering] == o.id && r.State != capacity.StatePaymentFailed {
			n++
		}
	}

	for _, x := range o.aws.Extended[o.id] {
		if x.State == capacity.ExtensionPaid {
			n++
		}
	}

	return n
}

// boughtOnce is R3: nothing is bought more often than somebody has decided it.
func (m *month) boughtOnce() {
	for id, times := range m.decided {
		if n := (&decision{month: m, id: id}).sold(); n > times {
			m.bad("R3: %s is bought %d times, and was to be %d times", id, n, times)
		}
	}
}

// decide carries out an order that somebody has made before, or else a new one. Its program is killed, fails or meets
// another, and is run again, at once or later. A state_dir that is lost takes the record of it along: what EC2 shows is
// then all that is left.
func (m *month) decide(rt *rapid.T, o *decision) {
	m.orders = slices.DeleteFunc(m.orders, func(o *decision) bool {
		late := o.length > 0 && m.Now().Sub(o.made) > 20*time.Hour
		if late { // extensions have no names: a day later it is another one
			m.decided[o.id] = o.sold()
		}

		return o.told || late
	})
	if i := slices.IndexFunc(m.orders, func(one *decision) bool { return one.length == 0 == (o.length == 0) }); i >= 0 {
		o = m.orders[i]
	} else {
		o.made, o.wait, m.orders = m.Now(), rapid.Bool().Draw(rt, "wait"), append(m.orders, o)
		m.decided[o.id]++
	}
	defer func(late bool) { m.aws.Late, m.aws.NotPaid = late, false }(m.aws.Late)

	m.aws.Late = m.aws.Late || rapid.Bool().Draw(rt, "EC2 shows it late")
	for tries := 3; tries > 0 && !o.told; tries-- {
		b := &run{
			at: rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4, 5, 6, 7}).Draw(rt, "at call"),
			trouble: rapid.SampledFrom([]string{
				"",
				"is killed before",
				"is killed after",
				"fails",
				"loses its answer",
				"is refused",
				"meets another before",
				"meets another after",
			}).
				Draw(rt, "trouble"),
		}
		if strings.HasPrefix(b.trouble, "meets") {
			lost := rapid.Bool().Draw(rt, "state_dir is lost to the other")
			b.meets = func() {
				if lost && o.sold() == m.decided[o.id] && !m.aws.Late {
					m.loseDir()
				}

				_ = o.run(&run{})
			}
		}

		m.aws.NotPaid = rapid.IntRange(0, 9).Draw(rt, "not paid") == 9
		m.say("somebody buys %s, for %s; the program %s at call %d", o.id, o.length, b.trouble, b.at)

		if _ = o.run(b); o.told {
			break
		}

		m.until(m.Now().Add(time.Duration(rapid.SampledFrom([]int{0, 2, 10}).Draw(rt, "minutes")) * time.Minute))

		if rapid.IntRange(0, 4).Draw(rt, "state_dir is lost") == 4 {
			m.loseDir()
		}
	}
}

// lastOrders carries out what is left, now that nothing comes in the way: it is bought, and nothing of it is open.
func (m *month) lastOrders() {
	for _, o := range m.orders {
		r, _ := m.aws.Real(o.id)
		if o.told || o.length > 0 && (m.Now().Sub(o.made) > 20*time.Hour || m.Now().Add(61*time.Minute).After(r.End)) {
			continue
		}

		var err error
		for tries := 2; tries > 0 && !o.told; tries-- { // the first may take up one whose payment has failed
			err = o.run(&run{at: -1})
		}

		all, intents := market.Intents{StateDir: m.sources.State}.All()
		if open := slices.ContainsFunc(all, func(i market.Intent) bool {
			is := i.Offering.ID
			if i.Kind == market.ExtendBlock {
				is = i.Reservation
			}

			return i.Phase == market.Sending || i.Phase == market.Bought && is == o.id
		}); err != nil || intents != nil || !o.told || o.sold() != m.decided[o.id] || open {
			m.bad(
				"R3: %s was to be bought %d times, is %d times, told: %t, open: %t: %v",
				o.id,
				m.decided[o.id],
				o.sold(),
				o.told,
				open,
				err,
			)
		}
	}

	m.name()
}

// customer is who reads what the program says, and accepts each fee.
type customer struct {
	*month
	report func(market.Result) error
}

func (c customer) Say(format string, args ...any)                { c.say("  the buyer says: "+format, args...) }
func (c customer) Start(string) market.Progress                  { return c }
func (c customer) Now(string)                                    {}
func (c customer) Done()                                         {}
func (c customer) Time(at time.Time) string                      { return model.Clock(at) }
func (c customer) Report(r market.Result) error                  { return c.report(r) }
func (c customer) Show(p market.Preview) (capacity.Money, error) { return p.Offering.Fee, nil }
