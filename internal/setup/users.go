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
	// key tells users apart: the id of a PCS compute node group, or what instances have in common.
	key string
	// freedBy is our command that frees its instances; "" if we have none.
	freedBy string
}

// addUsers notes all other users of the reservation: our other compute node groups, other entries of
// the settings, and owners of running instances.
func (in *inspection) addUsers() {
	if in.reservation.ID == "" {
		return
	}
	own := capacity.SlotNames(capacity.ProviderPCS, in.request.NodeGroup)
	var counted []string // node groups
	for _, g := range in.Groups {
		if slices.Contains(own, g.Name) || !in.Ours(g.Tags) || g.Tags[capacity.TagReservation] != in.reservation.ID {
			continue
		}
		one := user{who: "compute node group " + g.Name, most: g.Max, key: g.ID}
		queues := queuesOf(in.Inventory, g.ID)
		if len(queues) > 0 {
			one.who += " of queue " + strings.Join(queues, ", ")
		}
		if len(queues) == 1 {
			one.freedBy = fmt.Sprintf("pcs-capacity teardown --queue %s --node-group %s", queues[0], g.Name)
		}
		in.users, counted = append(in.users, one), append(counted, g.Name)
	}
	for _, p := range in.partitions() {
		for _, g := range p.Groups {
			isCounted := p.Provider == capacity.ProviderPCS &&
				slices.ContainsFunc(g.SlotNames(p.Provider), func(slot string) bool { return slices.Contains(counted, slot) })
			if !lists(g, in.reservation) || g.Name == in.request.NodeGroup || isCounted {
				continue
			}
			one := user{who: fmt.Sprintf("partition %q of %s", p.Name, p.File), most: min(g.MaxNodes, in.reservation.Size())}
			if p.Provider == capacity.ProviderEC2 {
				one.key = "partition " + p.Name
			}
			in.users = append(in.users, one)
		}
	}
	for _, i := range in.Inside {
		if g, found := in.Group(i.Tags[pcs.TagNodeGroupID]); !found || !slices.Contains(own, g.Name) {
			in.addInstance(i)
		}
	}
	if hidden := in.reservation.Used() - in.reservation.Unhealthy - len(in.Inside); hidden > 0 {
		in.warn("%d instances of reservation %s are taken by what this account does not see: another account, or instances that ended minutes ago",
			hidden, in.reservation.ID)
	}
}

func queuesOf(inv pcs.Inventory, groupID string) (names []string) {
	for _, q := range inv.Queues {
		if slices.Contains(q.GroupIDs, groupID) {
			names = append(names, q.Name)
		}
	}
	return names
}

// addInstance counts an instance for its user, who may be new. Instances of the slots to set up do not count.
func (in *inspection) addInstance(i capacity.Instance) {
	one := user{who: "instances without a tag of ours or of PCS"}
	cluster, partition, group := i.Tags[capacity.TagCluster], i.Tags[capacity.TagPartition], i.Tags[pcs.TagNodeGroupID]
	switch {
	case in.OnEC2() && cluster == in.request.Mark && partition == in.request.Queue:
		in.Slots[0].Instances++
		return
	case group != "":
		one.who, one.key = "PCS cluster "+i.Tags[pcs.TagClusterID], group
	case cluster == in.Cluster.Name:
		one.who = "partition " + partition
	case cluster != "":
		one.who = "partition " + partition + " of cluster " + cluster
	}
	if one.key == "" {
		one.key = one.who
	}
	at := slices.IndexFunc(in.users, func(u user) bool { return u.key == one.key })
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
		takes := max(u.most, u.running)
		n += takes
		parts = append(parts, fmt.Sprintf("%d by %s", takes, u.who))
	}
	return n, strings.Join(parts, ", ")
}
