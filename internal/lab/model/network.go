package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Subnets returns those of VPC; another one is in the zone that the end of its name says: subnet-a in use2-az1,
// subnet-b in use2-az2.
func (e *EC2) Subnets(_ context.Context, ids []string) (found []ec2.Subnet, missing []capacity.Missing, err error) {
	found, err = read(e, "describe subnets", "", func() (all []ec2.Subnet) {
		for _, id := range ids {
			if s := checkName(e.VPC, func(s ec2.Subnet) bool { return s.ID == id }); s != nil {
				all = append(all, *s)
				continue
			}

			zone := id[len(id)-1:]
			all = append(all, ec2.Subnet{Subnet: capacity.Subnet{
				ID:   id,
				AZID: fmt.Sprintf("use2-az%d", zone[0]-'a'+1),
				AZ:   e.Region() + zone,
			}})
		}

		return all
	})

	return found, nil, err
}

// VPCSubnets returns VPC.
func (e *EC2) VPCSubnets(context.Context, ...string) ([]ec2.Subnet, error) {
	return read(e, "describe the subnets of a VPC", "", func() []ec2.Subnet { return slices.Clone(e.VPC) })
}

// RouteTables returns one that leads out of the VPC.
func (e *EC2) RouteTables(_ context.Context, vpc string) ([]ec2.RouteTable, error) {
	return read(e, "describe route tables", vpc, func() []ec2.RouteTable {
		return []ec2.RouteTable{{VPC: vpc, Main: true, Routes: []ec2.Route{{To: "0.0.0.0/0", Via: "nat-1"}}}}
	})
}

// PCSEndpoints returns none.
func (e *EC2) PCSEndpoints(_ context.Context, vpc string) ([]ec2.Endpoint, error) {
	return read(e, "describe endpoints", vpc, func() []ec2.Endpoint { return []ec2.Endpoint{} })
}

// SecurityGroups returns groups that let all traffic through to themselves.
func (e *EC2) SecurityGroups(_ context.Context, ids []string) (map[string][]ec2.Rule, error) {
	return read(e, "describe security groups", "", func() map[string][]ec2.Rule {
		rules := map[string][]ec2.Rule{}
		for _, id := range ids {
			rules[id] = []ec2.Rule{{All: true, Peer: id}, {Out: true, All: true, Peer: id}}
		}

		return rules
	})
}
