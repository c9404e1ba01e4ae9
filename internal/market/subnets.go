package market

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Subnets are the subnets for a cluster's nodes.
type Subnets struct {
	Own []capacity.Subnet // the subnets that the cluster uses
	// byZone and nearByZone are ids by Availability Zone id (R10): own ones, and others of
	// the same VPCs, which the cluster could use.
	byZone, nearByZone map[string][]string
	Err                error // set if they are unknown
}

// ReadSubnets describes the subnets of a cluster in the client's region and, on request, the other
// subnets of their VPCs. An error is in the answer.
func ReadSubnets(ctx context.Context, aws *ec2.Client, ids []string, neighbours bool) Subnets {
	own, missing, err := aws.Subnets(ctx, ids)
	if err == nil && len(missing) > 0 {
		err = missing[0].Err
	}

	if err != nil {
		return Subnets{Err: err}
	}

	s := Subnets{Own: ec2.PlainSubnets(own), byZone: map[string][]string{}, nearByZone: map[string][]string{}}
	isOwn := map[string]bool{}

	var vpcs []string
	for _, n := range own {
		isOwn[n.ID], vpcs = true, append(vpcs, n.VPC)
		s.byZone[n.AZID] = append(s.byZone[n.AZID], n.ID)
	}

	if !neighbours || len(vpcs) == 0 {
		return s
	}

	near, err := aws.VPCSubnets(ctx, vpcs...)
	s.Err = err
	for _, n := range near {
		if !isOwn[n.ID] {
			s.nearByZone[n.AZID] = append(s.nearByZone[n.AZID], n.ID)
		}
	}

	return s
}
