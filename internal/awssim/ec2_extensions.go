package awssim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

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
	Hours int    `form:"CapacityBlockExtensionDurationHours"`
	ID    string `form:"CapacityReservationId"`
	paging
}

type wireExtensionOffering struct {
	ID           string `xml:"capacityBlockExtensionOfferingId"`
	Type         string `xml:"instanceType"`
	Count        int    `xml:"instanceCount"`
	Zone         string `xml:"availabilityZone"`
	ZoneID       string `xml:"availabilityZoneId"`
	BlockStart   string `xml:"startDate"`
	Start        string `xml:"capacityBlockExtensionStartDate"`
	End          string `xml:"capacityBlockExtensionEndDate"`
	Hours        int    `xml:"capacityBlockExtensionDurationHours"`
	Fee          string `xml:"upfrontFee"`
	Currency     string `xml:"currencyCode"`
	Tenancy      string `xml:"tenancy"`
	ZoneTypeName string `xml:"zoneType"`
}

func (s *Sim) describeExtensionOfferings(c *call, in *describeExtensionOfferingsInput) (any, error) {
	res, err := s.extendable(c.region, in.ID)
	if err != nil {
		return nil, err
	}
	if !validHours(in.Hours) {
		return nil, apiErrorf("InvalidParameterValue", "Value (%d) for parameter capacityBlockExtensionDurationHours is invalid. "+
			"Specify 1 to 14 days in increments of 24 hours, or more in increments of 168 hours.", in.Hours)
	}
	var all []*extensionOffering
	d := time.Duration(in.Hours) * time.Hour
	end := res.end.Add(d)
	sold := res.offered != nil && end.Sub(res.start) <= maxDays*day && res.offered.left(res.end, end) >= res.count
	if sold {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", res.ID, wireTime(res.end), d))
		o := &extensionOffering{id: "cbe-0" + hex.EncodeToString(sum[:8]), res: res, end: res.end, d: d}
		c.region.extensions[o.id] = o
		all = append(all, o)
	}
	part, next, err := page(c, in.paging, 1, 1000, false, all)
	out := struct {
		Offerings []wireExtensionOffering `xml:"capacityBlockExtensionOfferingSet>item"`
		Next      string                  `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, o := range part {
		out.Offerings = append(out.Offerings, wireExtensionOffering{
			ID: o.id, Type: res.Type, Count: res.count, Zone: res.zoneName, ZoneID: res.zone.id, BlockStart: wireTime(res.start),
			Start: wireTime(o.end), End: wireTime(o.end.Add(o.d)), Hours: in.Hours, Fee: o.fee(), Currency: o.currency(),
			Tenancy: "default", ZoneTypeName: res.zone.kind,
		})
	}
	return out, err
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
		return nil, apiErrorf("UnauthorizedOperation", "You are not authorized to perform this operation: only the owner can extend '%s'", id)
	case res.state != "active" && res.state != "scheduled":
		return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Block '%s' is %s; it must be active or scheduled", id, res.state)
	case left < latestExtension || left > earliestExtension:
		return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Block '%s' can be extended from 56 days to 1 hour before its end", id)
	}
	for _, e := range res.extensions {
		if e.status == "payment-pending" {
			return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Block '%s' has an extension whose payment is pending", id)
		}
	}
	return res, nil
}

type purchaseExtensionInput struct {
	OfferingID    string `form:"CapacityBlockExtensionOfferingId"`
	ReservationID string `form:"CapacityReservationId"`
}

type wireExtension struct {
	OfferingID    string `xml:"capacityBlockExtensionOfferingId"`
	ReservationID string `xml:"capacityReservationId"`
	Type          string `xml:"instanceType"`
	Count         int    `xml:"instanceCount"`
	Zone          string `xml:"availabilityZone"`
	ZoneID        string `xml:"availabilityZoneId"`
	Hours         int    `xml:"capacityBlockExtensionDurationHours"`
	Status        string `xml:"capacityBlockExtensionStatus"`
	Purchased     string `xml:"capacityBlockExtensionPurchaseDate"`
	Start         string `xml:"capacityBlockExtensionStartDate"`
	End           string `xml:"capacityBlockExtensionEndDate"`
	Fee           string `xml:"upfrontFee"`
	Currency      string `xml:"currencyCode"`
}

// key stands for an extension where ids are kept: the same can be bought again after a failed payment.
func (e *extension) key() string { return e.id + " " + wireTime(e.purchased) }

func (e *extension) wire() wireExtension {
	res := e.res
	return wireExtension{
		OfferingID: e.id, ReservationID: res.ID, Type: res.Type, Count: res.count, Zone: res.zoneName, ZoneID: res.zone.id,
		Hours: int(e.d.Hours()), Status: e.status, Purchased: wireTime(e.purchased), Start: wireTime(e.end),
		End: wireTime(e.end.Add(e.d)), Fee: e.fee(), Currency: e.currency(),
	}
}

// purchaseExtension sells an extension. There is no client token, but while its payment is pending a
// second one is refused.
func (s *Sim) purchaseExtension(c *call, in *purchaseExtensionInput) (any, error) {
	res, err := s.extendable(c.region, in.ReservationID)
	if err != nil {
		return nil, err
	}
	o := c.region.extensions[in.OfferingID]
	if o == nil || o.res != res {
		return nil, apiErrorf("InvalidCapacityBlockExtensionOfferingIdNotFound", "The Capacity Block extension offering ID '%s' does not exist", in.OfferingID)
	}
	end := o.end.Add(o.d)
	if !o.end.Equal(res.end) || res.offered.left(res.end, end) < res.count {
		return nil, apiErrorf("InvalidCapacityBlockExtensionOfferingIdExpired", "The Capacity Block extension offering '%s' is no longer available", in.OfferingID)
	}
	e := &extension{extensionOffering: o, purchased: s.now, status: "payment-pending"}
	res.extensions = append(res.extensions, e)
	s.ledger = append(s.ledger, Purchase{
		At: s.now, Region: c.Region, Kind: "extension", OfferingID: o.id, ReservationID: res.ID, InstanceType: res.Type,
		Count: res.count, Start: o.end, End: end, Fee: o.fee(), Currency: o.currency(),
	})
	c.region.hide(e.key(), s.lag.purchases)
	out := struct {
		Extensions []wireExtension `xml:"capacityBlockExtensionSet>item"`
	}{[]wireExtension{e.wire()}}
	s.later(time.Duration(s.scenario.PaymentDelay), func() {
		if s.unpaid || !res.holds() || res.reclaiming {
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
	IDs     []string `form:"CapacityReservationId"`
	Filters []filter `form:"Filter"`
	paging
}

func (s *Sim) describeExtensionHistory(c *call, in *describeExtensionHistoryInput) (any, error) {
	found, err := byID(c.region.shownReservations(), in.IDs, func(res *reservation) string { return res.ID }, reservationNotFound)
	if err != nil {
		return nil, err
	}
	var all []wireExtension
	for _, res := range found {
		for _, e := range res.extensions {
			if c.region.shows(e.key()) {
				all = append(all, e.wire())
			}
		}
	}
	names := filterNames[wireExtension]{values: map[string]func(wireExtension) []string{
		"availability-zone":               one(func(e wireExtension) string { return e.Zone }),
		"availability-zone-id":            one(func(e wireExtension) string { return e.ZoneID }),
		"capacity-block-extension-status": one(func(e wireExtension) string { return e.Status }),
		"instance-type":                   one(func(e wireExtension) string { return e.Type }),
		"capacity-reservation-id":         one(func(e wireExtension) string { return e.ReservationID }),
		"capacity-block-extension-offering-id": one(func(e wireExtension) string {
			return e.OfferingID
		}),
	}}
	if all, err = names.apply(in.Filters, all); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, 1000, len(in.IDs) > 0, all)
	return struct {
		Extensions []wireExtension `xml:"capacityBlockExtensionSet>item"`
		Next       string          `xml:"nextToken,omitempty"`
	}{part, next}, err
}
