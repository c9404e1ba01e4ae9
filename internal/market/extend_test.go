package market

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// An extension from its order to its end, and what a second order of the same makes of it.
func TestExtension(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	var preview ExtensionPreview
	var bought ExtensionResult
	order := w.extension(dollarBlock, Terms{Fee: usd(t, "960")}, &bought)
	order.Show = func(p ExtensionPreview) { preview = p }

	try := *b
	try.DryRun = true
	if err := try.Extend(t.Context(), order); err != nil || !bought.DryRun || bought.BoughtNow || bought.Reservation.ID != dollarBlock || len(w.sim.Ledger()) != 0 {
		t.Errorf("a dry run: %v, %+v", err, bought)
	}
	before := bought.Reservation.End
	if preview.Reservation.ID != dollarBlock || preview.Offering.Fee != usd(t, "960") || preview.Account != "111122223333" || len(preview.History) != 0 {
		t.Errorf("shown: %+v", preview)
	}
	if err := b.Extend(t.Context(), order); err != nil || bought.DryRun || !bought.BoughtNow || !bought.Reservation.End.Equal(before.Add(day)) {
		t.Fatalf("%v, %+v", err, bought)
	}
	i := bought.Intent
	if !strings.HasPrefix(i.ID, "extend-") {
		t.Errorf("id %s", i.ID)
	}
	if i.Phase != Bought || i.Kind != ExtendBlock || i.Reservation != dollarBlock || !i.OldEnd.Equal(before) || !i.NewEnd.Equal(before.Add(day)) || i.Asked.Duration != day || i.Fee != usd(t, "960") {
		t.Errorf("%+v", i)
	}

	// Once more is taken for the same wish, but with Again; and a dry run tells nothing of it.
	bought = ExtensionResult{}
	if err := try.Extend(t.Context(), order); err != nil || bought.Reservation.ID != "" {
		t.Errorf("a dry run of the same: %v, %+v", err, bought)
	}
	if err := b.Extend(t.Context(), order); err != nil || bought.BoughtNow || bought.Reservation.ID != dollarBlock || len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, bought)
	}
	if !strings.Contains(w.said(), "Somebody bought an extension of "+dollarBlock+" by 1d, to "+before.Add(day).Format(time.RFC3339)) || !strings.Contains(w.said(), "add --again to extend it further") {
		t.Errorf("said: %s", w.said())
	}
	order.Again = true
	if err := b.Extend(t.Context(), order); err != nil || !bought.BoughtNow || len(w.sim.Ledger()) != 2 || !bought.Reservation.End.Equal(before.Add(2*day)) {
		t.Errorf("%v, %+v", err, bought)
	}
	if len(preview.History) != 1 {
		t.Errorf("shown before the second: %+v", preview)
	}
}

// A run that is cut off after the extension is taken up by the next one, which buys nothing,
// whatever it was meant to buy.
func TestCutOffExtensionIsTakenUp(t *testing.T) {
	w := newWorld(t, nil)
	b := w.buyer()
	var bought ExtensionResult
	order := w.extension(dollarBlock, Terms{Fee: usd(t, "960")}, &bought)
	order.Tell = func(ExtensionResult) error { return errDeclined } // nobody hears of it
	if err := b.Extend(t.Context(), order); err == nil {
		t.Fatal("it was not cut off")
	}
	order = w.extension(dollarBlock, Terms{}, &bought)
	order.Length, order.Again = 2*day, true
	err := b.Extend(t.Context(), order)
	if err == nil || !strings.Contains(err.Error(), "was extended by 1d, not by the 2d asked for now") || bought.BoughtNow || bought.Reservation.ID != dollarBlock || len(w.sim.Ledger()) != 1 {
		t.Errorf("%v, %+v", err, bought)
	}
	if !strings.Contains(w.said(), "An earlier run bought an extension of "+dollarBlock) {
		t.Errorf("said: %s", w.said())
	}
	if i, found, err := (&deal{Buyer: b}).cutOffExtension(dollarBlock); found || err != nil {
		t.Errorf("it is taken up again: %+v, %v", i, err)
	}
}

