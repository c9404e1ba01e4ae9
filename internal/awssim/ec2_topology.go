package awssim

import (
	"crypto/sha256"
	"fmt"
)

type describeReservationTopologyInput struct {
	CapacityReservationIds []string
	listing
}

// mostTopologies are reservations of one call: SDK documentation of DescribeCapacityReservationTopology.
const mostTopologies = 10

// describeReservationTopology lists the network nodes of reservations, from the top of the network down. Reservations
// that are neither active nor pending have none. Here reservations of one type and zone share all nodes but the
// lowest.
func (s *Sim) describeReservationTopology(c *call, in *describeReservationTopologyInput) (any, error) {
	if len(in.CapacityReservationIds) > mostTopologies {
		return nil, apiErrorf("InvalidParameterValue", "The maximum number of Capacity Reservation IDs is %d", mostTopologies)
	}
	found, err := byID(c.region.shownReservations(), in.CapacityReservationIds, func(res *reservation) string { return res.ID }, reservationNotFound)
	if err != nil {
		return nil, err
	}
	var all []object
	for _, res := range found {
		w := s.wireReservation(c.region, res)
		zone, _ := w["AvailabilityZoneId"].(string)
		one := object{"CapacityReservationId": res.ID, "State": res.state, "InstanceType": res.Type, "AvailabilityZoneId": zone, "AvailabilityZone": w["AvailabilityZone"]}
		if res.state == "active" || res.state == "pending" {
			one["NetworkNodes"] = []string{networkNode(zone), networkNode(zone, res.Type), networkNode(res.ID)}
		}
		all = append(all, one)
	}
	part, next, err := list(c, in.listing, 1, mostTopologies, len(in.CapacityReservationIds) > 0, "availability-zone instance-type", all)
	return object{"CapacityReservations": part, "NextToken": next}, err
}

// networkNode is the id of a node of the network, as EC2 hashes it for each account.
func networkNode(of ...string) string {
	return fmt.Sprintf("nn-%.17x", sha256.Sum256(fmt.Append(nil, of)))[:20]
}
