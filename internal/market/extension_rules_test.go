package market

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// What EC2 would refuse is said before anybody confirms a fee, with what is known.
func TestExtendable(t *testing.T) {
	w := newWorld(t, nil)
	d := &deal{Buyer: w.buyer(), account: "111122223333"}
	now := w.aws.Now()
	good := capacity.Reservation{ID: "cr-1", Kind: capacity.CapacityBlock, State: capacity.StateActive, OwnerID: "111122223333", Start: now.Add(-day), End: now.Add(5 * day)}
	for name, c := range map[string]struct {
		change  func(*capacity.Reservation)
		account string
		history []capacity.Extension
		length  time.Duration
		want    string // "" if it may be asked for
	}{
		"an open block":      {},
		"one to come":        {change: func(r *capacity.Reservation) { r.State = capacity.StateScheduled }},
		"an unknown account": {account: "-"},
		"an unknown owner":   {change: func(r *capacity.Reservation) { r.OwnerID = "" }},
		"paid before":        {history: []capacity.Extension{{State: capacity.ExtensionPaid}}},
		"an hour left":       {change: func(r *capacity.Reservation) { r.End = now.Add(time.Hour) }},
		"56 days left":       {change: func(r *capacity.Reservation) { r.End = now.Add(56 * day) }},
		"182 days in all":    {change: func(r *capacity.Reservation) { r.Start = r.End.Add(-181 * day) }},

		"an ODCR":           {change: func(r *capacity.Reservation) { r.Kind = capacity.ODCR }, want: "On-Demand Capacity Reservation"},
		"an expired one":    {change: func(r *capacity.Reservation) { r.State = capacity.StateExpired }, want: "extends blocks that are scheduled or active"},
		"somebody else's":   {change: func(r *capacity.Reservation) { r.OwnerID = "444455556666" }, want: "belongs to account 444455556666"},
		"under an hour":     {change: func(r *capacity.Reservation) { r.End = now.Add(59 * time.Minute) }, want: "until one hour before the end"},
		"over 56 days left": {change: func(r *capacity.Reservation) { r.End = now.Add(56*day + time.Hour) }, want: "in the last 56 days, from " + now.Add(time.Hour).UTC().Format(time.RFC3339)},
		"183 days in all":   {change: func(r *capacity.Reservation) { r.Start = r.End.Add(-182 * day) }, want: "at most 182 days"},
		"7 days more":       {change: func(r *capacity.Reservation) { r.Start = r.End.Add(-176 * day) }, length: 7 * day, want: "at most 182 days"},
		"one is pending":    {history: []capacity.Extension{{State: capacity.ExtensionPaid}, {State: capacity.ExtensionPending}}, want: "sells no other until it is paid"},
	} {
		r, length := good, day
		if c.change != nil {
			c.change(&r)
		}
		if c.length != 0 {
			length = c.length
		}
		one := *d
		if c.account != "" {
			one.account = ""
		}
		err := one.extendable(r, c.history, length, now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The same length once more within a day is the same wish; the newest one counts.
func TestRecentExtension(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	extension := func(id string, length, ago time.Duration, state string) capacity.Extension {
		return capacity.Extension{OfferingID: id, From: now, To: now.Add(length), State: state, Purchased: now.Add(-ago)}
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
		"the newest":     {[]capacity.Extension{extension("a", day, 2*time.Hour, capacity.ExtensionPaid), extension("b", day, time.Hour, capacity.ExtensionPaid)}, "b"},
	} {
		i, found := recentExtension(capacity.Reservation{ID: "cr-1"}, c.history, day, now)
		if found != (c.want != "") || i.Offering.ID != c.want || found && (i.Reservation != "cr-1" || i.Kind != ExtendBlock || i.Phase != Done) {
			t.Errorf("%s: %+v, %t", name, i, found)
		}
	}
}

// An extension counts when it is paid and EC2 shows the new end; one whose payment fails does not.
func TestExtensionIsFollowedToItsEnd(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := newWorld(t, func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(20 * time.Minute) })
		w.sim.FailPayments(fails)
		before, err := w.aws.Reservation(t.Context(), dollarBlock)
		if err != nil {
			t.Fatal(err)
		}
		b := w.buyer()
		var bought ExtensionResult
		err = b.Extend(t.Context(), w.extension(dollarBlock, Terms{Fee: usd(t, "960")}, &bought))
		all, intentsErr := b.intents().All()
		if intentsErr != nil || len(all) != 1 {
			t.Fatalf("%v, %+v", intentsErr, all)
		}
		if fails {
			if err == nil || !strings.Contains(err.Error(), "the payment failed, so the block still ends at "+before.End.Format(time.RFC3339)) || all[0].Phase != Failed || bought.Intent.ID != "" {
				t.Errorf("a payment that fails: %v, %+v", err, all)
			}
			continue
		}
		if err != nil || !bought.Reservation.End.Equal(before.End.Add(day)) || bought.Extension.State != capacity.ExtensionPaid || all[0].Phase != Done {
			t.Errorf("%v, %+v, %+v", err, bought, all)
		}
		if !strings.Contains(w.said(), "the extension of "+dollarBlock+" is "+capacity.ExtensionPending) {
			t.Errorf("said: %s", w.said())
		}
	}
}
