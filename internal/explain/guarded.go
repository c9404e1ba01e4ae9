package explain

import (
	"context"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// GuardedNode returns a node, and what the Slurm reservations of ours are for that are active over it;
// found is false if Slurm does not show it.
func GuardedNode(
	ctx context.Context, s *slurm.Client, name string,
) (node capacity.Node, guards []capacity.Guard, found bool, err error) {
	nodes, err := s.Nodes(ctx)
	i := slices.IndexFunc(nodes, func(n capacity.Node) bool { return n.Name == name })
	if err != nil || i < 0 {
		return node, nil, false, err
	}
	reservations, err := s.Reservations(ctx)
	for _, r := range reservations {
		if r.Ours() && r.Active && slices.Contains(r.Nodes, name) {
			guards = append(guards, r.Guard())
		}
	}
	return nodes[i], guards, true, err
}
