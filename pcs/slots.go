package pcs

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// TemplateName is the name of the launch template of a slot.
func TemplateName(cluster, slot string) string { return "pcs-capacity-" + cluster + "-" + slot }

// PCS writes these on the instances of a node group: the ids of its cluster and of the
// node group.
const (
	TagClusterID   = "aws:pcs:cluster-id"
	TagNodeGroupID = "aws:pcs:compute-node-group-id"
)

// Slot holds the facts about a compute node group that a pass of the control loop needs.
type Slot struct {
	Name string
	// ReservationID is the reservation that the group was set up for, from our tag; "" without the
	// tag, as for a group that is not ours.
	ReservationID string
}

// Slots reads the reservations that the cluster's compute node groups of these names were set up
// for. Names without a node group are left out. It lists the cluster once, and reads the tags of
// each group found.
func (c *Client) Slots(ctx context.Context, cluster string, names []string) ([]Slot, error) {
	owner, err := c.Cluster(ctx, cluster) // our mark has its name; cluster may be its id
	if err != nil {
		return nil, err
	}
	var slots []Slot
	in := &pcs.ListComputeNodeGroupsInput{ClusterIdentifier: aws.String(owner.ID)}
	for pages := pcs.NewListComputeNodeGroupsPaginator(c.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the compute node groups of %s: %w", cluster, err)
		}
		for _, g := range page.ComputeNodeGroups {
			slot := Slot{Name: str(g.Name)}
			if Status(g.Status) == Deleted || !slices.Contains(names, slot.Name) {
				continue
			}
			tags, err := c.tags(ctx, str(g.Arn))
			if NotFound(err) { // deleted since
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading the tags of compute node group %s: %w", slot.Name, err)
			}
			if owner.Ours(tags) {
				slot.ReservationID = tags[capacity.TagReservation]
			}
			slots = append(slots, slot)
		}
	}
	return slots, nil
}

// Made lists the cluster's compute node groups and queues with our tag, without the ones that PCS
// is deleting. It lists each kind once, and reads the tags of each thing found.
func (c *Client) Made(ctx context.Context, cluster Cluster) ([]capacity.Made, error) {
	var all []capacity.Made
	add := func(what, name, id, arn string, status Status) error {
		if status == Deleting || status == Deleted {
			return nil
		}
		tags, err := c.tags(ctx, arn)
		switch {
		case NotFound(err): // deleted since
			return nil
		case err != nil:
			return fmt.Errorf("reading the tags of %s %s: %w", what, name, err)
		case !cluster.Ours(tags):
			return nil
		}
		m := capacity.Made{What: what, Name: name, ID: id, Queue: name}
		if what == capacity.MadeNodeGroup {
			m.Slot, m.Queue, m.Reservation = name, tags[capacity.TagPartition], tags[capacity.TagReservation]
		}
		all = append(all, m)
		return nil
	}
	groups := pcs.NewListComputeNodeGroupsPaginator(c.api, &pcs.ListComputeNodeGroupsInput{ClusterIdentifier: aws.String(cluster.ID)})
	for groups.HasMorePages() {
		page, err := groups.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the compute node groups of %s: %w", cluster.Name, err)
		}
		for _, g := range page.ComputeNodeGroups {
			if err := add(capacity.MadeNodeGroup, str(g.Name), str(g.Id), str(g.Arn), Status(g.Status)); err != nil {
				return nil, err
			}
		}
	}
	queues := pcs.NewListQueuesPaginator(c.api, &pcs.ListQueuesInput{ClusterIdentifier: aws.String(cluster.ID)})
	for queues.HasMorePages() {
		page, err := queues.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the queues of %s: %w", cluster.Name, err)
		}
		for _, q := range page.Queues {
			if err := add(capacity.MadeQueue, str(q.Name), str(q.Id), str(q.Arn), Status(q.Status)); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
