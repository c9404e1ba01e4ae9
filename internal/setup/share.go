package setup

import (
	"fmt"
	"strings"
)

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
