package market

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// What EC2 refuses is not bought, unless EC2 shows that it is.
func TestR3_RefusedPurchase(t *testing.T) {
	for effect, bought := range map[awssim.Effect]bool{awssim.FailBefore: false, awssim.FailAfter: true} {
		w := newWorld(t, nil)
		b := w.buyer()
		shown := w.offering("USD")
		w.fault(
			awssim.Fault{
				Operation: "PurchaseCapacityBlock",
				Effect:    effect,
				Code:      "UnauthorizedOperation",
				Status:    403,
			},
		)

		var block Result

		order := w.order(shown.ID, shown.Fee, &block)
		w.report = func(r Result) error {
			block = r
			if told, err := b.intents().All(); err != nil || len(told) != 1 || told[0].Phase != Bought ||
				r.Intent.Phase != Bought {
				t.Errorf("told of %+v; on disk %+v, %v", r.Intent, told, err)
			}

			return nil
		}

		err := b.Purchase(t.Context(), order)
		all, intentsErr := b.intents().All()
		if intentsErr != nil || len(all) != 1 || len(w.sim.Ledger()) == 1 != bought {
			t.Fatalf("%v, %+v, %+v", intentsErr, all, w.sim.Ledger())
		}

		if bought {
			if err != nil || !block.BoughtNow || block.Reservation.ID == "" || all[0].Phase != Done ||
				!strings.Contains(w.said(), "but shows that it was bought") {
				t.Errorf("refused and bought: %v, %+v, %+v", err, block, all)
			}

			continue
		}

		if err == nil || !strings.Contains(err.Error(), "nothing was bought") || all[0].Phase != Failed ||
			all[0].Code != "UnauthorizedOperation" ||
			!strings.Contains(all[0].Message, "PurchaseCapacityBlock") ||
			all[0].Reservation != "" {
			t.Errorf("refused: %v, %+v", err, all)
		}

		try := *b
		try.DryRun = true
		if err := try.Purchase(t.Context(), w.order(shown.ID, shown.Fee, &block)); err == nil ||
			!strings.Contains(err.Error(), "nothing was bought") {
			t.Errorf("a dry run: %v", err)
		}
	}
}

// While EC2 does not answer, nothing is known and nothing is bought.
func TestR3_UnknownStaysUnknown(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	shown, order, block := w.purchase()
	cutOff := Intent{
		ID:       "buy-0000000000000001",
		Kind:     BuyBlock,
		Phase:    Sending,
		At:       w.aws.Now(),
		Region:   "us-east-2",
		Offering: shown,
		Fee:      shown.Fee,
	}
	before := Intent{ID: "extend-1", Kind: ExtendBlock, Phase: Done, At: cutOff.At.Add(-day)}
	unlock, err := b.intents().Lock() // makes the folder
	if err == nil {
		err = errors.Join(b.intents().Write(cutOff), b.intents().Write(before))

		unlock()
	}

	if err != nil {
		t.Fatal(err)
	}

	check := func(name string, err error, says string) {
		t.Helper()

		all, intentsErr := b.intents().All()
		if err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "could not determine whether it was made") ||
			intentsErr != nil ||
			len(all) != 2 ||
			all[1].Phase != Sending ||
			len(w.sim.Ledger()) != 0 {
			t.Errorf("%s: %v, %+v, %v", name, err, all, intentsErr)
		}
	}

	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityReservations",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
		},
	)
	check("EC2 does not tell", b.Purchase(t.Context(), order), "UnauthorizedOperation")

	if waited := w.sim.Clock().Now().Sub(opening); waited < callTimeout+settleTime ||
		!strings.Contains(w.said(), "asking again: ") {
		t.Errorf("given up after %s; said: %s", waited, w.said())
	}

	w.sim.ClearFaults()

	stopped, cancel := context.WithCancel(t.Context())

	w.sim.Clock().Set(opening) // it would not show yet

	b.Pause = func(context.Context, time.Duration) bool { cancel(); return false }
	check("interrupted", b.Purchase(stopped, order), "context canceled")

	// A dry run and another account leave it alone.
	try := *w.buyer()
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil ||
		!strings.Contains(w.said(), "is unknown; a real run finds out first") {
		t.Errorf("a dry run: %v; said: %s", err, w.said())
	}

	cutOff.Account = "444455556666"
	write(t, b.intents(), cutOff)

	if err := w.buyer().Purchase(t.Context(), order); err != nil || !block.BoughtNow ||
		!strings.Contains(w.said(), "belongs to account 444455556666") {
		t.Errorf("of another account: %v, %+v; said: %s", err, block, w.said())
	}

	all, err := b.intents().All()
	if err != nil || len(all) != 3 ||
		!slices.ContainsFunc(all, func(i Intent) bool { return i.ID == cutOff.ID && i.Phase == Sending }) {
		t.Errorf("%+v, %v", all, err)
	}
}

