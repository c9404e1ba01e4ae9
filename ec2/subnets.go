package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Subnets describes subnets, in the order of ids. One that does not exist is an error
// with EC2's code InvalidSubnetID.NotFound.
func (c *Client) Subnets(ctx context.Context, ids []string) ([]capacity.Subnet, error) {
	answers, err := c.describeSubnets(ctx, ids)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(answers, func(a, b types.Subnet) int {
		return slices.Index(ids, aws.ToString(a.SubnetId)) - slices.Index(ids, aws.ToString(b.SubnetId))
	})
	return subnets(answers), nil
}

// KnownSubnets describes subnets by id. Bad ids are returned in missing and never hide the others
// (R8); err means that EC2 could not be asked.
func (c *Client) KnownSubnets(ctx context.Context, ids []string) (found []capacity.Subnet, missing []capacity.Missing, err error) {
	bad, err := withoutBad(ids, "InvalidSubnetI", func(ids []string) error {
		some, err := c.Subnets(ctx, ids)
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

// Subnet is a subnet with the facts that a launch depends on.
type Subnet struct {
	capacity.Subnet
	VPC string
	// Free counts the addresses that no network interface has.
	Free int
	// CIDR is the block of its IPv4 addresses.
	CIDR string
	// Public: an instance with one network interface gets a public address, where its launch does not say.
	Public bool
}

// VPCSubnets describes all subnets of the VPCs that the given subnets are in,
// the given ones too, sorted by id.
func (c *Client) VPCSubnets(ctx context.Context, ids []string) ([]Subnet, error) {
	given, err := c.describeSubnets(ctx, ids)
	if err != nil || len(given) == 0 {
		return nil, err
	}
	var vpcs []string
	for _, s := range given {
		vpcs = append(vpcs, aws.ToString(s.VpcId))
	}
	all, err := c.pageSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("vpc-id", unique(vpcs)...)}})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b types.Subnet) int {
		return strings.Compare(aws.ToString(a.SubnetId), aws.ToString(b.SubnetId))
	})
	return detailed(all), nil
}

// DetailedSubnets is KnownSubnets with the facts that a launch depends on, without those that are missing.
func (c *Client) DetailedSubnets(ctx context.Context, ids []string) (found []Subnet, err error) {
	_, err = withoutBad(ids, "InvalidSubnetI", func(ids []string) error {
		some, err := c.describeSubnets(ctx, ids)
		found = append(found, detailed(some)...)
		return err
	})
	return found, err
}

func detailed(answers []types.Subnet) []Subnet {
	all := make([]Subnet, len(answers))
	for i, s := range subnets(answers) {
		a := answers[i]
		all[i] = Subnet{s, aws.ToString(a.VpcId), int(aws.ToInt32(a.AvailableIpAddressCount)), aws.ToString(a.CidrBlock), aws.ToBool(a.MapPublicIpOnLaunch)}
	}
	return all
}

func (c *Client) describeSubnets(ctx context.Context, ids []string) ([]types.Subnet, error) {
	if len(unique(ids)) == 0 {
		return nil, nil
	}
	return c.pageSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: unique(ids)})
}

func (c *Client) pageSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput) ([]types.Subnet, error) {
	var all []types.Subnet
	for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeSubnets, in)) {
		if err != nil {
			return nil, fmt.Errorf("describing subnets in %s: %w", c.region, err)
		}
		all = append(all, page.Subnets...)
	}
	return all, nil
}

func subnets(answers []types.Subnet) []capacity.Subnet {
	var all []capacity.Subnet
	for _, a := range answers {
		all = append(all, capacity.Subnet{ID: aws.ToString(a.SubnetId), AZID: aws.ToString(a.AvailabilityZoneId), AZ: aws.ToString(a.AvailabilityZone)})
	}
	return all
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
