package ec2

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// RouteTable says where a subnet's traffic goes.
type RouteTable struct {
	ID, VPC string
	Main    bool // it is for the subnets of its VPC that no table names
	Subnets []string
	Routes  []Route
}

// Route is one of a table's.
type Route struct {
	// To is a CIDR block or a prefix list; Via the id of what it leads to, such as igw-… or nat-….
	To, Via string
	Gone    bool // what it leads to is no longer there
}

// RouteTables describes all route tables of a VPC.
func (c *Client) RouteTables(ctx context.Context, vpc string) ([]RouteTable, error) {
	return listed(ctx, c, "describing the route tables of "+vpc, c.api.DescribeRouteTables, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{filter("vpc-id", vpc)}}, func(page *ec2.DescribeRouteTablesOutput) (all []RouteTable) {
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
		return all
	})
}

// Endpoint is a VPC endpoint, by which a service of AWS is reached without a way to the internet.
type Endpoint struct {
	ID      string
	Service string // the last word of the service's name: pcs, s3, ec2, logs
	Gateway bool   // it is reached by route tables. Others are reached in the whole VPC.
	// Available: it works. UsualName: the service's usual name leads to it.
	Available, UsualName bool
	RouteTables          []string
	SecurityGroups       []string
}

// Endpoints describes the endpoints of a VPC for services of AWS.
func (c *Client) Endpoints(ctx context.Context, vpc string) ([]Endpoint, error) {
	return listed(ctx, c, "describing the endpoints of "+vpc, c.api.DescribeVpcEndpoints, &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{filter("vpc-id", vpc)}}, func(page *ec2.DescribeVpcEndpointsOutput) (all []Endpoint) {
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
		return all
	})
}

// SecurityGroup is a security group with its rules.
type SecurityGroup struct {
	ID, VPC string
	Rules   []Rule
}

// Rule lets traffic through: in, unless Out.
type Rule struct {
	Out      bool
	Protocol string // tcp, udp or another name or number; -1 for all
	// From and To are ports; 0 and 65535 for all.
	From, To int
	Peer     string // the other end: a security group, a CIDR block, or a prefix list
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

// Subnets describes subnets, in the order of ids. One that does not exist is an error
// with EC2's code InvalidSubnetID.NotFound.
func (c *Client) Subnets(ctx context.Context, ids []string) ([]capacity.Subnet, error) {
	answers, err := c.subnetsOf(ctx, ids)
	slices.SortFunc(answers, func(a, b Subnet) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return plain(answers), err
}

// KnownSubnets describes subnets by id. Bad ids are returned in missing and never hide the others
// (R8); err means that EC2 could not be asked.
func (c *Client) KnownSubnets(ctx context.Context, ids []string) (found []capacity.Subnet, missing []capacity.Missing, err error) {
	all, missing, err := c.DetailedSubnets(ctx, ids)
	return plain(all), missing, err
}

// Subnet is a subnet with the facts that a launch depends on.
type Subnet struct {
	capacity.Subnet
	VPC    string
	Free   int  // counts the addresses that no network interface has
	Public bool // an instance with one network interface gets a public address, where its launch does not say
}

func plain(detailed []Subnet) (all []capacity.Subnet) {
	for _, s := range detailed {
		all = append(all, s.Subnet)
	}
	return all
}

// VPCSubnets describes all subnets of the VPCs that the given subnets are in, the given ones too, sorted by id.
func (c *Client) VPCSubnets(ctx context.Context, ids []string) ([]Subnet, error) {
	given, err := c.subnetsOf(ctx, ids)
	if err != nil || len(given) == 0 {
		return nil, err
	}
	var vpcs []string
	for _, s := range given {
		vpcs = append(vpcs, s.VPC)
	}
	all, err := c.describeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("vpc-id", unique(vpcs)...)}})
	slices.SortFunc(all, func(a, b Subnet) int { return strings.Compare(a.ID, b.ID) })
	return all, err
}

// DetailedSubnets is KnownSubnets with the facts that a launch depends on.
func (c *Client) DetailedSubnets(ctx context.Context, ids []string) (found []Subnet, missing []capacity.Missing, err error) {
	bad, err := withoutBad(ids, "InvalidSubnetI", func(ids []string) error {
		some, err := c.subnetsOf(ctx, ids)
		found = append(found, some...)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, id := range unique(ids) {
		if bad[id] != nil {
			missing = append(missing, capacity.Missing{ID: id, Err: bad[id]})
		}
	}
	return found, missing, nil
}

func (c *Client) subnetsOf(ctx context.Context, ids []string) ([]Subnet, error) {
	if len(unique(ids)) == 0 {
		return nil, nil
	}
	return c.describeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: unique(ids)})
}

func (c *Client) describeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput) ([]Subnet, error) {
	return listed(ctx, c, "describing subnets", c.api.DescribeSubnets, in, func(page *ec2.DescribeSubnetsOutput) (all []Subnet) {
		for _, a := range page.Subnets {
			s := capacity.Subnet{ID: aws.ToString(a.SubnetId), AZID: aws.ToString(a.AvailabilityZoneId), AZ: aws.ToString(a.AvailabilityZone)}
			all = append(all, Subnet{s, aws.ToString(a.VpcId), int(aws.ToInt32(a.AvailableIpAddressCount)), aws.ToBool(a.MapPublicIpOnLaunch)})
		}
		return all
	})
}

// Zones maps this account's names of the region's Availability Zones and Local Zones
// to their ids. The answer is kept: the names of an account do not change.
func (c *Client) Zones(ctx context.Context) (map[string]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.zoneIDs != nil {
		return c.zoneIDs, nil
	}
	// All of them, as a block can be in a Local Zone that is not opted in yet.
	out, err := c.api.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{AllAvailabilityZones: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("describing the Availability Zones of %s: %w", c.region, err)
	}
	ids := map[string]string{}
	for _, z := range out.AvailabilityZones {
		ids[aws.ToString(z.ZoneName)] = aws.ToString(z.ZoneId)
	}
	c.zoneIDs = ids
	return ids, nil
}

// Regions lists the names of the regions that the account can use, sorted. When the
// client's own region does not answer, another one of the partition is asked.
func (c *Client) Regions(ctx context.Context) ([]string, error) {
	names, err := c.regions(ctx)
	if other := capacity.AWSPartitionOf(c.region).Region; err != nil && other != c.region && ctx.Err() == nil {
		if names, otherErr := c.In(other).regions(ctx); otherErr == nil {
			return names, nil
		}
	}
	return names, err
}

func (c *Client) regions(ctx context.Context) ([]string, error) {
	out, err := c.api.DescribeRegions(ctx, &ec2.DescribeRegionsInput{})
	if err != nil {
		return nil, fmt.Errorf("describing regions, in %s: %w", c.region, err)
	}
	var names []string
	for _, r := range out.Regions {
		names = append(names, aws.ToString(r.RegionName))
	}
	slices.Sort(names)
	return names, nil
}
