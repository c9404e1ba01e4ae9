package setup

import (
	"fmt"
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

// mostNodes is how many nodes there are to be: as many as asked for, else as there are, else
// what others leave of the reservation. What was set up for it before is not lowered for others:
// nodes would end under their jobs. checkUsers says when that is too much.
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
	in.warn(
		"%d of the %d instances of reservation %s are for others (%s), so the nodes are the %d that are left",
		n,
		size,
		in.reservation.ID,
		who,
		left,
	)
	return left
}
