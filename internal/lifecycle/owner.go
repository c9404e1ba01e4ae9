package lifecycle

import (
	"fmt"
	"slices"
	"strings"
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

// OtherOwner is an error where the Slurm reservations of a cluster are those of other settings.
func OtherOwner(c *Cluster, s Sources) error {
	others := c.otherOwners(s.Owner, s.MachineTime())
	if len(others) == 0 || s.TakeOver {
		return nil
	}
	var owners, names []string
	for _, r := range others {
		who := r.Guard().Owner
		if r.Comment != "" {
			who += fmt.Sprintf(" (%s)", r.Comment)
		}
		if !slices.Contains(owners, who) {
			owners = append(owners, who)
		}
		names = append(names, r.Name)
	}
	slices.Sort(owners)
	slices.Sort(names)
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	return fmt.Errorf("this cluster belongs to other settings, of owner %s, whose Slurm reservations are there (%s); these are of owner %s (%s), so nothing was changed: "+
		"use the others, whose state_dir has this owner in its file `owner`, or run `pcs-capacity sync --take-over`", strings.Join(owners, ", "), strings.Join(names, ", "), s.Owner, s.OwnerIs)
}

// lookForOwners says whose the cluster is, where it is another's.
func (p *pass) lookForOwners() {
	if p.otherOwner = OtherOwner(p.seen.Cluster, p.Sources); p.otherOwner != nil {
		p.problem(capacity.OtherOwner, p.otherOwner)
		p.fail(p.otherOwner)
	}
}
