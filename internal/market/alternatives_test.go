package market

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// The largest number is found in as many tries as it has binary digits.
func TestLargest(t *testing.T) {
	for most := range 65 {
		for sold := range most + 1 {
			tries := 0
			best, ok := largest(most, func(n int) (Alternative, bool) {
				if tries++; tries > 64 {
					t.Fatal("it does not end")
				}
				if n < 1 || n > most {
					t.Fatalf("tried %d of 1 to %d", n, most)
				}
				return Alternative{Count: n}, n <= sold
			})
			if ok != (sold > 0) || best.Count != sold {
				t.Errorf("up to %d of %d are sold; found %d, %v", sold, most, best.Count, ok)
			}
			if enough := bits.Len(uint(most)); tries > enough {
				t.Errorf("up to %d of %d are sold; %d tries, want at most %d", sold, most, tries, enough)
			}
		}
	}
}

func TestBestOfEach(t *testing.T) {
	day := 24 * 60 * 60
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	all := []Alternative{
		{Differs: "duration", Region: "b", Count: 4, Seconds: 8 * day, Start: noon},
		{Differs: "count", Region: "a", Count: 8, Seconds: 7 * day, Start: noon},
		{Differs: "count", Region: "b", Count: 16, Seconds: 7 * day, Start: noon.Add(time.Hour)},
		{Differs: "count", Region: "c", Count: 16, Seconds: 7 * day, Start: noon},
		{Differs: "duration", Region: "a", Count: 4, Seconds: 5 * day, Start: noon},
		{Differs: "duration", Region: "c", Count: 4, Seconds: 6 * day, Start: noon}, // as near, and later
		{Differs: "start", Region: "b", Count: 4, Seconds: 7 * day, Start: noon.Add(time.Hour)},
		{Differs: "start", Region: "c", Count: 4, Seconds: 7 * day, Start: noon},
	}
	near, far := Alternative{Seconds: 8 * day}, Alternative{Seconds: 5 * day}
	if !near.better(far, 7*24*time.Hour) || far.better(near, 7*24*time.Hour) {
		t.Error("5 days are nearer to 7 than 8 are")
	}
	got := bestOfEach(all, 7*24*time.Hour)
	want := []string{"count c", "duration b", "start c"}
	if len(got) != len(want) {
		t.Fatalf("picked %+v", got)
	}
	for i, a := range got {
		if a.Differs+" "+a.Region != want[i] {
			t.Errorf("%d: picked %+v, want %s", i, a, want[i])
		}
	}
}

