package ec2

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// maxInstanceTopologies is how many instances one DescribeInstanceTopology takes.
const maxInstanceTopologies = 100

// InstanceTopology locates instances in the network: the ids of network nodes, from the top down,
// and below them the UltraServer. EC2 leaves out instances that do not run, and types without
// topology. A bad id never hides the others (R8).
func (c *Client) InstanceTopology(ctx context.Context, ids []string) (map[string][]string, error) {
	found := map[string][]string{}
	for some := range slices.Chunk(unique(ids), maxInstanceTopologies) {
		_, err := withoutBad(some, "InvalidInstanceID", func(ids []string) error {
			out, err := c.api.DescribeInstanceTopology(ctx, &ec2.DescribeInstanceTopologyInput{InstanceIds: ids})
			if err != nil {
				return fmt.Errorf("reading where instances are in the network of %s: %w", c.region, err)
			}
			for _, i := range out.Instances {
				if len(i.NetworkNodes) > 0 {
					path := slices.Clone(i.NetworkNodes)
					if block := aws.ToString(i.CapacityBlockId); block != "" {
						path = append(path, block)
					}
					found[aws.ToString(i.InstanceId)] = path
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// maxTopologies is how many reservations one DescribeCapacityReservationTopology takes.
const maxTopologies = 10

// ReservationTopology locates reservations in the network: the ids of network nodes, from the top
// down. EC2 leaves out reservations that are neither active nor pending, and types without
// topology. A bad id never hides the others (R8).
func (c *Client) ReservationTopology(ctx context.Context, ids []string) (map[string][]string, error) {
	found := map[string][]string{}
	for some := range slices.Chunk(unique(ids), maxTopologies) {
		_, err := withoutBad(some, badReservationID, func(ids []string) error {
			out, err := c.api.DescribeCapacityReservationTopology(ctx, &ec2.DescribeCapacityReservationTopologyInput{CapacityReservationIds: ids})
			if err != nil {
				return fmt.Errorf("reading where reservations are in the network of %s: %w", c.region, err)
			}
			for _, r := range out.CapacityReservations {
				if len(r.NetworkNodes) > 0 {
					found[aws.ToString(r.CapacityReservationId)] = r.NetworkNodes
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
