package awssim

import (
	"crypto/sha256"
	"fmt"
)

// reservationTopologies are the network nodes of reservations, from the top of the network down. Reservations
// that are neither active nor pending have none. Here reservations of one type and zone share all nodes but the
// lowest.
func (s *Sim) reservationTopologies(c *call) (all []object) {
	for _, res := range c.region.shownReservations() {
		w := s.wireReservation(c.region, res)
		zone, _ := w["AvailabilityZoneId"].(string)
		one := object{"CapacityReservationId": res.ID, "State": res.state, "InstanceType": res.Type, "AvailabilityZoneId": zone, "AvailabilityZone": w["AvailabilityZone"]}
		if res.state == "active" || res.state == "pending" {
			one["NetworkNodes"] = []string{networkNode(zone), networkNode(zone, res.Type), networkNode(res.ID)}
		}
		all = append(all, one)
	}
	return all
}

// networkNode is the id of a node of the network, as EC2 hashes it for each account.
func networkNode(of ...string) string {
	return fmt.Sprintf("nn-%.17x", sha256.Sum256(fmt.Append(nil, of)))[:20]
}
