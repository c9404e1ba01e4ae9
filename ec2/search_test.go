package ec2

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// What live accounts were seen to answer to searches.
func TestSearchRefusals(t *testing.T) {
	zero, yes := 0, true
	for name, test := range map[string]struct {
		limits   awssim.Limits
		query    OfferingQuery
		want     error
		code     string
		mentions string
	}{
		"quota 0": {awssim.Limits{BlockQuota: &zero}, question, ErrNoBlockQuota, "CapacityBlockDescribeLimitExceeded", "L-64569A79"},
		"not sold": {awssim.Limits{}, OfferingQuery{InstanceType: "g6.12xlarge", Count: 1, Duration: day},
			ErrNotSold, "InvalidParameterValue", "'us-east-2'"},
		"UltraServers without approval": {awssim.Limits{NoUltraServers: &yes}, OfferingQuery{InstanceType: "u-trn2u-x64", Count: 1, Duration: day},
			ErrNotApproved, "UnauthorizedOperation", "account team"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, c := newSim(t)
			if err := sim.SetLimits(test.limits); err != nil {
				t.Fatal(err)
			}
			_, err := c.Offerings(t.Context(), test.query)
			if !errors.Is(err, test.want) || Code(err) != test.code || !strings.Contains(err.Error(), test.mentions) {
				t.Errorf("%v", err)
			}
			if n := calls(sim, "DescribeCapacityBlockOfferings"); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// A caller whose policy does not let him search is not told to have the account approved.
func TestSearchWithoutPermission(t *testing.T) {
	sim, c := newSim(t)
	if _, err := sim.AddFault(awssim.Denies("ec2:DescribeCapacityBlockOfferings")); err != nil {
		t.Fatal(err)
	}
	for _, query := range []OfferingQuery{question, {InstanceType: "u-trn2u-x64", Count: 1, Duration: day}} {
		_, err := c.Offerings(t.Context(), query)
		if errors.Is(err, ErrNotApproved) || Code(err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), "ec2:DescribeCapacityBlockOfferings is not allowed for ") {
			t.Errorf("%s: %v", query.InstanceType, err)
		}
	}
}

// Searches that follow each other too fast have the code of the quota, and are made again.
func TestBackToBackSearches(t *testing.T) {
	sim, c := newSim(t)
	setRefill(c, 100*time.Millisecond)
	pause := awssim.Duration(25 * time.Second)
	if err := sim.SetLimits(awssim.Limits{SearchPause: &pause}); err != nil {
		t.Fatal(err)
	}
	var codes []string
	over := true // the pause is, before the search is sent again
	c.OnWait(func(w Wait) {
		if codes = append(codes, w.Throttled); over {
			sim.Clock().Advance(time.Duration(pause))
		}
	})
	for range 2 {
		if found, err := c.Offerings(t.Context(), question); err != nil || len(found) == 0 {
			t.Fatalf("found %v, %v", found, err)
		}
	}
	if !slices.Contains(codes, "CapacityBlockDescribeLimitExceeded") {
		t.Errorf("waited for %q", codes)
	}
	over = false
	if _, err := c.Offerings(t.Context(), question); Code(err) != "CapacityBlockDescribeLimitExceeded" || errors.Is(err, ErrNoBlockQuota) || !strings.HasSuffix(err.Error(), "; others search with this account too; try again in a minute") {
		t.Errorf("for ever: %v", err)
	}
}

// EC2 refuses an earliest start that is over; nobody means anything by it.
func TestWindowOfASearch(t *testing.T) {
	sim, c := newSim(t)
	all, err := c.Offerings(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	past := question
	past.StartAfter = noon.Add(-time.Hour)
	if found, err := c.Offerings(t.Context(), past); err != nil || len(found) != len(all) {
		t.Errorf("from the past on: %d of %d, %v", len(found), len(all), err)
	}
	before := calls(sim, "DescribeCapacityBlockOfferings")
	for _, q := range []OfferingQuery{{EndBy: noon.Add(-time.Hour)}, {StartAfter: noon.Add(9 * day), EndBy: noon.Add(8 * day)}} {
		q.InstanceType, q.Count, q.Duration = question.InstanceType, question.Count, question.Duration
		if _, err := c.Offerings(t.Context(), q); err == nil {
			t.Errorf("no error for %+v", q)
		}
	}
	if n := calls(sim, "DescribeCapacityBlockOfferings"); n != before {
		t.Error("EC2 was asked for what cannot be")
	}
}
