package setup

import (
	"fmt"
	"slices"
	"strings"
)

// taken are the instances of the reservation that others have, or are set up to have, and
// who they are.
func (in *inspection) taken() (n int, who string) {
	var parts []string
	for _, u := range in.users {
		n += u.takes()
		parts = append(parts, fmt.Sprintf("%d by %s", u.takes(), u.who))
	}
	return n, strings.Join(parts, ", ")
}

// mostNodes is how many nodes there are to be: as many as asked for, else what others leave
// of the reservation. What was set up for it before is never lowered: nodes would end under
// their jobs. checkUsers says when that is too much.
func (in *inspection) mostNodes(slot slotState) int {
	if in.request.MaxNodes > 0 {
		return in.request.MaxNodes
	}
	size := in.reservation.Size()
	n, who := in.taken()
	left := size - n
	if n == 0 || left <= 0 || left < in.has(slot) {
		return size
	}
	in.warn("%d of the %d instances of reservation %s are for others (%s), so the nodes are the %d that are left", n, size, in.reservation.ID, who, left)
	return left
}

// has is how many nodes the slot is set up for in this reservation already.
func (in *inspection) has(slot slotState) int {
	if slot.holds(in.reservation.ID) {
		return slot.group.Max
	}
	if in.request.Config != nil && in.onEC2() {
		p, _ := in.request.Config.Partition(in.request.Queue)
		if g := groupOf(p, in.request.NodeGroup); slices.Contains(g.ReservationIDs, in.reservation.ID) {
			return g.MaxNodes
		}
	}
	return 0
}