// Who does not wait hears how the payment stands now.
func TestExtensionWithoutWaiting(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(time.Hour) })
	var bought ExtensionResult
	order := w.extension(dollarBlock, Terms{Fee: usd(t, "960")}, &bought)
	order.Wait = false
	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.Extension.State != capacity.ExtensionPending || bought.Extension.OfferingID == "" || !w.sim.Clock().Now().Equal(opening) {
		t.Errorf("%v, %+v", err, bought)
	}
	w.fault(awssim.Fault{Operation: "DescribeCapacityBlockExtensionHistory", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403, Skip: 1})
	order = w.extension(yuanBlock, Terms{Fee: money(t, "480", "CNY")}, &bought)
	order.Wait = false
	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.Reservation.ID != yuanBlock || bought.Extension.State != capacity.ExtensionPending || bought.Extension.OfferingID != "" {
		t.Errorf("nobody can see it: %v, %+v", err, bought)
	}
	w = newWorld(t, showLate)
	order = w.extension(dollarBlock, Terms{Fee: usd(t, "960")}, &bought)
	order.Wait = false
	if err := w.buyer().Extend(t.Context(), order); err != nil || bought.Extension.State != capacity.ExtensionPending || bought.Extension.OfferingID != "" {
		t.Errorf("it does not show yet: %v, %+v", err, bought)
	}
}

func TestNothingToExtend(t *testing.T) {
	for name, c := range map[string]struct {
		id    string
		fault awssim.Fault
		dry   bool
		code  string
	}{
		"no such block":      {id: "cr-0ffffffffffffffff", code: reservationNotFound},
		"no history":         {id: dollarBlock, fault: awssim.Fault{Operation: "DescribeCapacityBlockExtensionHistory"}, code: "UnauthorizedOperation"},
		"nothing for sale":   {id: dollarBlock, fault: awssim.Fault{Operation: "DescribeCapacityBlockExtensionOfferings"}, code: "UnauthorizedOperation"},
		"EC2 would refuse":   {id: dollarBlock, dry: true, fault: awssim.Fault{Operation: "PurchaseCapacityBlockExtension"}, code: "UnauthorizedOperation"},
		"EC2 refuses":        {id: dollarBlock, fault: awssim.Fault{Operation: "PurchaseCapacityBlockExtension"}, code: "UnauthorizedOperation"},
		"it is not a block":  {id: dollarBlock, fault: awssim.Fault{Operation: "DescribeCapacityReservations"}, code: "UnauthorizedOperation"},
		"EC2 has none by it": {id: dollarBlock},
	} {
		w := newWorld(t, nil)
		if c.fault.Operation != "" {
			c.fault.Effect, c.fault.Code, c.fault.Status = awssim.FailBefore, "UnauthorizedOperation", 403
			w.fault(c.fault)
		}
		var bought ExtensionResult
		order := w.extension(c.id, Terms{Fee: usd(t, "960")}, &bought)
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
		"the only one":            {[]capacity.Offering{offering("a", 9*day, "1")}, "a"},
		"the nearest, longer":     {[]capacity.Offering{offering("a", 4*day, "1"), offering("b", 8*day, "9"), offering("c", 9*day, "1")}, "b"},
		"the nearest, shorter":    {[]capacity.Offering{offering("a", 4*day, "1"), offering("b", 6*day, "9"), offering("c", 9*day, "1")}, "b"},
		"the cheapest of the two": {[]capacity.Offering{offering("a", 6*day, "2"), offering("b", 8*day, "1"), offering("c", 6*day, "3")}, "b"},
	} {
		if got := pickExtension(c.found, 7*day); got.ID != c.want {
			t.Errorf("%s: %s", name, got.ID)
		}
	}
}
