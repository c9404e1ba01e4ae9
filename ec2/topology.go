package ec2

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// EC2 takes so many ids in one call.
const (
	maxInstanceTopologies    = 100
	maxReservationTopologies = 10
)

// InstanceTopology locates instances in the network: the ids of network nodes, from the top down,
// and below them the UltraServer. EC2 leaves out instances that do not run, and types without
// topology. A bad id never hides the others (R8).
func (c *Client) InstanceTopology(ctx context.Context, ids []string) (map[string][]string, error) {
	return topology(ids, maxInstanceTopologies, "InvalidInstanceID", func(ids []string, found map[string][]string) error {
		out, err := c.api.DescribeInstanceTopology(ctx, &ec2.DescribeInstanceTopologyInput{InstanceIds: ids})
		if err != nil {
			return fmt.Errorf("reading where instances are in the network of %s: %w", c.region, err)
		}
		for _, i := range out.Instances {
			path := slices.Clone(i.NetworkNodes)
			if block := aws.ToString(i.CapacityBlockId); block != "" && len(path) > 0 {
				path = append(path, block)
			}
			found[aws.ToString(i.InstanceId)] = path
		}
		return nil
	})
}

// ReservationTopology locates reservations in the network: the ids of network nodes, from the top
// down. EC2 leaves out reservations that are neither active nor pending, and types without
// topology. A bad id never hides the others (R8).
func (c *Client) ReservationTopology(ctx context.Context, ids []string) (map[string][]string, error) {
	return topology(ids, maxReservationTopologies, badReservationID, func(ids []string, found map[string][]string) error {
		out, err := c.api.DescribeCapacityReservationTopology(ctx, &ec2.DescribeCapacityReservationTopologyInput{CapacityReservationIds: ids})
		if err != nil {
			return fmt.Errorf("reading where reservations are in the network of %s: %w", c.region, err)
		}
		for _, r := range out.CapacityReservations {
			found[aws.ToString(r.CapacityReservationId)] = r.NetworkNodes
		}
		return nil
	})
}

func topology(ids []string, most int, badPrefix string, ask func(ids []string, found map[string][]string) error) (map[string][]string, error) {
	found := map[string][]string{}
	for some := range slices.Chunk(unique(ids), most) {
		if _, err := withoutBad(some, badPrefix, func(ids []string) error { return ask(ids, found) }); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(found, func(_ string, path []string) bool { return len(path) == 0 })
	return found, nil
}
