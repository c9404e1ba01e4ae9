package ec2

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
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
	throttle := awssim.Fault{Operation: "DescribeCapacityBlockOfferings", Effect: awssim.FailBefore, Code: "RequestLimitExceeded", Status: 503, Count: 2}
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
	if n := attempts("DescribeCapacityBlockOfferings"); n != 3+mostThrottled {
		t.Errorf("%d attempts, want %d", n-3, mostThrottled)
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

// A purchase that was not sent is one that was not made.
func TestPurchaseThatWaitsIsNotSent(t *testing.T) {
	_, c, attempts := countedSim(t)
	setRefill(c, time.Hour)
	c.scarce.purchases.AllowN(time.Now(), scarceBurst)
	ctx, cancel := context.WithCancel(t.Context())
	c.OnWait(func(Wait) { cancel() })
	_, err := c.Purchase(ctx, "cb-0", "Linux/UNIX", nil)
	if !Refused(err) || !errors.Is(err, ErrNotSent) || attempts("PurchaseCapacityBlock") != 0 {
		t.Errorf("error %v, %d attempts", err, attempts("PurchaseCapacityBlock"))
	}
}
