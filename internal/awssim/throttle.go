package awssim

import (
	"net/http"
	"strings"

	"golang.org/x/time/rate"
)

type bucket = rate.Limiter

// limit is a request bucket: how many calls it holds, and how many it gains a second.
type limit struct {
	burst  int
	refill rate.Limit
}

// limits are EC2's per account, region and API (EC2 Developer Guide, ec2-api-throttling). The four
// calls around offerings refill with one call in 6.7 seconds.
var limits = map[string]limit{
	"DescribeCapacityBlockOfferings":          {10, 0.15},
	"PurchaseCapacityBlock":                   {10, 0.15},
	"DescribeCapacityBlockExtensionOfferings": {10, 0.15},
	"PurchaseCapacityBlockExtension":          {10, 0.15},
	"RunInstances":                            {5, 2},
	"TerminateInstances":                      {100, 5},
	"CreateLaunchTemplateVersion":             {100, 5},
	"CreateTags":                              {100, 10},
}

var (
	describeLimit = limit{100, 20} // every other Describe call
	mutateLimit   = limit{50, 5}   // every other change
)

// throttle takes a token from the bucket of the call's API and region. PCS publishes no limits, so
// it has none. Called with mu held.
func (s *Sim) throttle(c *call) error {
	if !s.scenario.Throttle || c.Service != "ec2" {
		return nil
	}
	key := CallKey{c.Service, c.Operation, c.Region}
	b := s.buckets[key]
	if b == nil {
		l, ok := limits[c.Operation]
		switch {
		case ok:
		case isRead(c.Operation):
			l = describeLimit
		default:
			l = mutateLimit
		}
		b = rate.NewLimiter(l.refill, l.burst)
		s.buckets[key] = b
	}
	if b.AllowN(s.now, 1) {
		return nil
	}
	return &APIError{Code: "RequestLimitExceeded", Message: "Request limit exceeded.", Status: http.StatusServiceUnavailable}
}

func isRead(operation string) bool { return strings.HasPrefix(operation, "Describe") }
