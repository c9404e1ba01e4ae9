package lifecycle

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A cluster's Slurm reservations have one owner: the settings at one path with one state_dir. Another owner, such as
// a copy of the settings that somebody tries out, would remove reservations that it does not know; so it changes
// nothing.

// otherOwners returns the Slurm reservations of other owners.
func (c *Cluster) otherOwners(owner string, now time.Time) (others []capacity.SlurmReservation) {
	for _, r := range c.Reservations {
		if g := r.Guard(); r.Ours() && g.Owner != "" && g.Owner != owner && (r.End.IsZero() || r.End.After(now)) {
			others = append(others, r)
		}
	}
	return others
}
