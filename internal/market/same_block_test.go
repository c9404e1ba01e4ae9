package market

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// A fee that was typed is good for this fee only, whatever id the block has by then.
func TestR3_AnotherFeeAfterTyping(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.NewOfferingIDs = true })
	shown := w.offering("USD")
	query := ec2.OfferingQuery{InstanceType: shown.InstanceType, Count: shown.Count, Duration: day}
	d := &deal{Buyer: w.buyer(), close: func() {}}
	now, err := d.afterTyping(t.Context(), query, shown)
	if err != nil || now.ID == shown.ID || !sameBlock(now, shown) || now.Fee != shown.Fee {
		t.Fatalf("%+v became %+v: %v", shown, now, err)
	}
	typed := shown
	typed.Fee = usd(t, "1.00")
	if _, err := d.afterTyping(t.Context(), query, typed); err == nil || !strings.Contains(err.Error(), "not the 1.00 USD that you typed; nothing was bought") {
		t.Errorf("typed for another fee: %v", err)
	}
}

func TestSameBlock(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	one := capacity.Offering{ID: "cb-1", Region: "r", AZID: "z", InstanceType: "t", Count: 4, UltraServerType: "u", UltraServerCount: 2, Start: noon, End: noon.Add(day), Fee: usd(t, "5.00")}
	other := one
	other.ID, other.Fee = "cb-2", usd(t, "6.00")
	if !sameBlock(one, other) {
		t.Error("an id and a fee make it another block")
	}
	for what, change := range map[string]func(*capacity.Offering){
		"region":              func(o *capacity.Offering) { o.Region = "q" },
		"zone":                func(o *capacity.Offering) { o.AZID = "y" },
		"type":                func(o *capacity.Offering) { o.InstanceType, o.UltraServerType = "s", "" },
		"count":               func(o *capacity.Offering) { o.Count, o.UltraServerCount = 5, 0 },
		"type of UltraServer": func(o *capacity.Offering) { o.UltraServerType = "v" },
		"UltraServers":        func(o *capacity.Offering) { o.UltraServerCount = 3 },
		"start":               func(o *capacity.Offering) { o.Start = noon.Add(time.Second) },
		"end":                 func(o *capacity.Offering) { o.End = noon },
	} {
		other := one
		change(&other)
		if sameBlock(one, other) || sameBlock(other, one) {
			t.Errorf("another %s is the same block", what)
		}
	}
	if never := (capacity.Offering{}); sameBlock(never, never) {
		t.Error("what nobody knows is the same as what nobody knows")
	}
}

func TestPickOffering(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	offering := func(id, fee string, start time.Time) capacity.Offering {
		return capacity.Offering{ID: id, Fee: usd(t, fee), Start: start, End: start.Add(day)}
	}
	known := offering("cb-0", "5.00", noon)
	for name, c := range map[string]struct {
		id, want string
		found    []capacity.Offering
	}{
		"its id first":           {"cb-0", "cb-0", []capacity.Offering{known, offering("cb-1", "4.00", noon)}},
		"its id last":            {"cb-0", "cb-0", []capacity.Offering{offering("cb-1", "5.00", noon), known}},
		"the same fee":           {"cb-0", "cb-3", []capacity.Offering{offering("cb-1", "4.00", noon), offering("cb-2", "6.00", noon), offering("cb-3", "5.00", noon)}},
		"the same fee, first":    {"cb-0", "cb-3", []capacity.Offering{offering("cb-3", "5.00", noon), offering("cb-1", "4.00", noon)}},
		"the cheapest":           {"cb-0", "cb-2", []capacity.Offering{offering("cb-1", "9.00", noon), offering("cb-2", "6.00", noon), offering("cb-3", "7.00", noon)}},
		"no other block":         {"cb-0", "", []capacity.Offering{offering("cb-1", "5.00", noon.Add(day))}},
		"nothing":                {"cb-0", "", nil},
		"the other has that fee": {"cb-0", "cb-2", []capacity.Offering{offering("cb-1", "5.00", noon.Add(day)), offering("cb-2", "6.00", noon)}},
	} {
		if got, there := pickOffering(c.found, c.id, known); got.ID != c.want || there != (c.want != "") {
			t.Errorf("%s: %q, %t", name, got.ID, there)
		}
	}
}
