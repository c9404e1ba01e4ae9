package awssim

import (
	"net/http"
	"slices"
)

// seats finds a place for each instance of an order: a reservation, or nil for one that runs on
// demand. It returns between o.min and o.max places, or an error.
func (r *region) seats(o launchOrder, at site) ([]*reservation, error) {
	target := o.target()
	if target.CapacityReservationId != "" {
		return r.targetSeats(o, at, target.CapacityReservationId)
	}

	if err := r.checkTarget(o, at); err != nil {
		return nil, err
	}

	var seats []*reservation
	if arn := target.CapacityReservationResourceGroupArn; arn != "" {
		seats = r.freeSeats(r.reservationGroup(arn).targets(r), at, o.max)
	} else if o.preference() != "none" {
		seats = r.freeSeats(r.openReservations(), at, o.max)
	}

	// Nothing runs on demand, however much room there is.
	if o.preference() == "capacity-reservations-only" {
		if len(seats) < o.min {
			return nil, reservationExceeded()
		}
		return seats, nil
	}

	// What the reservations have left open goes to instances on demand.
	free := r.freeCapacity(pool{at.subnet.zone.id, at.kind.Name})
	for len(seats) < o.max && free > 0 {
		seats = append(seats, nil)
		free--
	}

	if len(seats) < o.min {
		return nil, insufficientCapacity(at.kind.Name, at.subnet.zone.name, r.otherZones(at))
	}

	return seats, nil
}

// targetSeats takes places of the one reservation that the order names.
func (r *region) targetSeats(o launchOrder, at site, id string) ([]*reservation, error) {
	res, err := r.openTarget(o, at, id)
	if err != nil {
		return nil, err
	}
	// One code for a full reservation and for one that does not fit: its message says "compatible and available".
	n := min(o.max, r.available(res))
	if n < o.min || !res.accepts(at) || res.reclaiming {
		return nil, reservationExceeded()
	}

	seats := make([]*reservation, n)
	for i := range seats {
		seats[i] = res
	}

	return seats, nil
}

// checkTarget refuses a launch into a reservation that takes none of its kind.
func (r *region) checkTarget(o launchOrder, at site) error {
	target := o.target()
	if target.CapacityReservationId == "" {
		if m := o.marketType(); m == "capacity-block" || m == "interruptible-capacity-reservation" {
			return wrongMarket()
		}

		if arn := target.CapacityReservationResourceGroupArn; arn != "" && r.reservationGroup(arn) == nil {
			// EC2 documents no code for this case.
			return apiErrorf("InvalidParameterValue", "The Capacity Reservation resource group '%s' does not exist", arn)
		}

		return nil
	}

	res, err := r.openTarget(o, at, target.CapacityReservationId)
	if err == nil && (!res.accepts(at) || res.reclaiming) {
		err = reservationExceeded()
	}

	return err
}

// openTarget returns the reservation that the order names, if it takes launches of this market type now.
func (r *region) openTarget(o launchOrder, at site, id string) (*reservation, error) {
	res, err := r.reservation(id)
	if err != nil {
		return nil, err
	}

	if market := o.marketType(); market != res.market() && !(market == "on-demand" && res.market() == "") {
		return nil, wrongMarket()
	}

	if res.kind == kindBlock && at.placementGroup != "" { // EC2 User Guide: a block needs none; the code is a guess
		return nil, apiErrorf(
			"InvalidParameterCombination",
			"A placement group cannot be used with the Capacity Block '%s'",
			id,
		)
	}

	switch res.state {
	case "active", "pending": // EC2 may let launches into a pending ODCR: capacity-reservations-view
	case "scheduled", "payment-pending", "assessing", "delayed":
		return nil, apiErrorf(
			"InvalidCapacityReservationState.PendingActivation",
			"Your Capacity Block is not active yet",
		)
	default: // EC2 documents no code for this case
		return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Reservation '%s' is %s", id, res.state)
	}

	return res, nil
}

// openReservations lists the open ODCRs, oldest first.
func (r *region) openReservations() []*reservation {
	return slices.DeleteFunc(r.byCreation(), func(res *reservation) bool {
		return res.kind != kindODCR || res.match != "open"
	})
}

// freeSeats takes up to most places of reservations that match a launch, in their order.
func (r *region) freeSeats(from []*reservation, at site, most int) []*reservation {
	var seats []*reservation
	for _, res := range from {
		if res.state != "active" || !res.accepts(at) {
			continue
		}

		for n := r.available(res); n > 0 && len(seats) < most; n-- {
			seats = append(seats, res)
		}
	}

	return seats
}

// accepts reports whether a launch has the attributes of the reservation. Zones are compared by id:
// names differ between accounts (EC2 User Guide, capacity-reservation-sharing). An ODCR that was made
// in a cluster placement group takes launches in that group only (EC2 User Guide, cr-cpg).
func (res *reservation) accepts(at site) bool {
	return res.Type == at.kind.Name && res.zone.id == at.subnet.zone.id && res.platform == at.platform &&
		res.tenancy == at.tenancy && (res.placementGroup == "" || res.placementGroup == at.placementGroup)
}

// market returns the market type with which a launch into the reservation must come.
func (res *reservation) market() string {
	switch res.kind {
	case kindBlock:
		return "capacity-block"
	case kindInterruptible:
		return "interruptible-capacity-reservation"
	}

	return ""
}

// used counts the places taken by instances, also by those whose place is still being cleaned.
func (r *region) used(res *reservation) int {
	n := 0
	for _, i := range r.instances {
		if i.seat == res {
			n++
		}
	}

	return n
}

// available counts the instances that can be launched into a reservation: no place is on a dead host.
func (r *region) available(res *reservation) int {
	onDeadHosts := 0
	for _, i := range r.instances {
		if i.seat == res && i.HostFailed {
			onDeadHosts++
		}
	}

	return max(0, res.count-r.used(res)-(res.deadHosts-onDeadHosts))
}

// freeCapacity returns EC2's free capacity for launches on demand and for new ODCRs.
func (r *region) freeCapacity(p pool) int {
	free := r.capacity[p]
	for _, res := range r.reservations {
		if res.kind == kindODCR && res.keepsCapacity() && res.Type == p.instanceType && res.zone.id == p.zoneID &&
			!res.shared {
			free -= res.count
		}
	}

	for _, i := range r.instances {
		if i.seat == nil && i.State != stateTerminated && i.Type == p.instanceType && i.subnet.zone.id == p.zoneID {
			free--
		}
	}

	return free
}

func wrongMarket() error { // message as in terraform-aws-modules/terraform-aws-ec2-instance, pull request 404
	return apiErrorf("InvalidParameterValue",
		"The market type (purchasing) option is not valid. Choose a different market type and try again")
}

func reservationExceeded() error { // message as in hashicorp/terraform-provider-aws, pull request 35745
	return apiErrorf("ReservationCapacityExceeded",
		"The requested reservation does not have sufficient compatible and available capacity for this request.")
}

// insufficientCapacity returns the error that AWS lists under the server errors of EC2's error codes, hence status 500.
func insufficientCapacity(instanceType, zoneName, hint string) error {
	e := apiErrorf("InsufficientInstanceCapacity",
		"We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). "+
			"Our system will be working on provisioning additional capacity.%s", instanceType, zoneName, hint)
	e.Status = http.StatusInternalServerError

	return e
}
