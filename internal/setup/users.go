package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// user is another user of the reservation, with instances in it or set up for them.
type user struct {
	who string
	// most is the largest number of its instances, running the present one.
	most, running int
	// group is the id of a PCS compute node group; "" for self-managed nodes.
	group string
	// partition is the partition of self-managed nodes of our cluster.
	partition string
	// freedBy is our command that frees its instances; "" if we have none.
	freedBy string
}

func (u user) takes() int { return max(u.most, u.running) }

// addUsers notes all other users of the reservation: our other compute node groups, other entries of
// the settings, and owners of running instances.
func (in *inspection) addUsers() {
	if in.reservation.ID == "" {
		return
	}
	in.addGroups()
	in.addSettings()
	for _, i := range in.inside {
		in.addInstance(i)
	}
	if hidden := in.reservation.Used() - in.reservation.Unhealthy - len(in.inside); hidden > 0 {
		in.warn("%d instances of reservation %s are taken by what this account does not see: another account, or instances that ended minutes ago",
			hidden, in.reservation.ID)
	}
}

// addGroups notes our node groups in the reservation, except the slots to set up.
func (in *inspection) addGroups() {
	for _, g := range in.inv.Groups {
		if in.ownSlot(g.Name) || !in.inv.Cluster.Ours(g.Tags) || g.Tags[capacity.TagReservation] != in.reservation.ID {
			continue
		}
		one := user{who: "compute node group " + g.Name, most: g.Max, group: g.ID}
		queues := queuesOf(in.inv, g.ID)
		if len(queues) > 0 {
			one.who += " of queue " + strings.Join(queues, ", ")
		}
		if len(queues) == 1 {
			one.freedBy = fmt.Sprintf("pcs-capacity teardown --queue %s --node-group %s", queues[0], g.Name)
		}
		in.users = append(in.users, one)
	}
}

// ownSlot reports whether a node group is one of the two slots to set up.
func (in *inspection) ownSlot(name string) bool {
	return slices.Contains(capacity.SlotNames(capacity.ProviderPCS, in.request.NodeGroup), name)
}

func queuesOf(inv pcs.Inventory, groupID string) []string {
	var names []string
	for _, q := range inv.Queues {
		if slices.Contains(q.GroupIDs, groupID) {
			names = append(names, q.Name)
		}
	}
	return names
}

// addSettings notes other entries of the settings with the reservation, unless their PCS node group
// has been found already.
func (in *inspection) addSettings() {
	for _, p := range in.partitions() {
		for _, g := range p.Groups {
			listed := slices.Contains(g.ReservationIDs, in.reservation.ID) || g.Select.Matches(in.reservation)
			if !listed || g.Name == in.request.NodeGroup || in.hasGroup(p, g) {
				continue
			}
			one := user{
				who:  fmt.Sprintf("partition %q of %s", p.Name, p.File),
				most: min(g.MaxNodes, in.reservation.Size()),
			}
			if p.Provider == capacity.ProviderEC2 {
				one.partition = p.Name
			}
			in.users = append(in.users, one)
		}
	}
}

// hasGroup reports whether one of an entry's node groups was found to use the reservation.
func (in *inspection) hasGroup(p capacity.PartitionSettings, g capacity.GroupSettings) bool {
	names := capacity.SlotNames(capacity.ProviderPCS, g.Name)
	return p.Provider == capacity.ProviderPCS && slices.ContainsFunc(in.users, func(u user) bool {
		found, ok := in.inv.Group(u.group)
		return ok && slices.Contains(names, found.Name)
	})
}

// addInstance counts an instance for its user, who may be new. Instances of the slots to set up do not count.
func (in *inspection) addInstance(i capacity.Instance) {
	one := user{who: "instances without a tag of ours or of PCS", group: i.Tags[pcs.TagNodeGroupID]}
	cluster, partition := i.Tags[capacity.TagCluster], i.Tags[capacity.TagPartition]
	if g, found := in.inv.Group(one.group); found && in.ownSlot(g.Name) {
		return
	}
	if in.onEC2() && cluster == in.request.Mark && partition == in.request.Queue {
		in.slots[0].instances++
		return
	}
	switch {
	case one.group != "":
		one.who = "PCS cluster " + i.Tags[pcs.TagClusterID]
	case cluster == in.inv.Cluster.Name:
		one.partition, one.who = partition, "partition "+partition
	case cluster != "":
		one.who = "partition " + partition + " of cluster " + cluster
	}
	at := slices.IndexFunc(in.users, func(u user) bool {
		return u.group == one.group && u.partition == one.partition &&
			(one.group+one.partition != "" || u.who == one.who)
	})
	if at < 0 {
		at, in.users = len(in.users), append(in.users, one)
	}
	in.users[at].running++
}

// checkUsers refuses a plan that needs more instances than others leave: launches of both would fail for ever.
func (in *inspection) checkUsers(want *wanted) {
	size := in.reservation.Size()
	taken, who := in.taken()
	left := size - taken
	if taken == 0 || want.partition.MaxNodes <= left {
		return
	}
	fix := "choose another reservation, or free it there first"
	switch {
	case left > 0:
		fix = fmt.Sprintf("give --max-nodes %d or less", left)
	case len(in.users) == 1 && in.users[0].freedBy != "":
		fix = "free it first: " + in.users[0].freedBy
	}
	in.problem(capacity.ReservationInUse, fix, "%d of the %d instances of reservation %s are used already: %s",
		min(taken, size), size, in.reservation.ID, who)
}

// taken counts the reservation's instances that others use or are set up to use, and names them.
func (in *inspection) taken() (n int, who string) {
	var parts []string
	for _, u := range in.users {
		n += u.takes()
		parts = append(parts, fmt.Sprintf("%d by %s", u.takes(), u.who))
	}
	return n, strings.Join(parts, ", ")
}

// mostNodes returns the number of nodes: the requested one, else the present one, else all that
// others leave of the reservation. The present number is not lowered for others, which would end
// nodes under their jobs; checkUsers says if it is too large.
func (in *inspection) mostNodes(slot slotState) int {
	if in.request.MaxNodes > 0 {
		return in.request.MaxNodes
	}
	size := in.reservation.Size()
	if has := in.keptNodes(slot); has > 0 {
		return min(has, size)
	}
	n, who := in.taken()
	left := size - n
	if n == 0 || left <= 0 {
		return size
	}
	in.warn("%d of the %d instances of reservation %s are for others (%s), so the nodes are the %d that are left", n,
		size, in.reservation.ID, who, left)
	return left
}
