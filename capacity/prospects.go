package capacity

import (
	"slices"
	"strings"
	"time"
)

// Prospect is a reservation in which a job may run.
type Prospect struct {
	Partition, Slot string
	// Reservation is zero for nodes that are launched on demand.
	Reservation Reservation
	// Window is the reservation's window, from its turn in the slot on.
	Window Window
	// Room is the longest time limit that fits, from now or from the opening on; meaningless if the window is unbounded.
	Room time.Duration
	// Longest is the longest limit that Room, the partition and accounting leave; NoLimit if nothing bounds it.
	Longest Limit
	// Fits: the job's shortest acceptable limit fits into Room.
	Fits bool
	// Needs is the least number of nodes on which the job can run here. Usable is the most that one job can have until
	// the failed hosts are replaced.
	Needs, Usable int
}

// Prospects returns the reservations in which a job may run, in the order of their opening. Admit decides by the same
// ones.
func Prospects(req Request, snap *Snapshot, now time.Time) []Prospect {
	wish, _ := req.Wish()
	start := later(now, req.Begin)
	var all []Prospect
	for _, name := range req.Partitions {
		p, ours := snap.Partition(name)
		if !ours {
			continue
		}
		wanted, refusal := entitled(req, wish, p, snap)
		if refusal != nil {
			continue
		}
		for _, c := range wanted {
			if c.unknown || c.never || c.ended(now) || len(c.mismatches()) > 0 || !c.holds(req) {
				continue
			}
			out := Prospect{
				Partition:   p.Name,
				Slot:        c.slot.Name,
				Reservation: c.reservation,
				Window:      c.window,
				Fits:        true,
				Usable:      c.healthy(),
			}
			out.Needs, _ = req.leastNodes(c.group) // it fits
			boot := snap.Timing.BootAllowance.Duration
			out.Longest = c.longest(req, p, snap.Walls, boot, start)
			if !c.until(req).IsZero() {
				need := req.least()
				if !need.Set {
					need = LimitOf(p.MinTime.Duration)
				}
				out.Room = c.room(req, start, boot)
				out.Fits = need.Bounded() && need.Duration() <= out.Room
			}
			all = append(all, out)
		}
	}
	slices.SortStableFunc(all, func(a, b Prospect) int { return a.Window.Start.Compare(b.Window.Start) })
	return all
}

// PassedOver says why a job gets no nodes in live reservations that it may use: for each, one reason that somebody
// has to fix.
func PassedOver(req Request, snap *Snapshot, now time.Time) []Problem {
	wish, _ := req.Wish()
	var all []Problem
	for _, name := range req.Partitions {
		p, ours := snap.Partition(name)
		if !ours {
			continue
		}
		wanted, _ := entitled(req, wish, p, snap)
		for _, c := range wanted {
			if c.unknown || c.never || c.ended(now) {
				continue
			}
			if found := c.mismatches(); len(found) > 0 {
				all = append(all, found[0])
			}
		}
	}
	return all
}

// Within is the snapshot without the slots that a job's constraint excludes, provided the constraint names only
// slots: gpu-a, [gpu-a|gpu-b].
func (s *Snapshot) Within(constraint string) *Snapshot {
	named := strings.FieldsFunc(constraint, func(r rune) bool { return strings.ContainsRune("[]()|", r) })
	out := *s
	out.Partitions = slices.Clone(s.Partitions)
	found := map[string]bool{}
	for i := range out.Partitions {
		p := &out.Partitions[i]
		p.Groups = slices.Clone(p.Groups)
		for k := range p.Groups {
			g := &p.Groups[k]
			g.Slots = slices.DeleteFunc(slices.Clone(g.Slots), func(slot Slot) bool {
				is := slot.Feature != "" && slices.Contains(named, slot.Feature)
				found[slot.Feature] = found[slot.Feature] || is
				return !is
			})
		}
	}
	if len(named) == 0 || slices.ContainsFunc(named, func(name string) bool { return !found[name] }) {
		return s
	}
	return &out
}

// least is the shortest time limit with which Slurm may start the job: Slurm may lower the limit down to --time-min.
func (r Request) least() Limit {
	if r.TimeMin.Bounded() && (!r.TimeLimit.Bounded() || r.TimeMin.Minutes < r.TimeLimit.Minutes) {
		return r.TimeMin
	}
	return r.TimeLimit
}