// What is for sale instead, in a region that sells no more than the scenario says.
func TestAlternatives(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		maxCount, maxDays int
		query             ec2.OfferingQuery
		want              []string
		searches          int // for them
	}{
		"fewer":                  {3, 7, ec2.OfferingQuery{Count: 4, Duration: 7 * day}, []string{"count 3 7d"}, 5},
		"one":                    {1, 7, ec2.OfferingQuery{Count: 2, Duration: 7 * day}, []string{"count 1 7d"}, 4},
		"a day less":             {8, 6, ec2.OfferingQuery{Count: 1, Duration: 7 * day}, []string{"duration 1 6d"}, 1},
		"much shorter":           {8, 5, ec2.OfferingQuery{Count: 1, Duration: 28 * day}, []string{"duration 1 5d"}, 7},
		"the shortest":           {8, 1, ec2.OfferingQuery{Count: 1, Duration: 28 * day}, []string{"duration 1 1d"}, 6},
		"shorter than any":       {8, 150, ec2.OfferingQuery{Count: 1, Duration: 182 * day}, []string{"duration 1 147d"}, 7},
		"earlier":                {8, 7, ec2.OfferingQuery{Count: 1, Duration: 7 * day, StartAfter: noon.Add(5 * day)}, []string{"start 1 7d"}, 4},
		"later":                  {8, 7, ec2.OfferingQuery{Count: 1, Duration: 7 * day, EndBy: noon.Add(7 * day)}, []string{"duration 1 6d", "start 1 7d"}, 2},
		"nothing smaller either": {8, 7, ec2.OfferingQuery{Count: 1, Duration: day, StartAfter: noon.Add(20 * day), EndBy: noon.Add(22 * day)}, []string{"start 1 1d"}, 2},
		"only a day is shorter":  {8, 7, ec2.OfferingQuery{Count: 1, Duration: 2 * day, StartAfter: noon.Add(20 * day)}, []string{"start 1 2d"}, 3},
	} {
		w := newWorld(t, func(s *awssim.Scenario) {
			offering := &s.Regions[0].Offerings[0]
			offering.MaxCount, offering.MaxDays = c.maxCount, c.maxDays
			s.Regions[0].Offerings = s.Regions[0].Offerings[:1]
		})
		c.query.InstanceType = "p5.48xlarge"
		found, err := Search{EC2: w.aws, Regions: []string{"us-east-2"}, Progress: &w.customer, Query: c.query}.Run(t.Context())
		if err != nil || len(found.Offers) > 0 {
			t.Errorf("%s: %v, %+v", name, err, found.Offers)
			continue
		}
		before := w.searches()
		all, err := found.Alternatives(t.Context())
		if n := w.searches() - before; n != c.searches {
			t.Errorf("%s: %d searches, want %d", name, n, c.searches)
		}
		var got []string
		for _, a := range all {
			got = append(got, fmt.Sprintf("%s %d %s", a.Differs, a.Count, capacity.FormatDuration(a.Duration())))
			if a.Offering == "" || a.Region != "us-east-2" || !a.End.After(a.Start) {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

// Nobody is asked where the type is not sold, and a region that fails gives what came before.
func TestNoAlternatives(t *testing.T) {
	w := newWorld(t, nil)
	found, err := Search{EC2: w.aws, Regions: []string{"us-east-2"}, Progress: &w.customer, Query: ec2.OfferingQuery{InstanceType: "p9.huge", Count: 4, Duration: day}}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := found.Alternatives(t.Context()); all != nil || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	if why := found.WhyNone(time.Time.String); len(why) != 1 || why[0] != "EC2 has no instance type p9.huge in us-east-2. Sold there: p5.48xlarge." {
		t.Errorf("%q", why)
	}
	if f := w.search(money(t, "100", "USD")); len(f.Offers) == 0 {
		w.fault(awssim.Fault{Operation: "DescribeCapacityBlockOfferings", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403})
		if all, err := f.Alternatives(t.Context()); len(all) > 0 || err == nil {
			t.Errorf("%+v, %v", all, err)
		}
	}
}

// What was found before an error is kept: 4 of at most 7 are for sale, and EC2 does not say whether 6 are.
func TestAlternativesBeforeAnError(t *testing.T) {
	w := newWorld(t, func(s *awssim.Scenario) { s.Regions[0].Offerings[0].MaxCount = 5 })
	f := w.search(money(t, "1", "USD"))
	f.search.MaxPrice, f.search.Query.Count = capacity.Money{}, 8
	w.fault(awssim.Fault{Operation: "DescribeCapacityBlockOfferings", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403, Skip: 1})
	all, err := f.alternativesIn(t.Context(), w.aws)
	if ec2.Code(err) != "UnauthorizedOperation" || len(all) != 1 || all[0].Count != 4 {
		t.Errorf("%v, %+v", err, all)
	}
}

// What takes long is announced: EC2 allows ten searches at once, and the question took one.
func TestAlternativesAreAnnounced(t *testing.T) {
	const said = "Searching on in us-east-2 can take "
	refuse := awssim.Fault{Operation: "DescribeCapacityBlockOfferings", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403}
	for name, c := range map[string]struct {
		query    ec2.OfferingQuery
		answered int // searches before EC2 refuses one, which ends it
		says     bool
	}{
		// Three for a length leave six for a smaller count, and five beside one for any start.
		"six for a count":         {ec2.OfferingQuery{Count: 64, Duration: day}, 0, false},
		"seven for a count":       {ec2.OfferingQuery{Count: 65, Duration: day}, 0, true},
		"five beside any start":   {ec2.OfferingQuery{Count: 32, Duration: day, EndBy: opening.Add(5 * day)}, 0, false},
		"six beside a late start": {ec2.OfferingQuery{Count: 33, Duration: day, StartAfter: opening.Add(5 * day)}, 0, true},
		// One for any start, two for the neighbours and one for the shortest leave five.
		"five for a length": {ec2.OfferingQuery{Count: 1, Duration: 154 * day, EndBy: opening.Add(5 * day)}, 4, false},
		"six for a length":  {ec2.OfferingQuery{Count: 1, Duration: 161 * day, EndBy: opening.Add(5 * day)}, 4, true},
	} {
		w := newWorld(t, func(s *awssim.Scenario) {
			s.InstanceTypes = append(s.InstanceTypes, awssim.InstanceTypeScenario{Name: "trn2u.48xlarge", VCPUs: 192, MemoryMiB: 2097152, UsageClasses: []string{"capacity-block"}})
			s.Regions[0].Offerings = []awssim.OfferingScenario{{Zone: "us-east-2a", Type: "trn2u.48xlarge", UltraServer: "u-trn2u-x64", PerServer: 4, MaxCount: 2, Price: 10, StartDays: []int{1}}}
		})
		c.query.InstanceType = "u-trn2u-x64"
		found, err := Search{EC2: w.aws, Regions: []string{"us-east-2"}, Progress: &w.customer, Query: c.query}.Run(t.Context())
		if err != nil || len(found.Offers) > 0 {
			t.Fatalf("%s: %v, %+v", name, err, found.Offers)
		}
		refuse.Skip = c.answered
		w.fault(refuse)
		if _, err := found.Alternatives(t.Context()); ec2.Code(err) != "UnauthorizedOperation" || strings.Contains(w.said(), said) != c.says || w.searches() != c.answered+1 {
			t.Errorf("%s: %v after %d searches; said: %s", name, err, w.searches(), w.said())
		}
	}
}