// A wait ends early with an interrupt, and only then.
func TestSleep(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	if b := new(Buyer); !b.sleep(stopped, time.Nanosecond) {
		t.Error("a wait is taken for an interrupt")
	}

	cancel()

	if b := new(Buyer); b.sleep(stopped, time.Hour) {
		t.Error("an interrupt is taken for the end of a wait")
	}
}

// An interrupt before the call buys nothing, and leaves nothing to settle.
func TestInterruptedBeforeTheCall(t *testing.T) {
	w := newWorld(t, nil)
	d := w.deal(w.buyer())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := d.send(ctx, d.newIntent(BuyBlock), nil); err == nil ||
		!strings.Contains(err.Error(), "nothing was bought") {
		t.Error(err)
	}

	if all, err := d.intents().All(); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A payment is followed while EC2 does not show the block, or refuses to tell, until somebody stops it; the next run
// goes on.
func TestPaymentIsFollowed(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) {
		showLate(s)
		s.PaymentDelay = awssim.Duration(20 * time.Minute)
	})
	w.patience = 5 * time.Minute
	_, order, block := w.purchase()

	err := w.buyer().Purchase(t.Context(), order)
	if err == nil ||
		!strings.Contains(err.Error(), "is bought and payment-pending, and its payment is no longer followed") {
		t.Fatal(err)
	}

	w.says(" does not show yet", " is payment-pending")
	w.patience = day
	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityReservations",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
			Skip:      3,
			Count:     1,
		},
	)

	if err := w.buyer().Purchase(t.Context(), order); err != nil || block.BoughtNow ||
		block.Reservation.State != capacity.StateScheduled ||
		len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, *block)
	}

	w.says(" was payment-pending; asking again: ")

	if !strings.HasSuffix(w.said(), block.Reservation.ID+" is scheduled") {
		t.Errorf("said: %s", w.said())
	}

	if paid := w.sim.Clock().Now().Sub(opening); paid < 20*time.Minute || paid > 22*time.Minute {
		t.Errorf("the payment is seen after %s", paid)
	}
}

// A block that EC2 does not show yet is waited for.
func TestPaymentOfWhatDoesNotShow(t *testing.T) {
	w := newWorld(t, showLate)
	w.patience = 10 * time.Second
	d := &deal{Buyer: w.buyer()}
	shown := w.offering("USD")

	bought, err := w.aws.Purchase(t.Context(), ec2.Buy, shown.ID, capacity.LinuxUNIX, nil)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := d.followPayment(t.Context(), capacity.Reservation{ID: bought.ID}); err == nil ||
		!strings.Contains(err.Error(), "is bought and not shown by EC2 yet, and") {
		t.Error(err)
	}

	w.patience = day

	if r, err := d.followPayment(t.Context(), capacity.Reservation{ID: bought.ID}); err != nil ||
		r.State != capacity.StateScheduled {
		t.Errorf("%v, %+v", err, r)
	}

	if !strings.HasPrefix(w.said(), "waiting for the payment of "+bought.ID) {
		t.Errorf("said: %s", w.said())
	}

	asked := w.sim.Clock().Now()
	if r, err := d.followPayment(t.Context(), capacity.Reservation{ID: bought.ID}); err != nil ||
		r.State != capacity.StateScheduled ||
		!w.sim.Clock().Now().Equal(asked) {
		t.Errorf("what shows is waited for: %v, %+v", err, r)
	}

	if _, err := d.followPayment(t.Context(), capacity.Reservation{
		ID:    bought.ID,
		State: capacity.StateExpired,
	}); err != nil {
		t.Errorf("one that has ended since was paid: %v", err)
	}
}

