package market

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Subnets are the subnets for a cluster's nodes.
type Subnets struct {
	// Own are the subnets that the cluster uses.
	Own []capacity.Subnet
	// byZone and nearByZone are ids by Availability Zone id (R10): own ones, and others of
	// the same VPCs, which the cluster could use.
	byZone, nearByZone map[string][]string
	// Err is set if they are unknown.
	Err error
}

// ReadSubnets describes the subnets of a cluster in the client's region and, on request, the other
// subnets of their VPCs. An error is in the answer.
func ReadSubnets(ctx context.Context, aws *ec2.Client, ids []string, neighbours bool) Subnets {
	var s Subnets
	if s.Own, s.Err = aws.Subnets(ctx, ids); s.Err != nil {
		return s
	}
	s.byZone, s.nearByZone = map[string][]string{}, map[string][]string{}
	isOwn := map[string]bool{}
	for _, n := range s.Own {
		isOwn[n.ID] = true
		s.byZone[n.AZID] = append(s.byZone[n.AZID], n.ID)
	}
	if !neighbours {
		return s
	}
	near, err := aws.VPCSubnets(ctx, ids)
	s.Err = err
	for _, n := range near {
		if !isOwn[n.ID] {
			s.nearByZone[n.AZID] = append(s.nearByZone[n.AZID], n.ID)
		}
	}
	return s
}

// ZoneUse holds a cluster's subnets in one zone; its lists are nil if they are unknown.
type ZoneUse struct {
	Subnets []string
	// Neighbours are subnets of the cluster's VPC that the cluster does not use yet.
	Neighbours []string
}

// In returns the cluster's subnets in a zone. They are unknown until EC2 shows the zone, which can
// take until a block opens.
func (s Subnets) In(azID string) ZoneUse {
	if s.Err != nil || azID == "" {
		return ZoneUse{}
	}
	return ZoneUse{append([]string{}, s.byZone[azID]...), append([]string{}, s.nearByZone[azID]...)}
}

// Rank sorts zones: with a subnet, with a neighbour, without.
func (u ZoneUse) Rank() int {
	switch {
	case len(u.Subnets) > 0:
		return 0
	case len(u.Neighbours) > 0:
		return 1
	}
	return 2
}
