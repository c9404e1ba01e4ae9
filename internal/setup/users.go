package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// user is another user of the reservation, that is set up for at most so many of its instances.
type user struct {
	who  string
	most int
}

// addUsers notes all other users of the reservation, each once: our other compute node groups, other entries of the
// settings, and whoever has instances in it.
func (in *inspection) addUsers() {
	r, counted := in.reservation, capacity.SlotNames(capacity.ProviderPCS, in.request.NodeGroup)
	for _, g := range in.Groups {
		if !slices.Contains(counted, g.Name) && in.Ours(g.Tags) && g.Tags[capacity.TagReservation] == r.ID {
			in.users, counted = append(in.users, user{"compute node group " + g.Name, g.Max}), append(counted, g.Name)
		}
	}
	for _, p := range in.partitions() {
		for _, g := range p.Groups {
			isCounted := p.Provider == capacity.ProviderPCS &&
				slices.ContainsFunc(g.SlotNames(p.Provider), func(slot string) bool { return slices.Contains(counted, slot) })
			if lists(g, r) && g.Name != in.request.NodeGroup && !isCounted {
				in.users = append(in.users, user{fmt.Sprintf("partition %q of %s", p.Name, p.File), min(g.MaxNodes, r.Size())})
				counted = append(counted, p.Name)
			}
		}
	}
	others := 0
	for _, i := range in.Inside {
		of := ""
		if g, found := in.Group(i.Tags[pcs.TagNodeGroupID]); found {
			of = g.Name
		} else if i.Tags[capacity.TagCluster] == in.Cluster.Name {
			of = i.Tags[capacity.TagPartition]
		}
		switch {
		case slices.Contains(counted, of):
		case in.OnEC2() && of == in.request.Queue:
			in.Slots[0].Instances++
		default:
			others++
		}
	}
	if others > 0 {
		in.users = append(in.users, user{"other instances", others})
	}
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
	if left > 0 {
		fix = fmt.Sprintf("give --max-nodes %d or less", left)
	}
	in.problem("reservation-in-use", fix, "%d of the %d instances of reservation %s are used already: %s",
		min(taken, size), size, in.reservation.ID, who)
}

// taken counts the reservation's instances that others use or are set up to use, and names them.
func (in *inspection) taken() (n int, who string) {
	var parts []string
	for _, u := range in.users {
		n += u.most
		parts = append(parts, fmt.Sprintf("%d by %s", u.most, u.who))
	}
	return n, strings.Join(parts, ", ")
}
