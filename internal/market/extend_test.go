package market

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// An extension from order to end, and a second order of the same.
func TestExtension(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()

	var (
		preview Preview
		bought  Result
	)

	order := w.extension(dollarBlock, usd(t, "960"), &bought)
	w.show = func(p Preview) error { preview = p; return nil }

	try := *b
	try.DryRun = true
	if err := try.Extend(t.Context(), order); err != nil || !bought.DryRun || bought.BoughtNow ||
		bought.Reservation.ID != dollarBlock ||
		len(w.sim.Ledger()) != 0 {
		t.Errorf("a dry run: %v, %+v", err, bought)
	}

	before := bought.Reservation.End

	if preview.Extended.ID != dollarBlock || preview.Offering.Fee != usd(t, "960") ||
		preview.Account != "111122223333" ||
		len(preview.History) != 0 {
		t.Errorf("shown: %+v", preview)
	}

	if err := b.Extend(t.Context(), order); err != nil || bought.DryRun || !bought.BoughtNow ||
		!bought.Reservation.End.Equal(before.Add(day)) {
		t.Fatalf("%v, %+v", err, bought)
	}

	i := bought.Intent
	if !strings.HasPrefix(i.ID, "extend-") {
		t.Errorf("id %s", i.ID)
	}

	if i.Phase != Bought || i.Kind != ExtendBlock || i.Reservation != dollarBlock || !i.OldEnd.Equal(before) ||
		!i.NewEnd.Equal(before.Add(day)) ||
		i.Asked.Duration != day ||
		i.Fee != usd(t, "960") {
		t.Errorf("%+v", i)
	}

	// A repeat counts as the same order unless Again is set; a dry run does not report it.
	bought = Result{}
	if err := try.Extend(t.Context(), order); err != nil || bought.Reservation.ID != "" {
		t.Errorf("a dry run of the same: %v, %+v", err, bought)
	}

	if err := b.Extend(t.Context(), order); err != nil || bought.BoughtNow || bought.Reservation.ID != dollarBlock ||
		len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, bought)
	}

	w.says(
		"Somebody bought an extension of "+dollarBlock+" by 1d, to "+before.Add(day).Format(time.RFC3339),
		"add --again to extend it further",
	)

	order.Again = true
	if err := b.Extend(t.Context(), order); err != nil || !bought.BoughtNow || len(w.sim.Ledger()) != 2 ||
		!bought.Reservation.End.Equal(before.Add(2*day)) {
		t.Errorf("%v, %+v", err, bought)
	}

	if len(preview.History) != 1 {
		t.Errorf("shown before the second: %+v", preview)
	}
}

// The next run resumes an extension that was cut off, and buys nothing itself.
func TestCutOffExtensionIsTakenUp(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()

	var bought Result

	order := w.extension(dollarBlock, usd(t, "960"), &bought)
	w.report = func(Result) error { return errDeclined } // nobody hears of it

	if err := b.Extend(t.Context(), order); err == nil {
		t.Fatal("it was not cut off")
	}

	order = w.extension(dollarBlock, capacity.Money{}, &bought)
	order.Length, order.Again = 2*day, true

	err := b.Extend(t.Context(), order)
	if err == nil || !strings.Contains(err.Error(), "was extended by 1d, not by the 2d asked for now") ||
		bought.BoughtNow ||
		bought.Reservation.ID != dollarBlock ||
		len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, bought)
	}

	w.says("An earlier run bought an extension of " + dollarBlock)

	if i, found, err := (&deal{Buyer: b}).earlierExtension(dollarBlock, func(i Intent) bool {
		return i.Phase == Bought
	}); found ||
		err != nil {
		t.Errorf("it is taken up again: %+v, %v", i, err)
	}
}

// Without Wait, the present state of the payment is reported.
func TestExtensionWithoutWaiting(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(time.Hour) })

	var bought Result

	order := w.extension(dollarBlock, usd(t, "960"), &bought)
	order.Wait = false
	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.Extension.State != capacity.ExtensionPending ||
		bought.Extension.OfferingID == "" ||
		!w.sim.Clock().Now().Equal(opening) {
		t.Errorf("%v, %+v", err, bought)
	}

	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityBlockExtensionHistory",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
			Skip:      1,
		},
	)

	order = w.extension(yuanBlock, money(t, "480", "CNY"), &bought)
	order.Wait = false
	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.Reservation.ID != yuanBlock ||
		bought.Extension.State != capacity.ExtensionPending ||
		bought.Extension.OfferingID != "" {
		t.Errorf("nobody can see it: %v, %+v", err, bought)
	}

	w = newWorld(t, showLate)
	order = w.extension(dollarBlock, usd(t, "960"), &bought)
	order.Wait = false
	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.Extension.State != capacity.ExtensionPending ||
		bought.Extension.OfferingID != "" {
		t.Errorf("it does not show yet: %v, %+v", err, bought)
	}

	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.BoughtNow || len(w.sim.Ledger()) != 1 {
		t.Errorf("R3: the same again, before it shows: %v, %+v", err, bought)
	}

	w = newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(time.Hour) })
	w.sim.FailPayments(true)

	order = w.extension(dollarBlock, usd(t, "960"), &bought)
	order.Wait = false
	if err := w.buyer().Extend(t.Context(), order); err != nil {
		t.Error(err)
	}

	w.sim.Clock().Advance(2 * time.Hour)

	if err := w.buyer().Extend(t.Context(), order); err != nil || !bought.BoughtNow || len(w.sim.Ledger()) != 2 {
		t.Errorf("the same again, after its payment failed: %v, %+v", err, bought)
	}
}

