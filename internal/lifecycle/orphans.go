package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// This file ends instances that nothing else would end: SuspendProgram was killed, or EC2 refused it for its whole
// time, or somebody launched for a node that Slurm does not have. Each takes a place that is paid for. An instance
// ended by mistake takes a job with it, so one look is never enough.

// orphanAge is the least age of an orphan: it leaves SuspendProgram its time, and spares a launch that Slurm has not
// heard of yet.
const orphanAge = 5 * time.Minute

// orphanTime is how long a pass must have seen an orphan before another pass ends it.
const orphanTime = 30 * time.Second

// orphans returns this cluster's instances without a node.
func orphans(instances []capacity.Instance, cluster *Cluster, now time.Time) []capacity.Orphan {
	addresses := map[string][]string{} // of the instances of each node
	for _, i := range instances {
		if node := i.Node(hostlist.Expand); node != "" && !i.Ended() {
			addresses[node] = append(addresses[node], i.PrivateIP)
		}
	}
	var found []capacity.Orphan
	byName := cluster.byName()
	for _, i := range instances {
		node := i.Node(hostlist.Expand)
		if node == "" || i.Ended() || i.Launched.After(now.Add(-orphanAge)) {
			continue
		}
		if why := cluster.without(byName, node, i.PrivateIP, addresses[node]); why != "" {
			found = append(found, capacity.Orphan{Instance: i.ID, Node: node, Reservation: i.ReservationID, Why: why,
				Since: now.UTC().Truncate(time.Second)})
		}
	}
	slices.SortFunc(found, func(a, b capacity.Orphan) int { return cmp.Compare(a.Instance, b.Instance) })
	return found
}

// without says why an instance at an address does not belong to its node; "" if it does, or may. addresses are those
// of all instances for the node.
func (c *Cluster) without(byName map[string]capacity.Node, node, address string, addresses []string) string {
	n, there := byName[node]
	switch {
	case there && n.PoweredDown():
		return "Slurm has powered the node down"
	case there:
		at := n.Address
		if at != address && slices.Contains(addresses, at) {
			return "the node is up as another instance"
		}
		return ""
	case slices.ContainsFunc(c.Partitions, func(p capacity.SlurmPartition) bool { return slices.Contains(p.Nodes, node) }):
		// Slurm 22.05 hides nodes that are powered down unless PrivateData has cloud.
		return "Slurm has powered the node down"
	}
	return "Slurm has no such node"
}

// byName are the nodes that Slurm shows, by their names.
func (c *Cluster) byName() map[string]capacity.Node {
	nodes := make(map[string]capacity.Node, len(c.Nodes))
	for _, n := range c.Nodes {
		nodes[n.Name] = n
	}
	return nodes
}

// endOrphans terminates the orphans that this pass and an earlier one have seen.
func endOrphans(s Seen) (effects []capacity.Effect) {
	if !s.OrphansSeen {
		return nil
	}
	for _, o := range s.Snap.Orphans {
		if s.Now.Sub(o.Since) >= orphanTime {
			_, _, slot, _ := s.Settings.PlaceOf(o.Node)
			effects = append(effects, EndInstance{slot, o})
		}
	}
	return effects
}

// withoutEnded returns the remaining orphans.
func withoutEnded(orphans []capacity.Orphan, results []Result) []capacity.Orphan {
	return slices.DeleteFunc(slices.Clone(orphans), func(o capacity.Orphan) bool {
		return slices.ContainsFunc(results, func(r Result) bool { return r.Err == nil && r.Effect.(EndInstance).Orphan == o })
	})
}

// orphanProblems reports the orphans, those of one reservation together.
func orphanProblems(s Seen) (problems []capacity.Problem) {
	type kind struct{ reservation, why string }
	var kinds []kind
	ids, nodes := map[kind][]string{}, map[kind][]string{}
	for _, o := range s.Snap.Orphans {
		k := kind{o.Reservation, o.Why}
		if ids[k] == nil {
			kinds = append(kinds, k)
		}
		ids[k], nodes[k] = append(ids[k], o.Instance), append(nodes[k], o.Node)
	}
	for _, k := range kinds {
		who, holds := fmt.Sprintf("instance %s (%s)", ids[k][0], nodes[k][0]), "holds a place"
		if n := len(ids[k]); n > 1 {
			who, holds = fmt.Sprintf(
				"instances %s (%s)",
				strings.Join(ids[k], ", "),
				hostlist.Compress(nodes[k]),
			), fmt.Sprintf("hold %d places", n)
		}
		if k.reservation == "" {
			holds = "on demand"
		}
		problems = append(problems,
			capacity.Problemf(capacity.OrphanFound, capacity.Subject{Reservation: k.reservation}, "",
				"%s %s%s: %s; sync ends what it sees so twice", who, holds, in(k.reservation), k.why))
	}
	return problems
}

// twins reports instances with another cluster's mark that are for our nodes or at their addresses. Nothing ends
// them: they may belong to another cluster of the same name.
func (s Seen) twins(others []capacity.Instance) (problems []capacity.Problem) {
	type kind struct {
		mark  string
		there bool // at the address of a node of ours
	}
	var kinds []kind
	ids, nodes := map[kind][]string{}, map[kind][]string{}
	for _, i := range others {
		node := i.Node(hostlist.Expand)
		there := slices.ContainsFunc(s.Cluster.Nodes, func(n capacity.Node) bool { return n.Address == i.PrivateIP })
		if i.Ended() || !there && !s.Cluster.has(node) {
			continue
		}
		k := kind{i.Tags[capacity.TagCluster], there}
		if ids[k] == nil {
			kinds = append(kinds, k)
		}
		ids[k], nodes[k] = append(ids[k], i.ID), append(nodes[k], cmp.Or(node, "no node"))
	}
	for _, k := range kinds {
		who, has, them := fmt.Sprintf("instance %s (%s)", ids[k][0], nodes[k][0]), "has", "it"
		if len(ids[k]) > 1 {
			who, has, them = fmt.Sprintf("instances %s (%s)", strings.Join(ids[k], ", "),
				hostlist.Compress(nodes[k])), "have", "them"
		}
		if k.there {
			who += ", at an address of this cluster's nodes,"
		}
		what := fmt.Sprintf("this cluster's is %s; nothing here ends %s", s.Cluster.Mark, them)
		_, id := capacity.CutClusterMark(k.mark)
		switch {
		case s.Cluster.MarkErr != nil:
			what = fmt.Sprintf("this cluster's is not known, so nothing here ends %s: %v", them, s.Cluster.MarkErr)
		case id == "":
			what = fmt.Sprintf(
				"which does not say whose, so nothing here ends %s; terminate %[1]s, or tag %[1]s %s=%s for this cluster",
				them, capacity.TagCluster, s.Cluster.Mark)
		}
		problems = append(problems,
			capacity.Problemf(capacity.ForeignMark, capacity.Subject{}, "", "%s %s the mark %s, %s", who, has, k.mark, what))
	}
	return problems
}

// has reports whether Slurm has a node of this name, shown or hidden.
func (c *Cluster) has(node string) bool {
	return slices.ContainsFunc(c.Nodes, func(n capacity.Node) bool { return n.Name == node }) ||
		slices.ContainsFunc(c.Partitions, func(p capacity.SlurmPartition) bool { return slices.Contains(p.Nodes, node) })
}

// in says where an orphan is.
func in(reservation string) string {
	if reservation == "" {
		return ""
	}
	return " in " + reservation
}
