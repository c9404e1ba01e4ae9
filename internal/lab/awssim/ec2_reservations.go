package awssim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func (s *Sim) wireReservation(r *region, res *reservation) object {
	w := object{
		"CapacityReservationId":  res.ID,
		"OwnerId":                res.owner,
		"CapacityReservationArn": res.arn(r),
		"AvailabilityZone":       res.zoneName,
		"AvailabilityZoneId":     res.zone.id,
		"InstanceType":           res.Type,
		"InstancePlatform":       res.platform,
		"Tenancy":                res.tenancy,
		"TotalInstanceCount":     0,
		"AvailableInstanceCount": 0,
		"EbsOptimized":           false,
		"EphemeralStorage":       false,
		"State":                  res.state,
		"StartDate":              res.start,
		"EndDate":                res.end,
		"EndDateType":            "unlimited",
		"InstanceMatchCriteria":  res.match,
		"CreateDate":             res.created,
		"ReservationType":        "default",
		"Tags":                   res.tags,
	}
	if !res.end.IsZero() {
		w["EndDateType"] = "limited"
	}

	if !res.committed.IsZero() {
		w["CommitmentInfo"] = object{
			"CommitmentDuration":     int64(res.committed.Sub(res.start).Seconds()),
			"CommitmentEndDate":      res.committed,
			"CommittedInstanceCount": res.count,
		}
	}

	if res.placementGroup != "" {
		w["PlacementGroupArn"] = s.placementGroupARN(r.name, res.placementGroup)
	}

	switch res.state {
	case "active", "pending":
		w["TotalInstanceCount"], w["AvailableInstanceCount"] = res.count, r.available(res)
	case "scheduled", "payment-pending":
		if s.scenario.ScheduledCount {
			w["TotalInstanceCount"] = res.count
		}
	}

	switch res.kind {
	case kindBlock:
		w["ReservationType"] = "capacity-block"
		w["CapacityBlockId"] = res.blockIDs[0]
		if res.ultraServer != "" && !s.scenario.HideLaunchStatus {
			w["LaunchStatus"] = "launchable"
		}
	case kindInterruptible:
		w["Interruptible"] = true
	}

	return w
}

func (res *reservation) arn(r *region) string {
	return fmt.Sprintf("arn:%s:ec2:%s:%s:capacity-reservation/%s", capacity.AWSPartitionOf(r.name).Name, r.name,
		res.owner, res.ID)
}

func (s *Sim) reservationObjects(c *call) (all []object) {
	for _, res := range c.region.visibleReservations() {
		all = append(all, s.wireReservation(c.region, res))
	}
	return all
}

type createCapacityReservationInput struct {
	InstanceType          string
	InstancePlatform      string
	InstanceCount         int
	AvailabilityZone      string
	AvailabilityZoneId    string
	Tenancy               string
	EndDate               time.Time
	EndDateType           string
	InstanceMatchCriteria string
	TagSpecifications     []tagSpecification
	ClientToken           string
}

func (s *Sim) createCapacityReservation(c *call, in *createCapacityReservationInput) (any, error) {
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		z, err := c.region.namedZone(in.AvailabilityZone, in.AvailabilityZoneId)
		if err != nil {
			return nil, err
		}

		if err := s.checkODCR(c.region, z, in); err != nil {
			return nil, err
		}

		tags, err := specifiedTags(in.TagSpecifications, "capacity-reservation")
		if err != nil {
			return nil, err
		}

		now := s.now.Truncate(time.Second)
		res := &reservation{
			ID: s.newID(
				"cr",
			),
			kind:     kindODCR,
			Type:     in.InstanceType,
			zone:     z,
			zoneName: z.name,
			count:    in.InstanceCount,
			state:    "active",
			platform: in.InstancePlatform,
			tenancy:  cmp.Or(in.Tenancy, "default"),
			match:    cmp.Or(in.InstanceMatchCriteria, "open"),
			created:  now,
			start:    now,
			end:      in.EndDate,
			owner:    s.scenario.Account,
			tags:     tags,
		}
		c.region.reservations[res.ID] = res
		c.region.hide(res.ID, s.lag.Reservations)
		s.followEnd(c.region, res)

		if s.lag.Activation != nil { // up to 5 minutes: EC2 User Guide, capacity-reservations-view
			res.state = "pending"
			s.later(time.Duration(*s.lag.Activation), func() {
				if res.state == "pending" {
					res.state = "active"
				}
			})
		}

		return func() (any, error) { return object{"CapacityReservation": s.wireReservation(c.region, res)}, nil }, nil
	})
}

