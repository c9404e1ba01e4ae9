package ec2

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// RouteTable says where a subnet's traffic goes.
type RouteTable struct {
	ID, VPC string
	// Main: it is for the subnets of its VPC that no table names.
	Main    bool
	Subnets []string
	Routes  []Route
}

// Route is one of a table's.
type Route struct {
	// To is a CIDR block or a prefix list; Via the id of what it leads to, such as igw-… or nat-….
	To, Via string
	// Gone: what it leads to is no longer there.
	Gone bool
}

// RouteTables describes all route tables of a VPC.
func (c *Client) RouteTables(ctx context.Context, vpc string) ([]RouteTable, error) {
	var all []RouteTable
	for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeRouteTables, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{filter("vpc-id", vpc)}})) {
		if err != nil {
			return nil, fmt.Errorf("describing the route tables of %s in %s: %w", vpc, c.region, err)
		}
		for _, a := range page.RouteTables {
			t := RouteTable{ID: aws.ToString(a.RouteTableId), VPC: aws.ToString(a.VpcId)}
			for _, one := range a.Associations {
				t.Main = t.Main || aws.ToBool(one.Main)
				if id := aws.ToString(one.SubnetId); id != "" {
					t.Subnets = append(t.Subnets, id)
				}
			}
			for _, r := range a.Routes {
				to := cmp.Or(aws.ToString(r.DestinationCidrBlock), aws.ToString(r.DestinationIpv6CidrBlock), aws.ToString(r.DestinationPrefixListId))
				via := cmp.Or(aws.ToString(r.NatGatewayId), aws.ToString(r.TransitGatewayId), aws.ToString(r.VpcPeeringConnectionId), aws.ToString(r.EgressOnlyInternetGatewayId),
					aws.ToString(r.CarrierGatewayId), aws.ToString(r.LocalGatewayId), aws.ToString(r.CoreNetworkArn), aws.ToString(r.InstanceId), aws.ToString(r.NetworkInterfaceId), aws.ToString(r.GatewayId))
				t.Routes = append(t.Routes, Route{To: to, Via: via, Gone: r.State == types.RouteStateBlackhole})
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// Endpoint is a VPC endpoint, by which a service of AWS is reached without a way to the internet.
type Endpoint struct {
	ID string
	// Service is the last word of the service's name: pcs, s3, ec2, logs.
	Service string
	// Gateway: it is reached by route tables. Others are reached in the whole VPC.
	Gateway bool
	// Available: it works. UsualName: the service's usual name leads to it.
	Available, UsualName bool
	RouteTables          []string
	SecurityGroups       []string
}

// Endpoints describes the endpoints of a VPC for services of AWS.
func (c *Client) Endpoints(ctx context.Context, vpc string) ([]Endpoint, error) {
	var all []Endpoint
	for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeVpcEndpoints, &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{filter("vpc-id", vpc)}})) {
		if err != nil {
			return nil, fmt.Errorf("describing the endpoints of %s in %s: %w", vpc, c.region, err)
		}
		for _, a := range page.VpcEndpoints {
			name := aws.ToString(a.ServiceName)
			e := Endpoint{
				ID: aws.ToString(a.VpcEndpointId), Service: name[strings.LastIndex(name, ".")+1:], Gateway: a.VpcEndpointType == types.VpcEndpointTypeGateway,
				// The model has "Available", answers have "available".
				Available: strings.EqualFold(string(a.State), string(types.StateAvailable)), UsualName: aws.ToBool(a.PrivateDnsEnabled), RouteTables: a.RouteTableIds,
			}
			for _, g := range a.Groups {
				e.SecurityGroups = append(e.SecurityGroups, aws.ToString(g.GroupId))
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// SecurityGroup is a security group with its rules.
type SecurityGroup struct {
	ID, VPC string
	Rules   []Rule
}

// Rule lets traffic through: in, unless Out.
type Rule struct {
	Out bool
	// Protocol is tcp, udp or another name or number; -1 for all.
	Protocol string
	// From and To are ports; 0 and 65535 for all.
	From, To int
	// Peer is the other end: a security group, a CIDR block, or a prefix list.
	Peer string
}

func rules(permissions []types.IpPermission, out bool) []Rule {
	var all []Rule
	for _, p := range permissions {
		r := Rule{Out: out, Protocol: aws.ToString(p.IpProtocol), From: int(aws.ToInt32(p.FromPort)), To: 65535}
		if p.ToPort != nil && *p.ToPort >= 0 {
			r.To = int(*p.ToPort)
		}
		add := func(peer *string) {
			r.Peer = aws.ToString(peer)
			all = append(all, r)
		}
		for _, g := range p.UserIdGroupPairs {
			add(g.GroupId)
		}
		for _, one := range p.IpRanges {
			add(one.CidrIp)
		}
		for _, one := range p.Ipv6Ranges {
			add(one.CidrIpv6)
		}
		for _, one := range p.PrefixListIds {
			add(one.PrefixListId)
		}
	}
	return all
}