// The payment of an extension is followed until somebody stops it.
func TestExtensionIsFollowed(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(20 * time.Minute) })
	w.patience = 5 * time.Minute

	var bought Result

	order := w.extension(dollarBlock, usd(t, "960"), &bought)
	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityBlockExtensionHistory",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
			Skip:      1,
			Count:     1,
		},
	)

	err := w.buyer().Extend(t.Context(), order)
	if err == nil || !strings.Contains(err.Error(), "is bought, and its payment is no longer followed") ||
		!strings.Contains(w.said(), "asking again: ") {
		t.Fatalf("%v; said: %s", err, w.said())
	}

	w.patience = day
	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.BoughtNow ||
		bought.Extension.State != capacity.ExtensionPaid ||
		len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, bought)
	}
}

// A resumed purchase reports what EC2 has, and any error but "not found".
func TestTakeUpAsksEC2(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	_, order, block := w.purchase()
	if err := b.Purchase(t.Context(), order); err != nil {
		t.Fatal(err)
	}

	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityReservations",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
			Skip:      1,
		},
	)

	if err := b.Purchase(t.Context(), order); ec2.Code(err) != "UnauthorizedOperation" {
		t.Error(err)
	}

	w.sim.ClearFaults()

	*block = Result{}
	try := *b
	try.DryRun = true
	if err := try.Purchase(t.Context(), order); err != nil || block.Reservation.ID == "" || block.DryRun ||
		block.BoughtNow {
		t.Errorf("a dry run: %v, %+v", err, *block)
	}
}

// A slow answer is about the moment of the question.
func TestR3_SlowAnswerIsOfWhenItWasAsked(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()

	d := &deal{Buyer: b}
	if _, err := d.intents().Lock(); err != nil {
		t.Fatal(err)
	}
	if _, err := ec2.Reservation(t.Context(), w.aws, dollarBlock); err != nil { // tells the time
		t.Fatal(err)
	}

	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityReservations",
			Effect:    awssim.Delay,
			Latency:   awssim.Duration(1500 * time.Millisecond),
			Count:     1,
		},
	)

	paused := false
	b.Pause = func(context.Context, time.Duration) bool { paused = true; return false }

	i := Intent{
		ID:        "buy-1",
		Kind:      BuyBlock,
		Phase:     Sending,
		At:        opening.Add(-time.Minute),
		SettledAt: w.aws.Now().Add(time.Second),
		Region:    "us-east-2",
	}
	if _, err := d.settle(t.Context(), i); err == nil || !paused {
		t.Errorf("declared not bought: %v", err)
	}
}

// An intent is on disk before the call, with the time by which EC2 shows the outcome. An outcome that cannot be
// recorded is reported.
func TestR3_IntentIsOnDiskBeforeTheCall(t *testing.T) {
	w := newWorld(t, nil)
	d := w.deal(w.buyer())
	_, err := d.send(t.Context(), d.newIntent(BuyBlock), func(context.Context) (string, error) {
		all, err := d.intents().All()
		if err != nil || len(all) != 1 || all[0].Phase != Sending ||
			!all[0].SettledAt.Equal(all[0].At.Add(callTimeout+settleTime)) {
			t.Errorf("%+v, %v", all, err)
		}

		folder := filepath.Dir(d.intents().Path("i"))

		return "cr-1", errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600))
	})
	if err != nil || !strings.Contains(w.said(), "warning: recording purchase: ") ||
		!strings.Contains(w.said(), "the next purchase asks EC2 about this one again") {
		t.Errorf("%v; said: %s", err, w.said())
	}

	next := &deal{Buyer: d.Buyer}
	if _, err := next.send(t.Context(), d.newIntent(BuyBlock), nil); err == nil ||
		!strings.Contains(err.Error(), "nothing was bought") {
		t.Errorf("without an intent on disk: %v", err)
	}
}

