package pcs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

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

// Slots returns the compute node groups of these names that exist, each with the reservation that
// our tag says it was set up for; "" without the tag of this cluster. It lists the cluster once, and
// reads the tags of each group found. After an error, groups may be missing.
func (c *Client) Slots(ctx context.Context, cluster string, names []string) (map[string]string, error) {
	if cluster == "" {
		return nil, errors.New("the settings name no PCS cluster; add cluster = \"NAME\"")
	}
	var owner Cluster // our mark has its name; cluster may be its id
	var listed []types.ComputeNodeGroupSummary
	err := sideBySide(func() (err error) { owner, err = c.Cluster(ctx, cluster); return err },
		func() (err error) { listed, err = c.listGroups(ctx, cluster); return err })
	if err != nil {
		return nil, err
	}
	listed = slices.DeleteFunc(listed, func(g types.ComputeNodeGroupSummary) bool {
		return Status(g.Status) == Deleted || !slices.Contains(names, str(g.Name))
	})
	type slot struct{ name, reservation string }
	found, err := readEach(ctx, listed, func(ctx context.Context, g types.ComputeNodeGroupSummary) (slot, bool, error) {
		s := slot{name: str(g.Name)}
		tags, err := c.groupTags(ctx, s.name, str(g.Arn))
		if NotFound(err) { // deleted since
			return s, false, nil
		}
		if owner.Ours(tags) {
			s.reservation = tags[capacity.TagReservation]
		}
		return s, true, err
	})
	slots := map[string]string{}
	for _, s := range found {
		slots[s.name] = s.reservation
	}
	return slots, err
}

// Busy reports whether PCS is at work on a queue, or on a compute node group. Of what is not there
// it is not.
func (c *Client) Busy(ctx context.Context, cluster, queue, group string) (bool, error) {
	q, _, err := c.describeQueue(ctx, cluster, queue)
	if err != nil || q.Status.Changing() {
		return err == nil, err
	}
	g, _, err := c.describeGroup(ctx, cluster, group)
	return g.Status.Changing(), err
}

// Made lists the cluster's compute node groups and queues with our tag, without the ones that PCS
// is deleting. It lists each kind once, and reads the tags of each thing found.
func (c *Client) Made(ctx context.Context, cluster Cluster) ([]capacity.Made, error) {
	type thing struct {
		capacity.Made
		arn    string
		status Status
	}
	var groups, queues []thing
	err := sideBySide(func() error {
		listed, err := c.listGroups(ctx, cluster.ID)
		for _, g := range listed {
			groups = append(groups, thing{capacity.Made{What: capacity.MadeNodeGroup, Name: str(g.Name), ID: str(g.Id)}, str(g.Arn), Status(g.Status)})
		}
		return err
	}, func() error {
		listed, err := c.listQueues(ctx, cluster.ID)
		for _, q := range listed {
			queues = append(queues, thing{capacity.Made{What: capacity.MadeQueue, Name: str(q.Name), ID: str(q.Id)}, str(q.Arn), Status(q.Status)})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return readEach(ctx, append(groups, queues...), func(ctx context.Context, one thing) (capacity.Made, bool, error) {
		m := one.Made
		if one.status == Deleting || one.status == Deleted {
			return m, false, nil
		}
		tags, err := c.tags(ctx, one.arn)
		switch {
		case NotFound(err): // deleted since
			return m, false, nil
		case err != nil:
			return m, false, fmt.Errorf("reading the tags of %s %s: %w", m.What, m.Name, err)
		}
		if m.Queue = m.Name; m.What == capacity.MadeNodeGroup {
			m.Slot, m.Queue, m.Reservation = m.Name, tags[capacity.TagPartition], tags[capacity.TagReservation]
		}
		return m, cluster.Ours(tags), nil
	})
}
