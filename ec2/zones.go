package ec2

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

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
