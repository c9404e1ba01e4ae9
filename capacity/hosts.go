package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ShortOfHosts finds the open reservation in which the job would run now if no host had failed; of several, the one
// with the most usable hosts. short is false if an open reservation has enough hosts, or if the job waits for other
// reasons.
func ShortOfHosts(req Request, snap *Snapshot, now time.Time) (p Prospect, short bool) {
	open := slices.DeleteFunc(Prospects(req, snap, now), func(p Prospect) bool {
		return !p.Fits || p.Window.Start.After(now) || p.Reservation.State != StateActive && p.Reservation.ID != ""
	})
	if len(open) == 0 || slices.ContainsFunc(open, func(p Prospect) bool { return p.Needs <= p.Usable }) {
		return Prospect{}, false
	}
	return slices.MaxFunc(open, func(a, b Prospect) int { return cmp.Compare(a.Usable, b.Usable) }), true
}

// FewHosts is the sentence for a job that needs more hosts than are usable.
func (p Prospect) FewHosts() string {
	r := p.Reservation
	return fmt.Sprintf("the job needs %d nodes, and %d of the %d hosts of %s are usable", p.Needs, p.Usable, r.Size(),
		r.ID)
}
