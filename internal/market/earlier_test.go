package market

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Which purchases count as the same, and which of several is resumed.
func TestBoughtBefore(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()

	const id = "cb-0e2000000000000aa"

	known := capacity.Offering{
		ID:           id,
		Region:       "us-east-2",
		InstanceType: "p5.48xlarge",
		Count:        4,
		Start:        opening,
		End:          opening.Add(day),
	}
	renamed := known

	renamed.ID = "cb-0e2000000000000bb"
	other := capacity.Offering{ID: "cb-0e2000000000000cc"}
	intent := func(name string, o capacity.Offering, age time.Duration, change func(*Intent)) Intent {
		i := Intent{
			ID:          name,
			Kind:        BuyBlock,
			Phase:       Done,
			At:          opening.Add(-age),
			Region:      "us-east-2",
			Account:     "111122223333",
			Offering:    o,
			Reservation: "cr-" + name,
		}
		if change != nil {
			change(&i)
		}

		return i
	}
	for name, c := range map[string]struct {
		intents []Intent
		want    string
	}{
		"none":                 {},
		"it":                   {[]Intent{intent("a", known, 0, nil)}, "a"},
		"under another id":     {[]Intent{intent("a", renamed, 0, nil)}, "a"},
		"ordered under its id": {[]Intent{intent("a", other, 0, func(i *Intent) { i.OrderedAs = id })}, "a"},
		"its id, ordered as else": {[]Intent{intent("a", capacity.Offering{ID: id}, 0, func(i *Intent) {
			i.OrderedAs = other.ID
		})}, "a"},
		"another":         {[]Intent{intent("a", other, 0, nil)}, ""},
		"an extension":    {[]Intent{intent("a", known, 0, func(i *Intent) { i.Kind = ExtendBlock })}, ""},
		"another region":  {[]Intent{intent("a", known, 0, func(i *Intent) { i.Region = "us-west-2" })}, ""},
		"another account": {[]Intent{intent("a", known, 0, func(i *Intent) { i.Account = "444455556666" })}, ""},
		"it failed":       {[]Intent{intent("a", known, 0, func(i *Intent) { i.Phase = Failed })}, ""},
		"behind another":  {[]Intent{intent("a", other, time.Hour, nil), intent("b", known, 0, nil)}, "b"},
		"the newest": {
			[]Intent{
				intent("a", known, time.Hour, nil),
				intent("b", known, 0, nil),
				intent("c", known, 2*time.Hour, nil),
			},
			"b",
		},
		"the one cut off": {[]Intent{intent("a", known, time.Hour, func(i *Intent) {
			i.Phase = Bought
		}), intent("b", known, 0, nil)}, "a"},
	} {
		b.StateDir = state.Dir(t.TempDir())
		d := w.deal(b)
		for _, i := range c.intents {
			write(t, b.intents(), i)
		}

		if got, found, err := d.boughtBefore(t.Context(), id, known); err != nil || found != (c.want != "") ||
			got.ID != c.want {
			t.Errorf("%s: %+v, %t, %v", name, got, found, err)
		}
	}
}

// Nothing is bought while earlier purchases are unknown.
func TestR3_NotKnownWhatWasBought(t *testing.T) {
	const offering = "cb-0e2000000000000aa"

	w := newWorld(t, nil)
	d := w.deal(w.buyer())
	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityReservations",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
			Count:     1,
		},
	)

	if _, found, err := d.boughtBefore(t.Context(), offering, capacity.Offering{}); found ||
		ec2.Code(err) != "UnauthorizedOperation" ||
		!strings.HasPrefix(err.Error(), "checking whether offering "+offering+" was bought before: ") {
		t.Errorf("EC2 does not tell: %t, %v", found, err)
	}

	if err := w.dir.WritePrivate(d.intents().name("buy-1"), []byte("{")); err != nil {
		t.Fatal(err)
	}

	if _, found, err := d.boughtBefore(t.Context(), offering, capacity.Offering{}); found || err == nil ||
		!strings.Contains(err.Error(), "look at it before you buy anything") {
		t.Errorf("an intent that cannot be read: %t, %v", found, err)
	}
}

// A purchase from another state_dir, within the time in which EC2 does not show the first, waits and takes that one up.
func TestR3_BoughtWithoutARecord(t *testing.T) {
	w := newWorld(t, showLate)
	_, order, block := w.purchase()
	w.fault(awssim.Fault{Operation: "PurchaseCapacityBlock", Effect: awssim.CutAfter, Count: 1})

	first := w.buyer()
	first.Pause = func(context.Context, time.Duration) bool { return false } // it is killed
	if err := first.Purchase(t.Context(), order); err == nil || len(w.sim.Ledger()) != 1 {
		t.Fatalf("%v; bought: %+v", err, w.sim.Ledger())
	}

	second := w.buyer()
	second.StateDir, second.Recorded = state.Dir(t.TempDir()), time.Minute
	if err := second.Purchase(t.Context(), order); err != nil || block.BoughtNow || len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v; bought: %+v", err, block, w.sim.Ledger())
	}

	w.says("Nothing is bought for 5m, so that nothing is bought twice. If nobody else buys now, use --only-buyer.",
		"Nothing is bought now")
}