func TestNothingToExtend(t *testing.T) {
	for name, c := range map[string]struct {
		id    string
		fault awssim.Fault
		dry   bool
		code  string
	}{
		"no such block": {id: "cr-0ffffffffffffffff", code: reservationNotFound},
		"no history": {
			id:    dollarBlock,
			fault: awssim.Fault{Operation: "DescribeCapacityBlockExtensionHistory"},
			code:  "UnauthorizedOperation",
		},
		"nothing for sale": {
			id:    dollarBlock,
			fault: awssim.Fault{Operation: "DescribeCapacityBlockExtensionOfferings"},
			code:  "UnauthorizedOperation",
		},
		"EC2 would refuse": {
			id:    dollarBlock,
			dry:   true,
			fault: awssim.Fault{Operation: "PurchaseCapacityBlockExtension"},
			code:  "UnauthorizedOperation",
		},
		"EC2 refuses": {
			id:    dollarBlock,
			fault: awssim.Fault{Operation: "PurchaseCapacityBlockExtension"},
			code:  "UnauthorizedOperation",
		},
		"it is not a block": {
			id:    dollarBlock,
			fault: awssim.Fault{Operation: "DescribeCapacityReservations"},
			code:  "UnauthorizedOperation",
		},
		"EC2 has none by it": {id: dollarBlock},
	} {
		w := newWorld(t, nil)
		if c.fault.Operation != "" {
			c.fault.Effect, c.fault.Code, c.fault.Status = awssim.FailBefore, "UnauthorizedOperation", 403
			w.fault(c.fault)
		}

		var bought Result

		order := w.extension(c.id, usd(t, "960"), &bought)
		if c.code == "" {
			order.Length = 15 * day // EC2 sells 14 and 21
		}

		b := w.buyer()
		b.DryRun = c.dry
		err := b.Extend(t.Context(), order)
		if err == nil || ec2.Code(err) != c.code || len(w.sim.Ledger()) != 0 || bought.Reservation.ID != "" {
			t.Errorf("%s: %v, %+v", name, err, bought)
		}

		if strings.HasPrefix(c.fault.Operation, "Purchase") && !strings.Contains(err.Error(), "nothing was bought") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPickExtension(t *testing.T) {
	offering := func(id string, length time.Duration, fee string) capacity.Offering {
		return capacity.Offering{ID: id, Start: opening, End: opening.Add(length), Fee: usd(t, fee)}
	}
	for name, c := range map[string]struct {
		found []capacity.Offering
		want  string
	}{
		"the only one": {[]capacity.Offering{offering("a", 9*day, "1")}, "a"},
		"the nearest, longer": {
			[]capacity.Offering{offering("a", 4*day, "1"), offering("b", 8*day, "9"), offering("c", 9*day, "1")},
			"b",
		},
		"the nearest, shorter": {
			[]capacity.Offering{offering("a", 4*day, "1"), offering("b", 6*day, "9"), offering("c", 9*day, "1")},
			"b",
		},
		"the cheapest of the two": {
			[]capacity.Offering{offering("a", 6*day, "2"), offering("b", 8*day, "1"), offering("c", 6*day, "3")},
			"b",
		},
	} {
		if got := pickExtension(c.found, 7*day); got.ID != c.want {
			t.Errorf("%s: %s", name, got.ID)
		}
	}
}

// What EC2 would refuse is said before anybody confirms a fee.
func TestExtendable(t *testing.T) {
	now := opening
	at := func(at time.Time) string { return at.Format(time.RFC3339) }
	good := capacity.Reservation{
		ID:      "cr-1",
		Kind:    capacity.CapacityBlock,
		State:   capacity.StateActive,
		OwnerID: "111122223333",
		Start:   now.Add(-day),
		End:     now.Add(5 * day),
	}
	for name, c := range map[string]struct {
		change  func(*capacity.Reservation)
		account string
		history []capacity.Extension
		length  time.Duration
		want    string // "" if it can be extended
	}{
		"an open block":      {},
		"one to come":        {change: func(r *capacity.Reservation) { r.State = capacity.StateScheduled }},
		"an unknown account": {account: "-"},
		"an unknown owner":   {change: func(r *capacity.Reservation) { r.OwnerID = "" }},
		"paid before":        {history: []capacity.Extension{{State: capacity.ExtensionPaid}}},
		"an hour left":       {change: func(r *capacity.Reservation) { r.End = now.Add(time.Hour) }},
		"56 days left":       {change: func(r *capacity.Reservation) { r.End = now.Add(56 * day) }},
		"182 days in all":    {change: func(r *capacity.Reservation) { r.Start = r.End.Add(-181 * day) }},

		"an ODCR": {change: func(r *capacity.Reservation) {
			r.Kind = capacity.ODCR
		}, want: "On-Demand Capacity Reservation"},
		"an expired one": {change: func(r *capacity.Reservation) {
			r.State = capacity.StateExpired
		}, want: "extends blocks that are scheduled or active"},
		"somebody else's": {change: func(r *capacity.Reservation) {
			r.OwnerID = "444455556666"
		}, want: "belongs to account 444455556666"},
		"under an hour": {change: func(r *capacity.Reservation) {
			r.End = now.Add(59 * time.Minute)
		}, want: "until one hour before the end"},
		"over 56 days left": {change: func(r *capacity.Reservation) {
			r.End = now.Add(56*day + time.Hour)
		}, want: "in the last 56 days, from " + now.Add(time.Hour).UTC().Format(time.RFC3339)},
		"183 days in all": {change: func(r *capacity.Reservation) {
			r.Start = r.End.Add(-182 * day)
		}, want: "at most 182 days"},
		"7 days more": {change: func(r *capacity.Reservation) {
			r.Start = r.End.Add(-176 * day)
		}, length: 7 * day, want: "at most 182 days"},
		"one is pending": {
			history: []capacity.Extension{{State: capacity.ExtensionPaid}, {State: capacity.ExtensionPending}},
			want:    "sells no other until it is paid",
		},
	} {
		r, length := good, day
		if c.change != nil {
			c.change(&r)
		}

		if c.length != 0 {
			length = c.length
		}

		p := Preview{Extended: r, History: c.history, Account: "111122223333", Now: now}
		if c.account != "" {
			p.Account = ""
		}

		err := p.checkExtendable(length, at)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The same length again within a day is the same order; the newest one counts.
func TestRecentExtension(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	extension := func(id string, length, ago time.Duration, state string) capacity.Extension {
		return capacity.Extension{
			OfferingID: id,
			From:       now,
			To:         now.Add(length),
			State:      state,
			Purchased:  now.Add(-ago),
		}
	}
	for name, c := range map[string]struct {
		history []capacity.Extension
		want    string
	}{
		"none":           {},
		"an hour ago":    {[]capacity.Extension{extension("a", day, time.Hour, capacity.ExtensionPaid)}, "a"},
		"pending":        {[]capacity.Extension{extension("a", day, time.Hour, capacity.ExtensionPending)}, "a"},
		"another length": {[]capacity.Extension{extension("a", 2*day, time.Hour, capacity.ExtensionPaid)}, ""},
		"not paid":       {[]capacity.Extension{extension("a", day, time.Hour, capacity.ExtensionFailed)}, ""},
		"a day ago":      {[]capacity.Extension{extension("a", day, day, capacity.ExtensionPaid)}, ""},
		"the newest": {
			[]capacity.Extension{
				extension("a", day, 2*time.Hour, capacity.ExtensionPaid),
				extension("b", day, time.Hour, capacity.ExtensionPaid),
			},
			"b",
		},
	} {
		p := Preview{Extended: capacity.Reservation{ID: "cr-1"}, History: c.history, Now: now}

		i, found := p.recentExtension(day)
		if found != (c.want != "") || i.Offering.ID != c.want ||
			found && (i.Reservation != "cr-1" || i.Kind != ExtendBlock || i.Phase != Done) {
			t.Errorf("%s: %+v, %t", name, i, found)
		}
	}
}

// An extension counts when it is paid and EC2 shows the new end; one whose payment fails does not.
func TestExtensionIsFollowedToItsEnd(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(20 * time.Minute) })
		w.sim.FailPayments(fails)

		before, err := ec2.Reservation(t.Context(), w.aws, dollarBlock)
		if err != nil {
			t.Fatal(err)
		}

		b := w.buyer()

		var bought Result

		err = b.Extend(t.Context(), w.extension(dollarBlock, usd(t, "960"), &bought))
		all, intentsErr := b.intents().All()
		if intentsErr != nil || len(all) != 1 {
			t.Fatalf("%v, %+v", intentsErr, all)
		}

		if fails {
			if err == nil ||
				!strings.Contains(
					err.Error(),
					"the payment failed, so the block still ends at "+before.End.Format(time.RFC3339),
				) ||
				all[0].Phase != Failed ||
				bought.Intent.ID != "" {
				t.Errorf("a payment that fails: %v, %+v", err, all)
			}

			continue
		}

		if err != nil || !bought.Reservation.End.Equal(before.End.Add(day)) ||
			bought.Extension.State != capacity.ExtensionPaid ||
			all[0].Phase != Done {
			t.Errorf("%v, %+v, %+v", err, bought, all)
		}

		w.says("the extension of " + dollarBlock + " is " + capacity.ExtensionPending)
	}
}