// Which extension of a block's history is the one of an intent.
func TestExtensionOfAnIntent(t *testing.T) {
	i := Intent{At: opening, OldEnd: opening.Add(day), Offering: capacity.Offering{ID: "cbe-1"}}
	extension := func(name string, after time.Duration, change func(*capacity.Extension)) capacity.Extension {
		e := capacity.Extension{OfferingID: "cbe-1", From: i.OldEnd, Purchased: opening.Add(after), State: name}
		if change != nil {
			change(&e)
		}

		return e
	}
	for name, c := range map[string]struct {
		history []capacity.Extension
		want    string
	}{
		"none":           {},
		"it":             {[]capacity.Extension{extension("a", time.Second, nil)}, "a"},
		"by EC2's clock": {[]capacity.Extension{extension("a", -clockSlack, nil)}, "a"},
		"an earlier one": {[]capacity.Extension{extension("a", -clockSlack-1, nil)}, ""},
		"another offering": {[]capacity.Extension{extension("a", 0, func(e *capacity.Extension) {
			e.OfferingID = "cbe-2"
		})}, ""},
		"another end": {[]capacity.Extension{extension("a", 0, func(e *capacity.Extension) {
			e.From = opening
		})}, ""},
		"the newest last":  {[]capacity.Extension{extension("a", 0, nil), extension("b", time.Second, nil)}, "b"},
		"the newest first": {[]capacity.Extension{extension("a", time.Second, nil), extension("b", 0, nil)}, "a"},
		"at once":          {[]capacity.Extension{extension("a", 0, nil), extension("b", 0, nil)}, "b"},
	} {
		if e, found := i.extension(c.history); e.State != c.want || found != (c.want != "") {
			t.Errorf("%s: %+v, %t", name, e, found)
		}
	}
}

func TestIntentInWords(t *testing.T) {
	i := Intent{ID: "buy-1", Kind: BuyBlock, Offering: capacity.Offering{ID: "cb-1"}, Reservation: "cr-1"}
	if got := i.String() + "|" + i.boughtAs() + "|" + i.alias("cb-1") + "|" +
		i.alias("cb-2"); got != "purchase buy-1 of offering cb-1|as cr-1|| (the same block as cb-2)" {
		t.Error(got)
	}

	i.ID, i.Kind = "extend-1", ExtendBlock
	if got := i.String() + "|" + i.boughtAs(); got != "extension extend-1 of cr-1 by offering cb-1|and extends cr-1" {
		t.Error(got)
	}
}

// A purchase that EC2 does not show is resumed by its id. A later run with Wait follows the payment.
func TestTakeUpWhatIsPending(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(20 * time.Minute) })

	b := w.buyer()
	_, order, block := w.purchase()
	order.Wait = false
	if err := b.Purchase(t.Context(), order); err != nil || block.Reservation.State != capacity.StatePaymentPending {
		t.Fatalf("%v, %+v", err, *block)
	}

	id := block.Reservation.ID

	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityReservations",
			Effect:    awssim.FailBefore,
			Code:      reservationNotFound,
			Status:    400,
			Skip:      1,
			Count:     1,
		},
	)

	if err := b.Purchase(t.Context(), order); err != nil || block.Reservation.ID != id ||
		block.Reservation.State != "" {
		t.Errorf("it does not show: %v, %+v", err, *block)
	}

	order.Wait = true
	if err := b.Purchase(t.Context(), order); err != nil || block.Reservation.ID != id ||
		block.Reservation.State != capacity.StateScheduled {
		t.Errorf("it is waited for: %v, %+v", err, *block)
	}
}

// A paid extension is complete when EC2 shows the block's new end.
func TestExtensionWaitsForTheNewEnd(t *testing.T) {
	for _, code := range []string{"UnauthorizedOperation", reservationNotFound} {
		w := newWorld(t, showLate)
		w.fault(
			awssim.Fault{
				Operation: "DescribeCapacityReservations",
				Effect:    awssim.FailBefore,
				Code:      code,
				Status:    400,
				Skip:      1,
				Count:     1,
			},
		)

		var bought Result
		if err := w.buyer().Extend(t.Context(), w.extension(dollarBlock, usd(t, "960"), &bought)); err != nil ||
			bought.Reservation.ID != dollarBlock {
			t.Errorf("%s: %v, %+v", code, err, bought)
		}

		for _, want := range []string{
			"EC2 does not show the extension yet",
			"paid; waiting for EC2 to show the new end",
		} {
			if !strings.Contains(w.said(), want) {
				t.Errorf("%s: said %s", code, w.said())
			}
		}
	}
}
