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
	To, Via   string
	Blackhole bool // what it leads to is no longer there
}

// RouteTables describes all route tables of a VPC.
func (c *Client) RouteTables(ctx context.Context, vpc string) ([]RouteTable, error) {
	return listAll(ctx, c, "describing the route tables of "+vpc, c.api.DescribeRouteTables,
		&ec2.DescribeRouteTablesInput{Filters: []types.Filter{filter("vpc-id", vpc)}},
		func(page *ec2.DescribeRouteTablesOutput) (all []RouteTable) {
			for _, a := range page.RouteTables {
				t := RouteTable{ID: aws.ToString(a.RouteTableId), VPC: aws.ToString(a.VpcId)}
				for _, one := range a.Associations {
					t.Main = t.Main || aws.ToBool(one.Main)
					if id := aws.ToString(one.SubnetId); id != "" {
						t.Subnets = append(t.Subnets, id)
					}
				}

				for _, r := range a.Routes {
					to := cmp.Or(aws.ToString(r.DestinationCidrBlock), aws.ToString(r.DestinationIpv6CidrBlock),
						aws.ToString(r.DestinationPrefixListId))
					via := cmp.Or(
						aws.ToString(r.NatGatewayId),
						aws.ToString(r.TransitGatewayId),
						aws.ToString(r.VpcPeeringConnectionId),
						aws.ToString(r.EgressOnlyInternetGatewayId),
						aws.ToString(r.CarrierGatewayId),
						aws.ToString(r.LocalGatewayId),
						aws.ToString(r.CoreNetworkArn),
						aws.ToString(r.InstanceId),
						aws.ToString(r.NetworkInterfaceId),
						aws.ToString(r.GatewayId),
					)
					t.Routes = append(t.Routes,
						Route{To: to, Via: via, Blackhole: r.State == types.RouteStateBlackhole})
				}

				all = append(all, t)
			}

			return all
		})
}

// Endpoint is a VPC endpoint for PCS, by which it is reached without a way to the internet.
type Endpoint struct {
	ID     string
	Serves bool // it is available, and the usual name of PCS leads to it
}

// PCSEndpoints describes the endpoints of a VPC for PCS; an empty list, not nil, if there are none.
func (c *Client) PCSEndpoints(ctx context.Context, vpc string) ([]Endpoint, error) {
	in := &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{filter("vpc-id", vpc)}}

	all, err := listAll(ctx, c, "describing the endpoints of "+vpc, c.api.DescribeVpcEndpoints, in,
		func(page *ec2.DescribeVpcEndpointsOutput) (all []Endpoint) {
			for _, a := range page.VpcEndpoints {
				if strings.HasSuffix(aws.ToString(a.ServiceName), ".pcs") {
					// The model has "Available", answers have "available".
					available := strings.EqualFold(string(a.State), string(types.StateAvailable))
					all = append(all,
						Endpoint{aws.ToString(a.VpcEndpointId), available && aws.ToBool(a.PrivateDnsEnabled)})
				}
			}

			return all
		})
	if err != nil {
		return nil, err
	}

	return append([]Endpoint{}, all...), nil
}

// Rule of a security group lets traffic through between it and another one: in, unless Out.
type Rule struct {
	Out, All bool   // All: whatever the protocol
	Peer     string // the other security group
}

func rules(permissions []types.IpPermission, out bool) (all []Rule) {
	for _, p := range permissions {
		for _, g := range p.UserIdGroupPairs {
			all = append(all, Rule{out, aws.ToString(p.IpProtocol) == "-1", aws.ToString(g.GroupId)})
		}
	}

	return all
}

// Subnet is a subnet with the facts that a launch depends on.
type Subnet struct {
	capacity.Subnet
	VPC    string
	Free   int  // counts the addresses that no network interface has
	Public bool // an instance with one network interface gets a public address, where its launch does not say
}

// PlainSubnets returns subnets without the details of EC2.
func PlainSubnets(detailed []Subnet) (all []capacity.Subnet) {
	for _, s := range detailed {
		all = append(all, s.Subnet)
	}
	return all
}

// Subnets describes subnets by id, in the order of ids. Bad ids are returned in missing and never hide the others (R8);
// err means that EC2 could not be asked.
func (c *Client) Subnets(ctx context.Context, ids []string) (found []Subnet, missing []capacity.Missing, err error) {
	ids = unique(ids)

	bad, err := skipBadIDs(ids, "InvalidSubnetI", func(ids []string) error {
		some, err := c.describeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: ids})
		found = append(found, some...)
		return err
	})
	if err != nil {
		return nil, nil, err
	}

	slices.SortFunc(found, func(a, b Subnet) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })

	for _, id := range ids {
		if bad[id] != nil {
			missing = append(missing, capacity.Missing{ID: id, Err: bad[id]})
		}
	}

	return found, missing, nil
}

// VPCSubnets describes all subnets of VPCs, sorted by id.
func (c *Client) VPCSubnets(ctx context.Context, vpcs ...string) ([]Subnet, error) {
	all, err := c.describeSubnets(ctx,
		&ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("vpc-id", unique(vpcs)...)}})
	slices.SortFunc(all, func(a, b Subnet) int { return strings.Compare(a.ID, b.ID) })

	return all, err
}

func (c *Client) describeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput) ([]Subnet, error) {
	return listAll(ctx, c, "describing subnets", c.api.DescribeSubnets, in,
		func(page *ec2.DescribeSubnetsOutput) (all []Subnet) {
			for _, a := range page.Subnets {
				s := capacity.Subnet{
					ID:   aws.ToString(a.SubnetId),
					AZID: aws.ToString(a.AvailabilityZoneId),
					AZ:   aws.ToString(a.AvailabilityZone),
				}
				all = append(all, Subnet{
					s,
					aws.ToString(a.VpcId),
					int(aws.ToInt32(a.AvailableIpAddressCount)),
					aws.ToBool(a.MapPublicIpOnLaunch),
				})
			}

			return all
		})
}

// Zones maps this account's names of the region's Availability Zones and Local Zones
// to their ids. The answer is kept: the names of an account do not change.
func (c *Client) Zones(ctx context.Context) (map[string]string, error) {
	c.zones.Lock()
	defer c.zones.Unlock()

	if c.zoneIDs != nil {
		return c.zoneIDs, nil
	}
	// All of them, as a block can be in a Local Zone that is not opted in yet.
	out, err := c.api.DescribeAvailabilityZones(ctx,
		&ec2.DescribeAvailabilityZonesInput{AllAvailabilityZones: aws.Bool(true)})
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
