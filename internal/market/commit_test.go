package market

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

func (w *world) commitment(made *CommitResult) CommitOrder {
	return CommitOrder{InstanceType: "g6.12xlarge", Platform: capacity.LinuxUNIX, Count: 2, SubnetID: subnetB, Start: opening.Add(10 * day), For: 14 * day,
		Limits: capacity.Reserve{Enabled: true, MaxInstances: 8},
		Accept: func(CommitPreview) error { return nil }, Tell: func(r CommitResult) error { *made = r; return nil }}
}

func (w *world) committer() *Buyer {
	b := w.buyer()
	b.Cluster = "ml"
	return b
}

// An ODCR for later is ordered once: the same order again says where it is, and --again orders one more.
func TestCommit(t *testing.T) {
	w := newWorld(t, nil)
	var first, again, more CommitResult
	order := w.commitment(&first)
	if err := w.committer().Commit(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if first.Reservation.ID == "" || !first.BoughtNow || first.Reservation.Tags[capacity.TagFee] != "" || order.InstanceHours() != 2*14*24 {
		t.Errorf("%+v, %d instance-hours", first, order.InstanceHours())
	}
	all, err := (Intents{w.dir}).All()
	if want := "2 x g6.12xlarge in use2-az2 from 2026-11-30T12:00:00Z for 14d"; err != nil || len(all) != 1 || all[0].Phase != Done || all[0].Offering.ID != want {
		t.Errorf("%v, %+v", err, all)
	}
	order = w.commitment(&again)
	if err := w.committer().Commit(t.Context(), order); err != nil || again.BoughtNow || again.Reservation.ID != first.Reservation.ID ||
		!strings.Contains(w.said(), "Nothing is bought now; add --again to commit to as much once more") {
		t.Errorf("the same again: %v, %+v; said: %s", err, again, w.said())
	}
	order = w.commitment(&more)
	order.Again = true
	if err := w.committer().Commit(t.Context(), order); err != nil || !more.BoughtNow || more.Reservation.ID == first.Reservation.ID {
		t.Errorf("one more: %v, %+v", err, more)
	}
}

// A run that was cut off has its order taken up, --again or not; an answer that was lost is found.
func TestR3_CommitCutOff(t *testing.T) {
	w := newWorld(t, nil)
	w.fault(awssim.Fault{Operation: "CreateCapacityReservation", Effect: awssim.CutAfter})
	var lost, taken CommitResult
	order := w.commitment(&lost)
	order.Tell = func(r CommitResult) error { lost = r; return errDeclined }
	if err := w.committer().Commit(t.Context(), order); !errors.Is(err, errDeclined) || lost.Reservation.InstanceType != "g6.12xlarge" {
		t.Errorf("%v, %+v", err, lost)
	}
	order = w.commitment(&taken)
	order.Again = true
	if err := w.committer().Commit(t.Context(), order); err != nil || taken.BoughtNow || taken.Reservation.ID != lost.Reservation.ID || !strings.Contains(w.said(), "and was cut off. Nothing is bought now.") {
		t.Errorf("%v, %+v; said: %s", err, taken, w.said())
	}
}

// What EC2 would refuse, or the settings do not allow, is said before anybody confirms.
func TestCommitOrderIsChecked(t *testing.T) {
	ask := func(start, length time.Duration) CommitOrder {
		return CommitOrder{InstanceType: "g6.12xlarge", Count: 2, Start: opening.Add(start), For: length, Limits: capacity.Reserve{Enabled: true, MaxInstances: 8}}
	}
	for name, c := range map[string]struct {
		order CommitOrder
		want  string
	}{
		"the first day": {ask(5*day, 14*day), ""}, "the last day": {ask(120*day, 14*day), ""},
		"too early": {ask(5*day-1, 14*day), "from 5 to 120 days ahead"}, "too late": {ask(120*day+1, 14*day), "from 5 to 120 days ahead"},
		"too short": {ask(10*day, 14*day-time.Hour), "14d and more"}, "half an hour": {ask(10*day, 14*day+30*time.Minute), "give whole hours"},
	} {
		if err := c.order.check(opening); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWorld(t, nil)
	var made CommitResult
	many := w.commitment(&made)
	many.Limits.MaxInstances = 1
	if err := w.committer().Commit(t.Context(), many); err == nil || len(w.sim.Ledger()) != 0 {
		t.Errorf("more than the settings allow: %v", err)
	}
	many = w.commitment(&made)
	many.Limits.Enabled = false
	if err := w.committer().Commit(t.Context(), many); !errors.Is(err, ErrHoldingOff) {
		t.Errorf("switched off: %v", err)
	}
	many = w.commitment(&made)
	many.Accept = func(CommitPreview) error { return errDeclined }
	if err := w.committer().Commit(t.Context(), many); !errors.Is(err, errDeclined) || len(w.sim.Ledger()) != 0 {
		t.Errorf("declined: %v", err)
	}
}

// What a reservation's tags and state say of a purchase that somebody else made.
func TestPurchaseOfTags(t *testing.T) {
	block := capacity.Reservation{ID: "cr-1", Kind: capacity.CapacityBlock, Region: "us-east-2", InstanceType: "p5.48xlarge", Total: 4, Created: opening, Platform: "Linux/UNIX",
		Tags: map[string]string{capacity.TagOffering: "cb-1", capacity.TagFee: "960.00 USD", capacity.TagPurchase: "buy-1"}}
	i := purchaseOfTags(BuyBlock, block)
	if i.Offering.ID != "cb-1" || i.Offering.Region != "us-east-2" || i.Offering.InstanceType != "p5.48xlarge" || i.Offering.Count != 4 || i.Fee != usd(t, "960") || i.Reservation != "cr-1" || i.Phase != Done {
		t.Errorf("%+v", i)
	}
	ultra := block
	ultra.UltraServer, ultra.Tags = true, map[string]string{capacity.TagFee: "much"}
	if i := purchaseOfTags(BuyBlock, ultra); i.Offering.InstanceType != "" || i.Offering.Count != 0 || i.Fee != (capacity.Money{}) {
		t.Errorf("an UltraServer: %+v", i)
	}
	bought := Intent{ID: "buy-1", Kind: BuyBlock}
	odcr, failed, other := block, block, block
	odcr.Kind, failed.State, other.Tags = capacity.ODCR, capacity.StateFailed, map[string]string{capacity.TagPurchase: "buy-2"}
	if r, shown := bought.shownBy([]capacity.Reservation{odcr, failed, other, block}); !shown || r.Kind != capacity.CapacityBlock || r.State == capacity.StateFailed || r.Tags[capacity.TagFee] == "" {
		t.Errorf("%+v, %t", r, shown)
	}
	if r, shown := bought.shownBy([]capacity.Reservation{odcr, failed, other}); shown {
		t.Errorf("%+v", r)
	}
	// A fee is in the tags if there is one.
	d := &deal{Buyer: &Buyer{Cluster: "ml"}}
	if tags := d.tags(Intent{ID: "buy-1", Fee: usd(t, "960")}); tags[capacity.TagFee] != "960.00 USD" || tags[capacity.TagPurchase] != "buy-1" || tags[capacity.TagCluster] != "ml" {
		t.Error(tags)
	}
	if tags := d.tags(Intent{ID: "commit-1"}); len(tags) != 3 {
		t.Error(tags)
	}
}

// A purchase that was given back is not the one asked for; why is said.
func TestBoughtAndGivenBack(t *testing.T) {
	const gone, offering = "cr-0e2000000000000c3", "cb-0e2000000000000aa"
	w := newWorld(t, func(s *awssim.Scenario) {
		r := awssim.ReservationScenario{ID: gone, Kind: "capacity-block", Type: "p5.48xlarge", Zone: "us-east-2a", Count: 4, State: "cancelled", Tags: map[string]string{capacity.TagOffering: offering, capacity.TagPurchase: "buy-1"}}
		if err := r.End.UnmarshalText([]byte("+2d 11:30")); err != nil {
			t.Fatal(err)
		}
		s.Regions[0].Reservations = append(s.Regions[0].Reservations, r)
	})
	d, err := w.buyer().open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	write := func(i Intent) {
		t.Helper()
		i.Kind, i.Phase, i.At, i.Region, i.Offering.ID = BuyBlock, Done, opening, "us-east-2", offering
		if err := d.intents().Write(i); err != nil {
			t.Fatal(err)
		}
	}
	write(Intent{ID: "buy-1", Reservation: gone})
	if i, found, err := d.boughtBefore(t.Context(), BuyBlock, offering, capacity.Offering{}); err != nil || found || !strings.Contains(w.said(), gone+", but it is cancelled.") {
		t.Errorf("%+v, %t, %v; said: %s", i, found, err, w.said())
	}
}
