package awssim

import (
	"crypto/sha256"
	"fmt"
)

type describeReservationTopologyInput struct {
	IDs     []string `form:"CapacityReservationId"`
	Filters []filter `form:"Filter"`
	paging
}

type wireReservationTopology struct {
	ID       string   `xml:"capacityReservationId"`
	State    string   `xml:"state"`
	Type     string   `xml:"instanceType"`
	Group    string   `xml:"groupName,omitempty"`
	Nodes    []string `xml:"networkNodeSet>item"`
	ZoneID   string   `xml:"availabilityZoneId"`
	ZoneName string   `xml:"availabilityZone"`
}

// mostTopologies are reservations of one call: SDK documentation of DescribeCapacityReservationTopology.
const mostTopologies = 10

// describeReservationTopology lists the network nodes of reservations, from the top of the network down. Reservations
// that are neither active nor pending have none. Here reservations of one type and zone share all nodes but the
// lowest.
func (s *Sim) describeReservationTopology(c *call, in *describeReservationTopologyInput) (any, error) {
	if len(in.IDs) > mostTopologies {
		return nil, apiErrorf("InvalidParameterValue", "The maximum number of Capacity Reservation IDs is %d", mostTopologies)
	}
	found, err := byID(c.region.shownReservations(), in.IDs, func(res *reservation) string { return res.ID }, reservationNotFound)
	if err != nil {
		return nil, err
	}
	items := make([]wireReservationTopology, len(found))
	for i, res := range found {
		w := s.wireReservation(c.region, res)
		items[i] = wireReservationTopology{ID: w.ID, State: w.State, Type: w.Type, ZoneID: w.ZoneID, ZoneName: w.Zone}
		if w.State == "active" || w.State == "pending" {
			items[i].Nodes = []string{networkNode(w.ZoneID), networkNode(w.ZoneID, w.Type), networkNode(w.ID)}
		}
	}
	names := filterNames[wireReservationTopology]{values: map[string]func(wireReservationTopology) []string{
		"availability-zone": one(func(w wireReservationTopology) string { return w.ZoneName }),
		"instance-type":     one(func(w wireReservationTopology) string { return w.Type }),
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, mostTopologies, len(in.IDs) > 0, items)
	return struct {
		Reservations []wireReservationTopology `xml:"capacityReservationSet>item"`
		Next         string                    `xml:"nextToken,omitempty"`
	}{part, next}, err
}

// networkNode is the id of a node of the network, as EC2 hashes it for each account.
func networkNode(of ...string) string {
	return fmt.Sprintf("nn-%.17x", sha256.Sum256(fmt.Append(nil, of)))[:20]
}
