package market

import (
	"fmt"
	"math/bits"
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
