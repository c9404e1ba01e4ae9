package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// unnamed looks for what setup made and the settings have lost.
func (r *run) unnamed(ctx context.Context) {
	if r.cluster == nil {
		return
	}
	groups, err := r.PCS.NodeGroups(ctx, r.cluster.ID)
	if err != nil {
		r.unread("node-group", "which node groups the settings do not name", err)
		return
	}
	for _, m := range unnamed(pcs.Inventory{Cluster: *r.cluster, Groups: groups}, r.settings) {
		r.fail("node-group", m.Fix, "%s", m.Message)
	}
}

// unnamed are the cluster's compute node groups with our tag that no node group of the
// settings names: sync does not manage them, while a queue may send them jobs. One that PCS is deleting is left out.
func unnamed(inv pcs.Inventory, settings capacity.Settings) []capacity.Mismatch {
	var named []string
	for _, p := range settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider == capacity.ProviderPCS {
				named = append(named, g.SlotNames(p.Provider)...)
			}
		}
	}
	// holdsNamed are the queues that a node group of the settings was made for.
	holdsNamed := map[string]bool{}
	var left []pcs.NodeGroup
	for _, g := range inv.Groups {
		switch {
		case !inv.Cluster.Ours(g.Tags) || g.Status == pcs.Deleting || g.Status == pcs.Deleted:
		case slices.Contains(named, g.Name):
			holdsNamed[g.Tags[capacity.TagPartition]] = true
		default:
			left = append(left, g)
		}
	}
	var found []capacity.Mismatch
	for _, g := range left {
		what := "compute node group " + g.Name
		if queue := g.Tags[capacity.TagPartition]; queue != "" {
			what += ", made for queue " + queue
		}
		if id := g.Tags[capacity.TagReservation]; id != "" {
			what += " and reservation " + id
		}
		found = append(found, capacity.Mismatch{Code: "unnamed",
			Message: what + ", carries the tag of pcs-capacity, and no node_group of the settings names it, so sync does not manage it",
			Fix:     "add it to the settings again, or " + removal(inv.Cluster, g, settings, holdsNamed)})
	}
	return found
}

// removal says how to be rid of an unnamed node group: by teardown of its queue, where
// nothing else is in that, or of the slot, where teardown would find it.
func removal(cluster pcs.Cluster, g pcs.NodeGroup, settings capacity.Settings, holdsNamed map[string]bool) string {
	queue := g.Tags[capacity.TagPartition]
	at := slices.IndexFunc(settings.Partitions, func(p capacity.PartitionSettings) bool { return p.Name == queue })
	isSlot := strings.HasSuffix(g.Name, "-a") || strings.HasSuffix(g.Name, "-b")
	switch {
	case queue != "" && at < 0 && !holdsNamed[queue]:
		return fmt.Sprintf("remove its queue with `pcs-capacity teardown --queue %s`", queue)
	case queue != "" && isSlot && (at < 0 || settings.Partitions[at].Provider == capacity.ProviderPCS):
		return fmt.Sprintf("remove it with `pcs-capacity teardown --queue %s --node-group %s`", queue, g.Name)
	}
	return fmt.Sprintf("take it out of its queues and remove it with `aws pcs delete-compute-node-group --cluster-identifier %s --compute-node-group-identifier %s`", cluster.ID, g.ID)
}
