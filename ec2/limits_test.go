package ec2

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

var question = OfferingQuery{InstanceType: "p5.48xlarge", Count: 4, Duration: 2 * day}

// setRefill makes the limits of tests faster than EC2's, in every region.
func setRefill(c *Client, refill time.Duration) {
	c.shared.refill = refill
	for _, r := range c.shared.regions {
		r.scarce = newScarce(refill)
	}
}

func TestThrottledSearchWaitsAndAsksAgain(t *testing.T) {
	sim, c, attempts := countedSim(t)
	setRefill(c, time.Millisecond)

	throttle := awssim.Fault{
		Operation: "DescribeCapacityBlockOfferings",
		Effect:    awssim.FailBefore,
		Code:      "RequestLimitExceeded",
		Status:    503,
		Count:     2,
	}
	fault(t, sim, throttle)

	var waits int
	c.OnWait(func(w Wait) {
		if w.Throttled == "RequestLimitExceeded" {
			waits++
		}
	})

	if found, err := c.Offerings(t.Context(), question); err != nil || len(found) == 0 {
		t.Fatalf("found %v, %v", found, err)
	}

	if n := attempts("DescribeCapacityBlockOfferings"); n != 3 || waits != 2 {
		t.Errorf("%d attempts and %d waits, want 3 and 2", n, waits)
	}

	throttle.Count = 0
	fault(t, sim, throttle)

	if _, err := c.Offerings(t.Context(), question); Code(err) != "RequestLimitExceeded" {
		t.Errorf("throttled for ever: %v", err)
	}

	if n := attempts("DescribeCapacityBlockOfferings"); n != 3+maxThrottled {
		t.Errorf("%d attempts, want %d", n-3, maxThrottled)
	}
}

// A search waits before EC2, which throttles here, would refuse it; the wait ends with the context.
func TestSearchesStayInsideEC2sLimits(t *testing.T) {
	scenario := awssim.DefaultScenario()
	scenario.Throttle = true
	_, c, _ := simOf(t, scenario)
	setRefill(c, time.Hour)

	ctx, cancel := context.WithCancel(t.Context())
	c.OnWait(func(w Wait) {
		if w.Throttled != "" {
			t.Errorf("EC2 answered %s", w.Throttled)
		}

		cancel()
	})

	for range scarceBurst {
		if _, err := c.Offerings(ctx, question); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := c.Offerings(ctx, question); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// One code has two meanings: searches too close together, or a quota of 0.
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

	if _, err := c.Offerings(t.Context(), question); Code(err) != "CapacityBlockDescribeLimitExceeded" ||
		!strings.HasSuffix(err.Error(), "; others search with this account too; try again in a minute") {
		t.Errorf("for ever: %v", err)
	}
}

// A purchase that was not sent was not made.
func TestPurchaseThatWaitsIsNotSent(t *testing.T) {
	_, c, attempts := countedSim(t)
	setRefill(c, time.Hour)
	c.scarce.purchases.AllowN(time.Now(), scarceBurst)

	ctx, cancel := context.WithCancel(t.Context())
	c.OnWait(func(Wait) { cancel() })

	_, err := c.Purchase(ctx, Buy, "cb-0", "Linux/UNIX", nil)
	if !IsRefused(err) || !errors.Is(err, ErrNotSent) || attempts("PurchaseCapacityBlock") != 0 {
		t.Errorf("error %v, %d attempts", err, attempts("PurchaseCapacityBlock"))
	}
}

// endless returns pages without end.
type endless struct{}

func (*endless) HasMorePages() bool { return true }

func (*endless) NextPage(context.Context, ...func(*ec2.Options)) (*int, error) { return new(int), nil }

// A search that gets only empty pages stops with what it found, and says so; every other listing has a limit.
func TestListingsEnd(t *testing.T) {
	_, c, _ := countedSim(t)
	setRefill(c, time.Nanosecond)

	sent := 0
	endlessly := func(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (
		*ec2.DescribeInstancesOutput, error,
	) {
		sent++
		return &ec2.DescribeInstancesOutput{NextToken: aws.String("more")}, nil
	}

	found, err := search(
		t.Context(),
		c,
		c.scarce.offerings,
		"capacity blocks in us-east-2",
		endlessly,
		&ec2.DescribeInstancesInput{},
		func(*ec2.DescribeInstancesOutput) []int {
			return make([]int, max(0, min(1, 4-sent)))
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	const said = "there may be more capacity blocks in us-east-2: EC2 sent 5 pages with nothing on them and says " +
		"that there are more; try again later"
	if untold := c.Withheld(); len(found) != 3 || sent != 8 || !slices.Equal(untold, []string{said}) {
		t.Errorf("%d found on %d pages, and said %q", len(found), sent, untold)
	}

	_, err = awsconfig.All(t.Context(), "listing", &endless{}, func(*int) []int { return nil })
	if err == nil || err.Error() != "listing: AWS sent 1000 pages and says that there are more" {
		t.Errorf("a listing without an end: %v", err)
	}
}
