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
		return nil, apiErrorf("InvalidParameterValue", "Value (%d) for parameter capacityBlockExtensionDurationHours is invalid. "+
			"Specify 1 to 14 days in increments of 24 hours, or more in increments of 168 hours.", hours)
	}
	var all []object
	d := time.Duration(hours) * time.Hour
	end := res.end.Add(d)
	sold := res.offered != nil && end.Sub(res.start) <= maxDays*day && res.offered.left(res.end, end) >= res.count
	if sold {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", res.ID, wireTime(res.end), d))
		o := &extensionOffering{id: "cbe-0" + hex.EncodeToString(sum[:8]), res: res, end: res.end, d: d}
		c.region.extensions[o.id] = o
		all = append(all, object{
			"CapacityBlockExtensionOfferingId": o.id, "InstanceType": res.Type, "InstanceCount": res.count, "AvailabilityZone": res.zoneName,
			"AvailabilityZoneId": res.zone.id, "StartDate": res.start, "CapacityBlockExtensionStartDate": o.end,
			"CapacityBlockExtensionEndDate": o.end.Add(o.d), "CapacityBlockExtensionDurationHours": hours, "UpfrontFee": o.fee(),
			"CurrencyCode": o.currency(), "Tenancy": "default", "ZoneType": res.zone.kind,
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
	CapacityBlockExtensionOfferingId string
	CapacityReservationId            string
}

// key stands for an extension where ids are kept: the same can be bought again after a failed payment.
func (e *extension) key() string { return e.id + " " + wireTime(e.purchased) }

func (e *extension) wire() object {
	res := e.res
	return object{
		"CapacityBlockExtensionOfferingId": e.id, "CapacityReservationId": res.ID, "InstanceType": res.Type, "InstanceCount": res.count,
		"AvailabilityZone": res.zoneName, "AvailabilityZoneId": res.zone.id, "CapacityBlockExtensionDurationHours": int(e.d.Hours()),
		"CapacityBlockExtensionStatus": e.status, "CapacityBlockExtensionPurchaseDate": e.purchased, "CapacityBlockExtensionStartDate": e.end,
		"CapacityBlockExtensionEndDate": e.end.Add(e.d), "UpfrontFee": e.fee(), "CurrencyCode": e.currency(),
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
		return nil, apiErrorf("InvalidCapacityBlockExtensionOfferingIdNotFound", "The Capacity Block extension offering ID '%s' does not exist", in.CapacityBlockExtensionOfferingId)
	}
	end := o.end.Add(o.d)
	if !o.end.Equal(res.end) || res.offered.left(res.end, end) < res.count {
		return nil, apiErrorf("InvalidCapacityBlockExtensionOfferingIdExpired", "The Capacity Block extension offering '%s' is no longer available", in.CapacityBlockExtensionOfferingId)
	}
	e := &extension{extensionOffering: o, purchased: s.now, status: "payment-pending"}
	res.extensions = append(res.extensions, e)
	s.ledger = append(s.ledger, Purchase{
		At: s.now, Region: c.Region, Kind: "extension", OfferingID: o.id, ReservationID: res.ID, InstanceType: res.Type,
		Count: res.count, Start: o.end, End: end, Fee: o.fee(), Currency: o.currency(),
	})
	c.region.hide(e.key(), s.lag.purchases)
	out := object{"CapacityBlockExtensions": []object{e.wire()}}
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
	CapacityReservationIds []string
	listing
}

func (s *Sim) describeExtensionHistory(c *call, in *describeExtensionHistoryInput) (any, error) {
	ids := in.CapacityReservationIds
	found, err := byID(c.region.shownReservations(), ids, func(res *reservation) string { return res.ID }, reservationNotFound)
	if err != nil {
		return nil, err
	}
	var all []object
	for _, res := range found {
		for _, e := range res.extensions {
			if c.region.shows(e.key()) {
				all = append(all, e.wire())
			}
		}
	}
	part, next, err := list(c, in.listing, 1, 1000, len(ids) > 0, "availability-zone availability-zone-id capacity-block-extension-status "+
		"instance-type capacity-reservation-id capacity-block-extension-offering-id", all)
	return object{"CapacityBlockExtensions": part, "NextToken": next}, err
}
