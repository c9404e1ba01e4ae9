package ec2

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// maxTopologies is how many reservations one DescribeCapacityReservationTopology takes.
const maxTopologies = 10

// ReservationTopology is where reservations are in the network: the ids of network nodes, from
// the top down. Those that EC2 does not tell of are missing: of other types than those of
// which EC2 knows, and reservations that are neither active nor pending. A bad id never hides
// the others (R8).
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
