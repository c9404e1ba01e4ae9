package awssim

import (
	"cmp"
	"slices"
	"time"
)

const (
	interruptionType = "adhoc" // the only one there is
	// interruptionNotice is how long the instances of a shrinking interruptible reservation have left
	// (EC2 User Guide, interruptible Capacity Reservations).
	interruptionNotice = 2 * time.Minute
)

// allocation is the part of an ODCR lent to an interruptible reservation.
type allocation struct {
	source, to *reservation
	target     int    // the number that the owner asked to lend
	status     string // active, updating, canceled
	zeroSize   string // retain, default
}

// lend ties an interruptible reservation to its source.
func lend(source, to *reservation) *allocation {
	a := &allocation{source: source, to: to, target: to.count, status: "active"}
	source.allocation, to.allocation = a, a
	return a
}

// lent counts the places of an ODCR that an interruptible reservation has.
func (res *reservation) lent() int {
	if a := res.allocation; a != nil && a.source == res && a.to.holds() {
		return a.to.count
	}
	return 0
}

type createAllocationInput struct {
	CapacityReservationId string
	InstanceCount         int
	TagSpecifications     []tagSpecification `form:"TagSpecification"`
	ZeroSizePreference    string
	ClientToken           string
}

type wireAllocation struct {
	ID     string `xml:"interruptibleCapacityReservationId,omitempty"` // the answer of Create has none
	Source string `xml:"sourceCapacityReservationId"`
	Count  *int   `xml:"instanceCount"` // nor this
	Target int    `xml:"targetInstanceCount"`
	Status string `xml:"status"`
	Type   string `xml:"interruptionType"`
}

func (s *Sim) createAllocation(c *call, in *createAllocationInput) (any, error) {
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		source, err := c.region.changeable(in.CapacityReservationId)
		if err != nil {
			return nil, err
		}
		tags, err := specifiedTags(in.TagSpecifications, "capacity-reservation")
		if err != nil {
			return nil, err
		}
		switch {
		case source.state != "active" || !source.end.IsZero():
			return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Reservation '%s' must be active and have no end date", source.ID)
		case source.allocation != nil && source.allocation.to.holds():
			return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Reservation '%s' has an interruptible allocation already", source.ID)
		case in.InstanceCount < 1 || in.InstanceCount > c.region.available(source):
			return nil, apiErrorf("InvalidParameterValue", "Value (%d) for parameter instanceCount is invalid: %d are available",
				in.InstanceCount, c.region.available(source))
		}
		now := s.now.Truncate(time.Second)
		to := &reservation{
			ID: s.newID("cr"), kind: kindInterruptible, Type: source.Type, zone: source.zone, zoneName: source.zoneName,
			count: in.InstanceCount, state: "active", platform: source.platform, tenancy: source.tenancy, match: "targeted",
			created: now, start: now, owner: source.owner, tags: tags,
		}
		c.region.reservations[to.ID] = to
		c.region.hide(to.ID, s.lag.reservations)
		a := lend(source, to)
		a.zeroSize = cmp.Or(in.ZeroSizePreference, "default")
		return func() (any, error) {
			return wireAllocation{Source: source.ID, Target: a.target, Status: a.status, Type: interruptionType}, nil
		}, nil
	})
}

type updateAllocationInput struct {
	CapacityReservationId string
	TargetInstanceCount   *int
	ZeroSizePreference    string
}

func (s *Sim) updateAllocation(c *call, in *updateAllocationInput) (any, error) {
	source, err := c.region.changeable(in.CapacityReservationId)
	if err != nil {
		return nil, err
	}
	a := source.allocation
	if a == nil || !a.to.holds() {
		return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Reservation '%s' has no interruptible allocation", source.ID)
	}
	a.zeroSize = cmp.Or(in.ZeroSizePreference, a.zeroSize)
	if in.TargetInstanceCount != nil {
		want := *in.TargetInstanceCount
		if want < 0 || want-a.to.count > c.region.available(source) {
			return nil, apiErrorf("InvalidParameterValue", "Value (%d) for parameter targetInstanceCount is invalid", want)
		}
		s.resize(c.region, a, want)
	}
	return wireAllocation{a.to.ID, source.ID, &a.to.count, a.target, a.status, interruptionType}, nil
}

// resize changes the part lent: unused places at once, used ones after the notice.
func (s *Sim) resize(r *region, a *allocation, want int) {
	a.target = want
	used := r.used(a.to)
	a.to.count = max(want, used)
	if want >= used {
		a.settle()
		return
	}
	a.status = "updating"
	for _, i := range a.lastOf(r, used-want) {
		s.emit(Interrupted, "", i)
	}
	s.at(s.now.Add(interruptionNotice), func() {
		if a.target != want {
			return // changed again since
		}
		for _, i := range a.lastOf(r, r.used(a.to)-want) {
			s.terminate(r, i, "Server.InterruptibleCapacityReservationReclaimed")
			i.seat = nil
		}
		a.to.count = want
		a.settle()
	})
}

// lastOf are so many of the instances in the interruptible reservation, the newest first.
func (a *allocation) lastOf(r *region, count int) []*instance {
	newest := slices.DeleteFunc(r.byLaunch(), func(i *instance) bool { return i.seat != a.to })
	slices.Reverse(newest)
	return newest[:max(0, min(count, len(newest)))]
}

// settle ends an update; an empty reservation is cancelled unless it is to be retained.
func (a *allocation) settle() {
	a.status = "active"
	if a.target == 0 && a.zeroSize != "retain" {
		a.status, a.to.state = "canceled", "cancelled"
	}
}