// namedZone returns the zone of a name or an id. What EC2 answers to both is not known.
func (r *region) namedZone(name, id string) (*zone, error) {
	if (name == "") == (id == "") {
		return nil, apiErrorf("InvalidParameterCombination", "Specify either AvailabilityZone or AvailabilityZoneId")
	}

	i := slices.IndexFunc(r.zones, func(z *zone) bool { return z.id == id || z.name == name })
	if i < 0 {
		return nil, apiErrorf("InvalidParameterValue", "Invalid availability zone: [%s]", name+id)
	}

	return r.zones[i], nil
}

func (s *Sim) checkODCR(r *region, z *zone, in *createCapacityReservationInput) error {
	limited := in.EndDateType == "limited"
	switch {
	case r.types[in.InstanceType] == nil:
		return apiErrorf("InvalidParameterValue", "Value (%s) for parameter instanceType is invalid.", in.InstanceType)
	case in.InstanceCount < 1 || in.InstanceCount > 1000:
		return apiErrorf(
			"InvalidParameterValue",
			"Value (%d) for parameter instanceCount is invalid. Expecting a value between 1 and 1000.",
			in.InstanceCount,
		)
	case limited == in.EndDate.IsZero():
		return apiErrorf(
			"InvalidParameterCombination",
			"EndDate must be specified when EndDateType is limited, and only then",
		)
	case limited && !in.EndDate.After(s.now):
		return apiErrorf(
			"InvalidParameterValue",
			"Value (%s) for parameter endDate is invalid. It is in the past.",
			wireTime(in.EndDate),
		)
	case !r.offers(in.InstanceType, z.id):
		return apiErrorf(
			"Unsupported",
			"The requested configuration is not supported: %s in %s",
			in.InstanceType,
			z.name,
		)
	case r.freeCapacity(pool{z.id, in.InstanceType}) < in.InstanceCount:
		return insufficientCapacity(in.InstanceType, z.name, "")
	}

	return nil
}

type cancelCapacityReservationInput struct {
	CapacityReservationId string
}

func (s *Sim) cancelCapacityReservation(c *call, in *cancelCapacityReservationInput) (any, error) {
	res, err := c.region.changeable(in.CapacityReservationId)
	if err != nil {
		return nil, err
	}

	s.finish(c.region, res, "cancelled")

	return object{"Return": true}, nil
}

type modifyCapacityReservationInput struct {
	CapacityReservationId string
	InstanceCount         int
	EndDate               time.Time
	EndDateType           string
}

// modifyCapacityReservation changes the size and the end of an ODCR.
func (s *Sim) modifyCapacityReservation(c *call, in *modifyCapacityReservationInput) (any, error) {
	res, err := c.region.changeable(in.CapacityReservationId)
	if err != nil {
		return nil, err
	}

	count := cmp.Or(in.InstanceCount, res.count)
	switch more := count - res.count; {
	case res.state != "active": // EC2 User Guide, capacity-reservations-modify
		return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Reservation '%s' is %s", res.ID, res.state)
	case count < c.region.used(res):
		return nil, apiErrorf("InvalidParameterValue",
			"Value (%d) for parameter instanceCount is invalid: %d instances run in the Capacity Reservation", count,
			c.region.used(res))
	case more > 0 && c.region.freeCapacity(pool{res.zone.id, res.Type}) < more:
		return nil, insufficientCapacity(res.Type, res.zone.name, "")
	case in.EndDateType == "limited" && !in.EndDate.After(s.now):
		return nil, apiErrorf("InvalidParameterValue",
			"Value (%s) for parameter endDate is invalid. It is in the past.", wireTime(in.EndDate))
	}

	res.count = count
	if in.EndDateType == "limited" {
		res.end = in.EndDate
		s.followEnd(c.region, res)
	}

	// EC2 documents the move into a reservation that is added, not into one that grows.
	for _, g := range c.region.reservationGroups {
		if slices.Contains(g.members, res) {
			c.region.fillGroup(g)
		}
	}

	return object{"Return": true}, nil
}

// changeable finds an ODCR that the account may change.
func (r *region) changeable(id string) (*reservation, error) {
	res, err := r.reservation(id)
	switch {
	case err != nil:
		return nil, err
	case res.shared:
		return nil, apiErrorf(
			"UnauthorizedOperation",
			"You are not authorized to perform this operation: '%s' belongs to account %s",
			id,
			res.owner,
		)
	case res.kind == kindBlock: // SDK documentation of CancelCapacityReservation
		return nil, apiErrorf("UnsupportedOperation", "You can't modify or cancel a Capacity Block")
	// EC2 User Guide, capacity-reservations-release
	case res.state != "active" && res.state != "pending" && res.state != "assessing":
		return nil, apiErrorf("InvalidCapacityReservationState", "The Capacity Reservation '%s' is %s", id, res.state)
	}

	return res, nil
}
