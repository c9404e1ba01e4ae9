package awssim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

const (
	day = 24 * time.Hour
	// blockEnd is the time of day at which every block ends (EC2 User Guide, capacity-blocks-how).
	blockEnd = 11*time.Hour + 30*time.Minute
	// leadTime is how soon a block can start (same page).
	leadTime = 30 * time.Minute
	// maxOfferings is how many blocks EC2 shows for one question (same page).
	maxOfferings = 6
	// maxBlock is the largest number of instances in one block (same page).
	maxBlock = 64
	// maxDays is the longest block (same page).
	maxDays = 182
)

// offeringTemplate makes offerings of one type in one zone.
type offeringTemplate struct {
	OfferingScenario
	zone *zone
	sold []*reservation
}

func (r *region) newOfferingTemplate(o OfferingScenario) (*offeringTemplate, error) {
	z, err := r.zoneNamed(o.Zone)
	if err != nil {
		return nil, err
	}
	if r.types[o.Type] == nil {
		return nil, fmt.Errorf("no instance type %q", o.Type)
	}
	if o.MaxCount < 1 || (o.UltraServer != "" && o.PerServer < 1) || (o.StartsIn > 0 && o.Lasts <= 0) {
		return nil, fmt.Errorf("%s: it needs max_count, with ultraserver also per_server, with starts_in also lasts", o.Type)
	}
	if o.MaxDays == 0 {
		o.MaxDays = maxDays
	}
	o.Currency = cmp.Or(o.Currency, "USD")
	return &offeringTemplate{OfferingScenario: o, zone: z}, nil
}

// templateFor finds what sold, or could have sold, blocks of a type in a zone; nil if nothing.
func (r *region) templateFor(instanceType string, z *zone) *offeringTemplate {
	for _, t := range r.offerings {
		if t.Type == instanceType && t.zone == z {
			return t
		}
	}
	return nil
}

// offering is one block for sale.
type offering struct {
	id         string
	from       *offeringTemplate
	count      int // instances
	servers    int // UltraServers, or 0
	start, end time.Time
	shown      time.Time // when a search showed it
}

// atPurchase tells whether the block starts so long after its purchase, not at a fixed time.
func (o *offering) atPurchase() bool { return o.from.Lasts > 0 }

func (o *offering) duration() time.Duration { return o.end.Sub(o.start) }

// fee is the price of the whole block.
func (t *offeringTemplate) fee(count int, d time.Duration) string {
	return fmt.Sprintf("%.2f", t.Price*float64(count)*d.Hours())
}

// offersFor lists what the template has for a count and an asked duration.
func (t *offeringTemplate) offersFor(now time.Time, count, servers int, asked time.Duration) []*offering {
	var out []*offering
	add := func(start, end time.Time) {
		o := &offering{from: t, count: count, servers: servers, start: start, end: end}
		if t.left(start, end) >= count {
			out = append(out, o)
		}
	}
	if t.Lasts > 0 {
		start := now.Add(time.Duration(t.StartsIn)).Truncate(time.Second)
		add(start, start.Add(time.Duration(t.Lasts)))
		return out
	}
	if asked > time.Duration(t.MaxDays)*day {
		return nil
	}
	if t.Instant { // starts soon and ends at an 11:30, so it is shorter than asked
		start := now.Truncate(leadTime).Add(2 * leadTime)
		end := start.Truncate(day).Add(blockEnd)
		for !end.After(start) {
			end = end.Add(day)
		}
		end = end.Add(asked - day)
		add(start, end)
	}
	for _, d := range t.StartDays {
		start := now.Truncate(day).Add(time.Duration(d)*day + blockEnd)
		if start.Sub(now) >= leadTime {
			add(start, start.Add(asked))
		}
	}
	return out
}

// left is how many instances are not sold for a time.
func (t *offeringTemplate) left(start, end time.Time) int {
	if t.Stock == 0 {
		return t.MaxCount * max(t.PerServer, 1)
	}
	left := t.Stock
	for _, res := range t.sold {
		if res.holds() && res.start.Before(end) && start.Before(res.end) {
			left -= res.count
		}
	}
	return left
}

// makeID is the same for the same block: two searches show one offering, unless another round is asked for. One that
// starts at purchase has no fixed times.
func (o *offering) makeID(round uint64) string {
	key := fmt.Sprintf("%s/%s/%s/%d/%d", o.from.zone.id, o.from.Type, o.from.UltraServer, o.count, o.duration())
	if o.atPurchase() {
		key += fmt.Sprintf("/+%d", o.from.StartsIn)
	} else {
		key += "/" + wireTime(o.start)
	}
	if round > 0 {
		key += fmt.Sprintf("/round %d", round)
	}
	sum := sha256.Sum256([]byte(key))
	return "cb-0" + hex.EncodeToString(sum[:8])
}

// validHours tells whether EC2 sells blocks of so many hours: up to 14 days in steps of one day, then
// in steps of seven (SDK documentation of CapacityDurationHours).
func validHours(hours int) bool {
	days := hours / 24
	return hours%24 == 0 && (days >= 1 && days <= 14 || days > 14 && days <= maxDays && days%7 == 0)
}

// sortOfferings puts the earliest first, then the cheapest.
func sortOfferings(offers []*offering) {
	slices.SortStableFunc(offers, func(a, b *offering) int {
		if c := a.start.Compare(b.start); c != 0 {
			return c
		}
		return int(a.duration() - b.duration())
	})
}
