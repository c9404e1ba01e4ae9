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
	// leadTime must pass before a block can start (same page).
	leadTime = 30 * time.Minute
	// maxOfferings bounds the blocks that EC2 shows for one question (same page).
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
		return nil, fmt.Errorf(
			"%s: it needs max_count, with ultraserver also per_server, with starts_in also lasts",
			o.Type,
		)
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
	listedAt   time.Time // when a search showed it
}

// atPurchase reports whether the block starts so long after its purchase, not at a fixed time.
func (o *offering) atPurchase() bool { return o.from.Lasts > 0 }

func (o *offering) duration() time.Duration { return o.end.Sub(o.start) }

// fee returns the price of the whole block.
func (t *offeringTemplate) fee(count int, d time.Duration) string {
	return fmt.Sprintf("%.2f", t.Price*float64(count)*d.Hours())
}

// offersFor lists what the template has for a count and an asked duration.
func (t *offeringTemplate) offersFor(now time.Time, count, servers int, asked time.Duration) []*offering {
	var out []*offering

	add := func(start, end time.Time) {
		o := &offering{from: t, count: count, servers: servers, start: start, end: end}
		if t.remaining(start, end) >= count {
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

// remaining counts the instances that are not sold for a time.
func (t *offeringTemplate) remaining(start, end time.Time) int {
	if t.Stock == 0 {
		return t.MaxCount * max(t.PerServer, 1)
	}

	left := t.Stock
	for _, res := range t.sold {
		if res.keepsCapacity() && res.start.Before(end) && start.Before(res.end) {
			left -= res.count
		}
	}

	return left
}

// makeID returns the same id for the same block: two searches show one offering, unless another round is asked for. One
// that starts at purchase has no fixed times.
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

// validHours reports whether EC2 sells blocks of so many hours: up to 14 days in steps of one day, then
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

// A block can be extended from 56 days to 1 hour before its end, while no other extension waits for
// its payment (EC2 User Guide, capacity-blocks-extend).
const (
	earliestExtension = 56 * day
	latestExtension   = time.Hour
)

// extensionOffering is an extension for sale.
type extensionOffering struct {
	id  string
	res *reservation
	end time.Time // of the block when it was offered: where the extension starts
	d   time.Duration
}

// extension is one that was bought.
type extension struct {
	*extensionOffering
	purchased time.Time
	status    string // payment-pending, payment-failed, payment-succeeded
}

func (o *extensionOffering) fee() string {
	if o.res.offered == nil {
		return "0.00"
	}
	return o.res.offered.fee(o.res.count, o.d)
}

func (o *extensionOffering) currency() string {
	if o.res.offered == nil {
		return "USD"
	}
	return o.res.offered.Currency
}

type describeExtensionOfferingsInput struct {
	CapacityBlockExtensionDurationHours int
	CapacityReservationId               string
	MaxResults                          *int
	NextToken                           string
}

func (s *Sim) describeExtensionOfferings(c *call, in *describeExtensionOfferingsInput) (any, error) {
	res, err := s.extendable(c.region, in.CapacityReservationId)
	if err != nil {
		return nil, err
	}

	hours := in.CapacityBlockExtensionDurationHours
	if !validHours(hours) {
		return nil, apiErrorf(
			"InvalidParameterValue",
			"Value (%d) for parameter capacityBlockExtensionDurationHours is invalid. "+
				"Specify 1 to 14 days in increments of 24 hours, or more in increments of 168 hours.",
			hours,
		)
	}

	var all []object

	d := time.Duration(hours) * time.Hour
	end := res.end.Add(d)
	sold := res.offered != nil && end.Sub(res.start) <= maxDays*day && res.offered.remaining(res.end, end) >= res.count
	if sold {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", res.ID, wireTime(res.end), d))
		o := &extensionOffering{id: "cbe-0" + hex.EncodeToString(sum[:8]), res: res, end: res.end, d: d}
		c.region.extensions[o.id] = o
		all = append(all, object{
			"CapacityBlockExtensionOfferingId":    o.id,
			"InstanceType":                        res.Type,
			"InstanceCount":                       res.count,
			"AvailabilityZone":                    res.zoneName,
			"AvailabilityZoneId":                  res.zone.id,
			"StartDate":                           res.start,
			"CapacityBlockExtensionStartDate":     o.end,
			"CapacityBlockExtensionEndDate":       o.end.Add(o.d),
			"CapacityBlockExtensionDurationHours": hours,
			"UpfrontFee":                          o.fee(),
			"CurrencyCode":                        o.currency(),
			"Tenancy":                             "default",
			"ZoneType":                            res.zone.kind,
		})
	}

	part, next, err := page(c, listing{MaxResults: in.MaxResults, NextToken: in.NextToken}, 1, 1000, false, all)

	return object{"CapacityBlockExtensionOfferings": part, "NextToken": next}, err
}

// extendable finds a block that can be extended now.
func (s *Sim) extendable(r *region, id string) (*reservation, error) {
	res, err := r.reservation(id)
	if err != nil {
		return nil, err
	}

	left := res.end.Sub(s.now)
	switch {
	case res.kind != kindBlock:
		return nil, apiErrorf("InvalidParameterValue", "The Capacity Reservation '%s' is not a Capacity Block", id)
	case res.shared:
		return nil, apiErrorf(
			"UnauthorizedOperation",
			"You are not authorized to perform this operation: only the owner can extend '%s'",
			id,
		)
	case res.state != "active" && res.state != "scheduled":
		return nil, apiErrorf(
			"InvalidCapacityReservationState",
			"The Capacity Block '%s' is %s; it must be active or scheduled",
			id,
			res.state,
		)
	case left < latestExtension || left > earliestExtension:
		return nil, apiErrorf(
			"InvalidCapacityReservationState",
			"The Capacity Block '%s' can be extended from 56 days to 1 hour before its end",
			id,
		)
	}

	for _, e := range res.extensions {
		if e.status == "payment-pending" {
			return nil, apiErrorf(
				"InvalidCapacityReservationState",
				"The Capacity Block '%s' has an extension whose payment is pending",
				id,
			)
		}
	}

	return res, nil
}

type purchaseExtensionInput struct {
	CapacityBlockExtensionOfferingId string
	CapacityReservationId            string
}

// key stands for an extension where ids are kept: the same can be bought again after a failed payment.
func (e *extension) key() string { return e.id + " " + wireTime(e.purchased) }

func (e *extension) wire() object {
	res := e.res

	return object{
		"CapacityBlockExtensionOfferingId":    e.id,
		"CapacityReservationId":               res.ID,
		"InstanceType":                        res.Type,
		"InstanceCount":                       res.count,
		"AvailabilityZone":                    res.zoneName,
		"AvailabilityZoneId":                  res.zone.id,
		"CapacityBlockExtensionDurationHours": int(e.d.Hours()),
		"CapacityBlockExtensionStatus":        e.status,
		"CapacityBlockExtensionPurchaseDate":  e.purchased,
		"CapacityBlockExtensionStartDate":     e.end,
		"CapacityBlockExtensionEndDate":       e.end.Add(e.d),
		"UpfrontFee":                          e.fee(),
		"CurrencyCode":                        e.currency(),
	}
}

// purchaseExtension sells an extension. There is no client token, but while its payment is pending a
// second one is refused.
func (s *Sim) purchaseExtension(c *call, in *purchaseExtensionInput) (any, error) {
	res, err := s.extendable(c.region, in.CapacityReservationId)
	if err != nil {
		return nil, err
	}

	o := c.region.extensions[in.CapacityBlockExtensionOfferingId]
	if o == nil || o.res != res {
		return nil, apiErrorf(
			"InvalidCapacityBlockExtensionOfferingIdNotFound",
			"The Capacity Block extension offering ID '%s' does not exist",
			in.CapacityBlockExtensionOfferingId,
		)
	}

	end := o.end.Add(o.d)
	if !o.end.Equal(res.end) || res.offered.remaining(res.end, end) < res.count {
		return nil, apiErrorf(
			"InvalidCapacityBlockExtensionOfferingIdExpired",
			"The Capacity Block extension offering '%s' is no longer available",
			in.CapacityBlockExtensionOfferingId,
		)
	}

	e := &extension{extensionOffering: o, purchased: s.now, status: "payment-pending"}
	res.extensions = append(res.extensions, e)
	s.ledger = append(s.ledger,
		Purchase{
			At:            s.now,
			Region:        c.Region,
			Kind:          "extension",
			OfferingID:    o.id,
			ReservationID: res.ID,
			InstanceType:  res.Type,
			Count:         res.count,
			Start:         o.end,
			End:           end,
			Fee:           o.fee(),
			Currency:      o.currency(),
		})
	c.region.hide(e.key(), s.lag.Purchases)
	out := object{"CapacityBlockExtensions": []object{e.wire()}}
	s.later(time.Duration(s.scenario.PaymentDelay), func() {
		if s.unpaid || !res.keepsCapacity() || res.reclaiming {
			e.status = "payment-failed" // the block keeps its old end
			return
		}

		e.status = "payment-succeeded"
		res.end = end
		s.followEnd(c.region, res)
	})

	return out, nil
}

type describeExtensionHistoryInput struct {
	CapacityReservationIds []string
	listing
}

func (s *Sim) describeExtensionHistory(c *call, in *describeExtensionHistoryInput) (any, error) {
	ids := in.CapacityReservationIds

	found, err := byID(
		c.region.visibleReservations(),
		ids,
		func(res *reservation) string { return res.ID },
		reservationNotFound,
	)
	if err != nil {
		return nil, err
	}

	var all []object
	for _, res := range found {
		for _, e := range res.extensions {
			if c.region.isVisible(e.key()) {
				all = append(all, e.wire())
			}
		}
	}

	part, next, err := list(
		c,
		in.listing,
		1,
		1000,
		len(ids) > 0,
		"availability-zone availability-zone-id capacity-block-extension-status "+
			"instance-type capacity-reservation-id capacity-block-extension-offering-id",
		all,
	)

	return object{"CapacityBlockExtensions": part, "NextToken": next}, err
}
