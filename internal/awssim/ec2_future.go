package awssim

import (
	"strings"
	"time"
)

// EC2's conditions for a future-dated ODCR (EC2 API Reference, CreateCapacityReservation; EC2 User Guide,
// "Future-dated Capacity Reservations"). Its error codes are not documented.
const (
	futureEarliest    = 5 * 24 * time.Hour
	futureLatest      = 120 * 24 * time.Hour
	futureCommitment  = 14 * 24 * time.Hour
	maxCommitment     = 200000000 // seconds, in EC2's model
	futureVCPUs       = 32
	futureFamilies    = "cmritg"
	invalidParameters = "InvalidParameterCombination"
)

// future tells whether a request is for a future-dated ODCR.
func (in *createCapacityReservationInput) future() bool {
	return !in.StartDate.IsZero() || in.CommitmentDuration != 0 || in.DeliveryPreference != ""
}

func (s *Sim) checkFuture(t *instanceType, in *createCapacityReservationInput) error {
	lead, length := in.StartDate.Sub(s.now), time.Duration(in.CommitmentDuration)*time.Second
	family := t.Name[:max(0, strings.IndexAny(t.Name, "0123456789"))]
	invalid := func(name string, value any, want string) error {
		return apiErrorf("InvalidParameterValue", "Value (%v) for parameter %s is invalid. %s", value, name, want)
	}
	switch {
	case in.StartDate.IsZero() || in.CommitmentDuration == 0 || in.DeliveryPreference == "":
		return apiErrorf("MissingParameter", "A future-dated Capacity Reservation must contain the parameters StartDate, CommitmentDuration and DeliveryPreference")
	case in.DeliveryPreference != "incremental":
		return invalid("deliveryPreference", in.DeliveryPreference, "Expecting incremental.")
	case in.InstanceMatchCriteria != "targeted":
		return apiErrorf(invalidParameters, "A future-dated Capacity Reservation must be targeted")
	case in.PlacementGroupArn != "":
		return apiErrorf(invalidParameters, "A future-dated Capacity Reservation can have no placement group")
	case len(family) != 1 || !strings.Contains(futureFamilies, family):
		return invalid("instanceType", in.InstanceType, "It is not supported for future-dated Capacity Reservations.")
	case in.InstanceCount*t.VCPUs < futureVCPUs:
		return invalid("instanceCount", in.InstanceCount, "A future-dated Capacity Reservation needs at least 32 vCPUs.")
	case lead < futureEarliest || lead > futureLatest:
		return invalid("startDate", wireTime(in.StartDate), "Expecting a time from 5 to 120 days ahead.")
	case in.CommitmentDuration > maxCommitment || length < futureCommitment:
		return invalid("commitmentDuration", in.CommitmentDuration, "Expecting at least 14 days.")
	case !in.EndDate.IsZero() && !in.EndDate.After(in.StartDate.Add(length)):
		return invalid("endDate", wireTime(in.EndDate), "It is within the commitment duration.")
	}
	return nil
}

// promise has EC2 assess an ODCR for later: it is scheduled if there is room for it, and opens
// at its start; else it is unsupported.
func (s *Sim) promise(c *call, res *reservation, in *createCapacityReservationInput) {
	res.state, res.start = "assessing", in.StartDate
	res.committed = in.StartDate.Add(time.Duration(in.CommitmentDuration) * time.Second)
	s.ledger = append(s.ledger, Purchase{At: s.now, Region: c.Region, Kind: "commitment", ReservationID: res.ID,
		InstanceType: res.Type, Count: res.count, Start: res.start, End: res.committed})
	s.later(time.Duration(s.scenario.AssessDelay), func() {
		switch {
		case res.state != "assessing":
		case c.region.freeCapacity(pool{res.zone.id, res.Type}) < res.count:
			res.state, res.closed = "unsupported", s.now
		default:
			s.begin(c.region, res)
		}
	})
}
