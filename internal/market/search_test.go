package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// search asks for 4 instances for a day.
func (w *world) search(most capacity.Money) *Found {
	w.Helper()

	found, err := Search{
		EC2: w.aws, Regions: []string{"us-east-2"}, MaxPrice: most, Progress: &w.customer,
		Query: fourForADay,
	}.Run(w.Context())
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

// A price in dollars excludes what is sold in another currency.
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
		{
			usd(t, "959.99"),
			"",
			"The cheapest block of 4 x p5.48xlarge for about 1d costs 480.00 CNY, which cannot be compared with " +
				"--max-price 959.99 USD.",
		},
		{
			money(t, "1000000", "EUR"),
			"",
			"The cheapest block of 4 x p5.48xlarge for about 1d costs 480.00 CNY, which cannot be compared with " +
				"--max-price 1000000.00 EUR.",
		},
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
		want := 3
		if c.most.Currency() != capacity.USD {
			want = 0
		}

		err := found.FindLargest(t.Context())
		largest := found.Largest
		if err != nil || (largest != nil) != (want > 0) || largest != nil && largest.Count != want {
			t.Errorf("at most %s: %v, %+v, want %d instances", c.most, err, largest, want)
		}
	}
}

// The largest number for sale is found in as many searches as it has binary digits.
func TestLargest(t *testing.T) {
	for _, c := range []struct{ sold, asked, searches int }{{3, 4, 2}, {1, 2, 1}, {1, 8, 3}, {5, 8, 3}, {7, 64, 6}} {
		w := newWorld(t, func(s *awssim.Scenario) {
			s.Regions[0].Offerings = s.Regions[0].Offerings[:1]
			s.Regions[0].Offerings[0].MaxCount = c.sold
		})
		query := ec2.OfferingQuery{InstanceType: "p5.48xlarge", Count: c.asked, Duration: day}
		found, err := Search{
			EC2:      w.aws,
			Regions:  []string{"us-east-2"},
			Progress: &w.customer,
			Query:    query,
		}.Run(
			t.Context(),
		)
		if err != nil || len(found.Offers) > 0 {
			t.Fatalf("%+v: %v, %+v", c, err, found.Offers)
		}

		before := w.searches()
		err = found.FindLargest(t.Context())
		largest := found.Largest
		if err != nil || largest == nil || largest.Count != c.sold || w.searches()-before != c.searches {
			t.Errorf("%+v: %v, %+v in %d searches", c, err, largest, w.searches()-before)
		}
	}
}

func TestSortOffers(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	offer := func(id, zone string, start, length time.Duration, fee, currency string) Offer {
		return Search{}.offer(
			capacity.Offering{
				ID:    id,
				AZID:  zone,
				Count: 1,
				Start: noon.Add(start),
				End:   noon.Add(start + length),
				Fee:   money(t, fee, currency),
			},
			0,
		)
	}

	offers := []Offer{
		offer("late", "use2-az1", 48*time.Hour, day, "240", "USD"),
		offer("near", "use2-az2", 0, day, "24", "USD"),
		offer("dear", "use2-az1", 0, day, "480", "USD"),
		offer("long", "use2-az1", time.Hour, 2*day, "260", "USD"), // less an hour than late
		offer("yuan", "use2-az1", 2*time.Hour, day, "24", "CNY"),
		offer("nowhere", "use2-az3", 0, day, "24", "USD"),
	}
	subnets := Subnets{
		byZone:     map[string][]string{"use2-az1": {"subnet-1"}},
		nearByZone: map[string][]string{"use2-az2": {"subnet-2"}},
	}
	for by, want := range map[string]string{
		ByStart: "dear long yuan late near nowhere",
		ByPrice: "yuan long late dear near nowhere",
		ByFee:   "yuan late long dear near nowhere",
	} {
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

func (w *world) searches() int {
	return w.sim.Calls()[awssim.CallKey{
		Service:   "ec2",
		Operation: "DescribeCapacityBlockOfferings",
		Region:    "us-east-2",
	}]
}

// A search reports its waits.
func TestSearchTellsWaits(t *testing.T) {
	w := newWorld(t, nil)
	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityBlockOfferings",
			Effect:    awssim.FailBefore,
			Code:      "RequestLimitExceeded",
			Status:    503,
			Count:     1,
		},
	)

	s := Search{EC2: w.aws, Regions: []string{"us-east-2"}, Progress: &w.customer, Query: fourForADay}
	if _, err := s.Run(w.stoppedAt("EC2 throttles searches in us-east-2 ")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; said: %s", err, w.said())
	}
}

