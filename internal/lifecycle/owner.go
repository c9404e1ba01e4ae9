package lifecycle

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A cluster's Slurm reservations have one owner: the settings of one path with one state_dir.
// Another one, such as a copy of the settings that somebody tries out, would take away what it
// does not know, so that it changes nothing.

// otherOwners are the Slurm reservations of other owners of settings.
func (c *Cluster) otherOwners(owner string, now time.Time) (others []capacity.SlurmReservation) {
	for _, r := range c.Reservations {
		if g := r.Guard(); r.Ours() && g.Owner != "" && g.Owner != owner && (r.End.IsZero() || r.End.After(now)) {
			others = append(others, r)
		}
	}
	return others
}
