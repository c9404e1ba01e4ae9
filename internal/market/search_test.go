package market

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// search asks for 4 instances for a day.
func (w *world) search(most capacity.Money) *Found {
	w.Helper()
	found, err := Search{EC2: w.aws, Regions: []string{"us-east-2"}, MaxPrice: most, Progress: &w.customer,
		Query: ec2.OfferingQuery{InstanceType: "p5.48xlarge", Count: 4, Duration: day}}.Run(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return found
}

func fees(offers []Offer) []string {
	var all []string
	for _, o := range offers {
		all = append(all, o.Fee.String())
	}
	return all
}

// A price in dollars bounds what is sold in dollars; what is sold in another currency is
// never within it.
func TestMaxPriceIsInItsCurrency(t *testing.T) {
	for _, c := range []struct {
		most capacity.Money
		want string
		why  string
	}{
		{capacity.Money{}, "960.00 USD 480.00 CNY", ""},
		{usd(t, "1000000"), "960.00 USD", ""},
		{usd(t, "960"), "960.00 USD", ""},
		{money(t, "480", "CNY"), "480.00 CNY", ""},
		{usd(t, "959.99"), "", "The cheapest block of 4 x p5.48xlarge for about 1d costs 960.00 USD, more than --max-price 959.99."},
		{money(t, "1000000", "EUR"), "", "The cheapest block of 4 x p5.48xlarge for about 1d costs 480.00 CNY, which cannot be compared with --max-price 1000000.00 EUR."},
	} {
		// A client of its own, since it makes 10 searches at once and then one in 7 seconds.
		found := newWorld(t, nil).search(c.most)
		if got := strings.Join(fees(found.Offers), " "); got != c.want {
			t.Errorf("at most %s: %q, want %q", c.most, got, c.want)
		}
		if c.why == "" {
			continue
		}
		if diff := cmp.Diff([]string{c.why}, found.WhyNone(time.Time.String)); diff != "" {
			t.Errorf("at most %s (-want +got):\n%s", c.most, diff)
		}
		// Three instances are within the price; in yuan any number is a smaller one.
		alternatives, err := found.Alternatives(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.most.Currency() != capacity.USD {
			if len(alternatives) > 0 {
				t.Errorf("at most %s: alternatives %+v", c.most, alternatives)
			}
		} else if len(alternatives) != 1 || alternatives[0].Differs != OtherCount || alternatives[0].Count != 3 {
			t.Errorf("at most %s: alternatives %+v, want 3 instances", c.most, alternatives)
		}
	}
}

func TestSortOffers(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	offer := func(id, zone string, start, length time.Duration, fee, currency string) Offer {
		return Offer{Offering: capacity.Offering{ID: id, AZID: zone, Count: 1, Start: noon.Add(start), End: noon.Add(start + length), Fee: money(t, fee, currency)}}
	}
	offers := []Offer{
		offer("late", "use2-az1", 48*time.Hour, day, "240", "USD"),
		offer("near", "use2-az2", 0, day, "24", "USD"),
		offer("dear", "use2-az1", 0, day, "480", "USD"),
		offer("long", "use2-az1", time.Hour, 2*day, "240", "USD"), // 5 an hour
		offer("yuan", "use2-az1", 2*time.Hour, day, "24", "CNY"),
		offer("nowhere", "use2-az3", 0, day, "24", "USD"),
	}
	subnets := Subnets{byZone: map[string][]string{"use2-az1": {"subnet-1"}}, nearByZone: map[string][]string{"use2-az2": {"subnet-2"}}}
	for by, want := range map[string]string{ByStart: "dear long yuan late near nowhere", ByPrice: "yuan long late dear near nowhere"} {
		SortOffers(offers, by, subnets)
		var got []string
		for _, o := range offers {
			got = append(got, o.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %v, want %s", by, got, want)
		}
	}
}