// Why nothing was found: the window asked for, and what each region says.
func TestWhyNone(t *testing.T) {
	at := func(t time.Time) string { return t.UTC().Format("02 15:04") }
	after, by := opening.Add(20*day), opening.Add(22*day)
	f := &Found{search: Search{Query: fourForADay}}
	for name, c := range map[string]struct {
		answers   []regionAnswer
		after, by time.Time
		want      []string
	}{
		"nobody answered": {answers: []regionAnswer{{}}},
		"nothing anywhere": {
			answers: []regionAnswer{{region: "a"}, {}, {region: "b"}},
			want:    []string{"EC2 has no block of 4 x p5.48xlarge for 1d for sale in a, b."},
		},
		"from": {
			answers: []regionAnswer{{region: "a"}},
			after:   after,
			want:    []string{"EC2 has no block of 4 x p5.48xlarge for 1d for sale in a from 10 12:00."},
		},
		"until": {
			answers: []regionAnswer{{region: "a"}},
			by:      by,
			want:    []string{"EC2 has no block of 4 x p5.48xlarge for 1d for sale in a until 12 12:00."},
		},
		"not sold in one": {
			answers: []regionAnswer{{region: "a", unsold: "Not in a."}, {region: "b"}}, after: after, by: by,
			want: []string{
				"Not in a.",
				"EC2 has no block of 4 x p5.48xlarge for 1d for sale in b from 10 12:00 until 12 12:00.",
			},
		},
		"not sold in any": {answers: []regionAnswer{{region: "a", unsold: "Not in a."}}, want: []string{"Not in a."}},
	} {
		f.answers, f.search.Query.StartAfter, f.search.Query.EndBy = c.answers, c.after, c.by
		if diff := cmp.Diff(c.want, f.WhyNone(at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A type that EC2 does not sell as blocks is reported, with those it sells. A failure of that check hides no offering.
func TestUnsold(t *testing.T) {
	w := newWorld(t, nil)
	run := func(instanceType string) *Found {
		t.Helper()

		found, err := Search{
			EC2:      w.aws,
			Regions:  []string{"us-east-2"},
			Progress: &w.customer,
			Query:    ec2.OfferingQuery{InstanceType: instanceType, Count: 1, Duration: day},
		}.Run(
			t.Context(),
		)
		if err != nil {
			t.Fatal(err)
		}

		return found
	}
	if why := run("g6.12xlarge").WhyNone(time.Time.String); len(why) != 1 ||
		why[0] != "EC2 does not sell g6.12xlarge as a Capacity Block in us-east-2. Sold there: p5.48xlarge." {
		t.Errorf("%q", why)
	}

	if w.searches() != 0 {
		t.Errorf("%d searches for what is not sold", w.searches())
	}

	w = w.somebodyElse() // a client that knows no type yet
	w.fault(
		awssim.Fault{
			Operation: "DescribeInstanceTypes",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
			Skip:      1,
		},
	)

	if why := run("g6.12xlarge").WhyNone(time.Time.String); len(why) != 1 ||
		!strings.HasPrefix(why[0], "EC2 does not sell g6.12xlarge as a Capacity Block in us-east-2.") ||
		strings.Contains(why[0], "p5") {
		t.Errorf("%q", why)
	}

	if found := run("p5.48xlarge"); len(found.Offers) != 2 || found.Offers[0].GPUs != 0 {
		t.Errorf("without the number of GPUs: %+v", found.Offers)
	}
	// Then the search itself says it, to a client that knows no type.
	w = w.somebodyElse()

	if why := run("g6.12xlarge").WhyNone(time.Time.String); len(why) != 1 ||
		!strings.HasPrefix(why[0], "InvalidParameterValue: ") {
		t.Errorf("%q", why)
	}
}

// UltraServers are sold under a type of their own.
func TestUltraServers(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) {
		s.InstanceTypes = append(
			s.InstanceTypes,
			awssim.InstanceTypeScenario{
				Name:          "trn2u.48xlarge",
				VCPUs:         192,
				MemoryMiB:     2097152,
				NeuronDevices: 16,
				NeuronName:    "Trainium2",
				UsageClasses:  []string{"capacity-block"},
			},
		)
		s.Regions[0].Offerings = append(
			s.Regions[0].Offerings,
			awssim.OfferingScenario{
				Zone:        "us-east-2a",
				Type:        "trn2u.48xlarge",
				UltraServer: "u-trn2u-x64",
				PerServer:   4,
				MaxCount:    2,
				Price:       10,
				StartDays:   []int{1},
			},
		)
	})
	found, err := Search{
		EC2:      w.aws,
		Regions:  []string{"us-east-2"},
		Progress: &w.customer,
		Query:    ec2.OfferingQuery{InstanceType: "u-trn2u-x64", Count: 1, Duration: day},
	}.Run(
		t.Context(),
	)
	if err != nil || len(found.Offers) != 1 || found.Offers[0].InstanceType != "trn2u.48xlarge" ||
		found.Offers[0].GPUs != 16 {
		t.Errorf("%v, %+v", err, found)
	}
}

// A region that fails hides none of the others; only when all fail there is an error (R8).
func TestR8_AskRegions(t *testing.T) {
	w := newWorld(t, nil)
	regions := []string{"eu-north-1", "us-east-1", "us-east-2"}

	ask := func(failing ...string) ([]string, []RegionFailure, error) {
		return AskRegions(
			t.Context(),
			&w.customer,
			w.aws,
			regions,
			func(_ context.Context, aws *ec2.Client) (string, error) {
				if slices.Contains(failing, aws.Region()) {
					return "", fmt.Errorf("%s is down\nfor good", aws.Region())
				}
				return "from " + aws.Region(), nil
			},
		)
	}
	all := []string{"from eu-north-1", "from us-east-1", "from us-east-2"}
	if got, failed, err := ask(); err != nil || len(failed) != 0 || !slices.Equal(got, all) {
		t.Errorf("%v, %v, %v", got, failed, err)
	}

	w.says("asked 3 of 3 regions")

	got, failed, err := ask("us-east-1")
	if err != nil || !slices.Equal(got, []string{all[0], "", all[2]}) ||
		!slices.Equal(failed, []RegionFailure{{Region: "us-east-1", Message: "us-east-1 is down"}}) {
		t.Errorf("%v, %v, %v", got, failed, err)
	}

	got, failed, err = ask(regions...)
	if err == nil || !strings.Contains(err.Error(), "none of the 3 regions") || got != nil || len(failed) != 3 {
		t.Errorf("%v, %v, %v", got, failed, err)
	}

	regions = regions[:1]
	if got, failed, err := ask(regions...); err == nil || err.Error() != "eu-north-1 is down\nfor good" || got != nil ||
		len(failed) != 1 {
		t.Errorf("the only one: %v, %v, %v", got, failed, err)
	}

	if got, failed, err := ask(); err != nil || len(failed) != 0 || len(got) != 1 {
		t.Errorf("the only one: %v, %v, %v", got, failed, err)
	}

	stopped, cancel := context.WithCancel(t.Context())
	cancel()

	if _, _, err := AskRegions(stopped, &w.customer, w.aws, regions, func(context.Context, *ec2.Client) (int, error) {
		return 1, nil
	}); !errors.Is(
		err,
		context.Canceled,
	) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestRegionFailure(t *testing.T) {
	if got := (RegionFailure{Region: "us-east-2", Message: "timeout"}).Reason(); got != "timeout" {
		t.Errorf("without a code: %q", got)
	}

	if got := (RegionFailure{Code: "AuthFailure", Message: "who are you"}).Reason(); got != "AuthFailure: who are you" {
		t.Errorf("with a code: %q", got)
	}

	w := newWorld(t, nil)
	w.fault(
		awssim.Fault{
			Operation: "DescribeSubnets",
			Effect:    awssim.FailBefore,
			Code:      "AuthFailure",
			Message:   "who are you",
			Status:    401,
		},
	)

	_, _, err := w.aws.Subnets(t.Context(), []string{subnetA1})
	if f := newRegionFailure("us-east-2", err); f.Code != "AuthFailure" ||
		!strings.Contains(f.Message, "who are you") ||
		strings.Contains(f.Message, "describ") {
		t.Errorf("%+v of %v", f, err)
	}

	one, two := RegionFailure{Region: "a", Message: "first"}, RegionFailure{Region: "b"}
	if diff := cmp.Diff([]RegionFailure{one, two}, unionOfFailures([]RegionFailure{one}, []RegionFailure{
		{Region: "a", Message: "again"},
		two,
	})); diff != "" {
		t.Error(diff)
	}
}

func TestChooseRegions(t *testing.T) {
	w := newWorld(t, nil)
	given := []string{"us-west-2", "eu-north-1", "us-west-2"}
	for name, c := range map[string]struct{ given, want []string }{
		"none":  {nil, []string{"us-east-2"}},
		"some":  {given, []string{"eu-north-1", "us-west-2"}},
		"all":   {[]string{"eu-north-1", "all"}, []string{"us-east-2"}}, // the world has one
		"alone": {[]string{"eu-north-1"}, []string{"eu-north-1"}},
	} {
		if got, err := ChooseRegions(t.Context(), w.aws, c.given); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}

	if given[0] != "us-west-2" {
		t.Errorf("what was given is changed: %v", given)
	}
}

// R10: zones are compared by id; and what is not known is not shown as none.
func TestR10_SubnetsOfAZone(t *testing.T) {
	s := Subnets{
		byZone:     map[string][]string{"use2-az1": {"subnet-1", "subnet-2"}},
		nearByZone: map[string][]string{"use2-az2": {"subnet-3"}},
	}
	for zone, want := range map[string]struct {
		own, near []string
		rank      int
	}{
		"use2-az1": {
			[]string{"subnet-1", "subnet-2"},
			[]string{},
			0,
		}, "use2-az2": {[]string{}, []string{"subnet-3"}, 1},
		"use2-az3": {[]string{}, []string{}, 2}, "us-east-2a": {[]string{}, []string{}, 2},
		"": {nil, nil, 2}, // EC2 may show no zone until a block opens
	} {
		use := s.Zone(zone)
		if !slices.Equal(use.Subnets, want.own) || !slices.Equal(use.Neighbours, want.near) ||
			(use.Subnets == nil) != (want.own == nil) ||
			use.Rank() != want.rank {
			t.Errorf("zone %q: %+v with rank %d, want %+v", zone, use, use.Rank(), want)
		}
	}

	s.Err = errors.New("access denied")
	if use := s.Zone("use2-az1"); use.Subnets != nil || use.Neighbours != nil {
		t.Errorf("it is not known, and still %+v", use)
	}
}

// A typed fee is accepted for that amount only, whatever the offering's id.
func TestR3_AnotherFeeAfterTyping(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.NewOfferingIDs = true })
	shown := w.offering("USD")
	query := ec2.OfferingQuery{InstanceType: shown.InstanceType, Count: shown.Count, Duration: day}
	d := &deal{Buyer: w.buyer(), close: func() {}}

	now, err := d.findConfirmed(t.Context(), query, shown)
	if err != nil || now.ID == shown.ID || !sameBlock(now, shown) || now.Fee != shown.Fee {
		t.Fatalf("%+v became %+v: %v", shown, now, err)
	}

	typed := shown
	typed.Fee = usd(t, "1.00")
	if _, err := d.findConfirmed(t.Context(), query, typed); err == nil ||
		!strings.Contains(err.Error(), "not the 1.00 USD that you typed; nothing was bought") {
		t.Errorf("typed for another fee: %v", err)
	}
}

func TestSameBlock(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

	one := capacity.Offering{
		ID:               "cb-1",
		Region:           "r",
		AZID:             "z",
		InstanceType:     "t",
		Count:            4,
		UltraServerType:  "u",
		UltraServerCount: 2,
		Start:            noon,
		End:              noon.Add(day),
		Fee:              usd(t, "5.00"),
	}
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
		"its id first": {"cb-0", "cb-0", []capacity.Offering{known, offering("cb-1", "4.00", noon)}},
		"its id last":  {"cb-0", "cb-0", []capacity.Offering{offering("cb-1", "5.00", noon), known}},
		"the same fee": {
			"cb-0",
			"cb-3",
			[]capacity.Offering{
				offering("cb-1", "4.00", noon),
				offering("cb-2", "6.00", noon),
				offering("cb-3", "5.00", noon),
			},
		},
		"the same fee, first": {
			"cb-0",
			"cb-3",
			[]capacity.Offering{offering("cb-3", "5.00", noon), offering("cb-1", "4.00", noon)},
		},
		"the cheapest": {
			"cb-0",
			"cb-2",
			[]capacity.Offering{
				offering("cb-1", "9.00", noon),
				offering("cb-2", "6.00", noon),
				offering("cb-3", "7.00", noon),
			},
		},
		"no other block": {"cb-0", "", []capacity.Offering{offering("cb-1", "5.00", noon.Add(day))}},
		"nothing":        {"cb-0", "", nil},
		"the other has that fee": {
			"cb-0",
			"cb-2",
			[]capacity.Offering{offering("cb-1", "5.00", noon.Add(day)), offering("cb-2", "6.00", noon)},
		},
	} {
		if got, there := pickOffering(c.found, c.id, known); got.ID != c.want || there != (c.want != "") {
			t.Errorf("%s: %q, %t", name, got.ID, there)
		}
	}
}
