package wire

import (
	"context"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/explain"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// ExplainNode is a node as it is explained; found is false if Slurm does not show it.
func ExplainNode(ctx context.Context, client *slurm.Client, settings capacity.Settings, name string) (node explain.Node, found bool, err error) {
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return explain.Node{}, false, err
	}
	for _, n := range nodes {
		if n.Name != name {
			continue
		}
		node = explain.Node{Name: name, State: nodeState(n), Reason: n.Reason, Up: nodeUp(n)}
		if p, _, slot, ours := settings.PlaceOf(name); ours {
			node.Partition, node.Slot = p.Name, slot
		}
		reservations, err := client.Reservations(ctx)
		if err != nil {
			return node, true, err
		}
		for _, r := range reservations {
			names, err := slurm.Expand(r.Nodes)
			if err != nil {
				return node, true, err
			}
			ours := lifecycle.Reservation{Name: r.Name, Flags: r.Flags, Users: r.Users}
			if _, marked := lifecycle.SlotOf(ours); marked && r.Active && slices.Contains(names, name) {
				node.Surplus = node.Surplus || strings.HasPrefix(r.Name, "pcs-capacity-surplus-")
				node.Unproven = node.Unproven || strings.HasPrefix(r.Name, "pcs-capacity-health-")
			}
		}
		return node, true, nil
	}
	return explain.Node{}, false, nil
}
