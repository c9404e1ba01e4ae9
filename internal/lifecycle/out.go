package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// out returns the nodes to which Slurm gives no job, by state and reason.
func (c *Cluster) out(names []string) []capacity.NodesOut {
	type kind struct{ state, reason string }
	var kinds []kind
	nodes := map[kind][]string{}
	byName := c.byName()
	for _, name := range names {
		n := byName[name]
		if n.Out() == "" {
			continue
		}
		k := kind{n.Out(), n.Reason}
		if nodes[k] == nil {
			kinds = append(kinds, k)
		}
		nodes[k] = append(nodes[k], name)
	}
	var all []capacity.NodesOut
	for _, k := range kinds {
		all = append(all, capacity.NodesOut{Nodes: hostlist.Compress(nodes[k]), Count: len(nodes[k]), State: k.state, Reason: k.reason})
	}
	return all
}

// ourReason begins the reasons of nodes that sync drains and reports itself.
const ourReason = "pcs-capacity: "

// outOfService reports the nodes of open reservations that are paid for and get no job.
func outOfService(s Seen) (problems []capacity.Problem) {
	for _, v := range s.slots() {
		open := v.current.State == capacity.StateActive && !v.window.Start.After(s.Now) &&
			(v.window.Unbounded() || v.window.Fence.After(s.Now))
		if !open || v.former {
			continue
		}
		for _, o := range slices.DeleteFunc(slices.Clone(v.slot.Out), func(o capacity.NodesOut) bool { return strings.HasPrefix(o.Reason, ourReason) }) {
			problems = append(
				problems,
				capacity.Problemf(capacity.OutOfService,
					capacity.Subject{Partition: v.partition.Name, Slot: v.slot.Name, Node: o.Nodes, Reservation: v.current.ID},
					fmt.Sprintf("when that is mended: `%s`", capacity.GiveBack(o.Nodes, o.State, v.partition.Provider)),
					"%s is open and paid, and no job gets nodes %s", v.current.ID, o),
			)
		}
	}
	return problems
}
