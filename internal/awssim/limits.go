package awssim

import (
	"fmt"
	"time"
)

// Limits keep an account from searching Capacity Blocks; POST /_sim/limits takes them. Fields left out stay.
type Limits struct {
	Region         string    `json:"region,omitempty"`          // default: every one
	BlockQuota     *int      `json:"block_quota,omitempty"`     // EC2's quota "Concurrent Capacity Blocks"; only 0 has an effect
	NoUltraServers *bool     `json:"no_ultraservers,omitempty"` // the account is not approved for UltraServers
	SearchPause    *Duration `json:"search_pause,omitempty"`    // searches that follow each other sooner are refused
}

// searchLimits are the limits of one region.
type searchLimits struct {
	noQuota, noUltraServers bool
	pause                   time.Duration
	last                    time.Time // of the searches
}

// SetLimits changes the limits of one region, or of all.
func (s *Sim) SetLimits(l Limits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Region != "" && s.regions[l.Region] == nil {
		return fmt.Errorf("no region %q", l.Region)
	}
	for name, r := range s.regions {
		if l.Region != "" && l.Region != name {
			continue
		}
		if l.BlockQuota != nil {
			r.limits.noQuota = *l.BlockQuota == 0
		}
		if l.NoUltraServers != nil {
			r.limits.noUltraServers = *l.NoUltraServers
		}
		if l.SearchPause != nil {
			r.limits.pause = time.Duration(*l.SearchPause)
		}
	}
	return nil
}

// checkSearch refuses a search for blocks that live accounts were refused.
func (s *Sim) checkSearch(r *region, in *describeCapacityBlockOfferingsInput) error {
	l := &r.limits
	soon := !l.last.IsZero() && s.now.Sub(l.last) < l.pause
	l.last = s.now
	switch {
	case l.noQuota:
		return apiErrorf("CapacityBlockDescribeLimitExceeded",
			"Your existing service limits for this AWS account are not sufficient to use EC2 Capacity Blocks. Contact AWS Support to request a limit increase.")
	case soon: // the code was seen; nobody recorded the message
		return apiErrorf("CapacityBlockDescribeLimitExceeded", "You have exceeded the rate at which you may describe Capacity Block offerings. Try again later.")
	case in.UltraserverType != "" && l.noUltraServers:
		e := apiErrorf("UnauthorizedOperation", "This account is not authorized to call DescribeCapacityBlockOfferings for UltraServers.")
		e.Status = 403
		return e
	case in.InstanceType != "" && !r.sellsBlocks(in.InstanceType):
		return apiErrorf("InvalidParameterValue", "The instance type '%s' is not supported for Capacity Blocks in '%s'.", in.InstanceType, r.name)
	case !in.StartDateRange.IsZero() && in.StartDateRange.Before(s.now),
		!in.StartDateRange.IsZero() && !in.EndDateRange.IsZero() && !in.EndDateRange.After(in.StartDateRange):
		return apiErrorf("InvalidParameterValue", "The start date is not valid.")
	}
	return nil
}

// sellsBlocks tells whether EC2 sells blocks of a type in the region at all, be some left or not.
func (r *region) sellsBlocks(instanceType string) bool {
	for _, o := range r.offerings {
		if o.Type == instanceType {
			return true
		}
	}
	t := r.types[instanceType]
	return t != nil && t.soldAsBlocks() && r.offers(instanceType, "")
}
