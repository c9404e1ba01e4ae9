package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// AdmitLaunch decides whether nodes of a slot may be launched for a job now, and into which reservations. Each
// returned reservation has the slot, is active, is large enough for the whole job, and is open to the job's partition
// and account. They come in the order of the settings: one, or several if they have no end (see LaunchOrder). The
// zero Reservation stands for on-demand capacity.
//
// Partition and account must come from slurmctld; the comment only selects. req.Nodes counts all nodes of the job. A
// limit that fitted at submission is not held against the job: AdmitLaunch refuses for time only when not even the
// smaller of the job's limit and the partition's floor fits. sync lowers the limit after boot.
func AdmitLaunch(req Request, p Partition, slot string, snap *Snapshot, now time.Time) ([]Reservation, Verdict) {
	req.AccountKnown = true
	wish, problems := req.Wish()
	wanted, verdict := entitled(req, wish, p, snap)
	if verdict.Code != AccountNotAllowed && len(problems) > 0 {
		verdict = refuse(BadComment, "%s", strings.Join(problems, "; "))
	}
	if verdict.Refused {
		return nil, verdict
	}
	// A job too large for every reservation that it may ever use is refused for good.
	usable := slices.DeleteFunc(slices.Clone(wanted), func(c Turn) bool { return c.Unknown || c.Never || c.ended(now) })
	if len(usable) > 0 && !slices.ContainsFunc(usable, func(c Turn) bool { return c.holds(req) }) {
		return nil, refuseSize(req, slices.MaxFunc(usable, func(a, b Turn) int { return a.size() - b.size() }), p)
	}
	var admitted []Reservation
	verdict = refuse(NoReservation, "slot %s has no reservation%s", slot, word(" that the job names: ", wish.ReservationID))
	heaviest := -1
	for _, c := range wanted {
		if c.Slot.Name != slot {
			continue
		}
		v := c.admitLaunch(req, p, snap, now)
		if !v.Refused {
			admitted = append(admitted, c.Reservation)
			continue
		}
		// Of several refusals, an open reservation's says most and an ended reservation's least.
		weight := 2
		if c.ended(now) || c.Never {
			weight = 0
		} else if v.Code == NotOpen {
			weight = 1
		}
		if weight > heaviest {
			verdict, heaviest = v, weight
		}
	}
	if len(admitted) > 0 {
		return admitted, Verdict{Code: OK}
	}
	if verdict.Code == NoPlace {
		for _, c := range usable {
			if from := c.Window.Start; c.holds(req) && c.Slot.Name == slot && from.After(now) &&
				(verdict.NotBefore.IsZero() || from.Before(verdict.NotBefore)) {
				verdict.NotBefore = from
				verdict.Message += fmt.Sprintf("; %s, which is large enough, has slot %s from %s on", c.Reservation.ID,
					slot, FormatUTC(from))
			}
		}
	}
	return nil, verdict
}

// LaunchOrder sorts admitted reservations for a launch of n nodes: first those with n free places, which is EC2's
// free count less the places taken since. EC2's count can be old, so EC2 has the last word at launch.
func LaunchOrder(admitted []Reservation, n int, taken map[string]int) []Reservation {
	ordered := slices.Clone(admitted)
	full := func(r Reservation) int { return rank(r.ID != "" && r.Available-taken[r.ID] < n) }
	slices.SortStableFunc(ordered, func(a, b Reservation) int { return full(a) - full(b) })
	return ordered
}

func (c Turn) admitLaunch(req Request, p Partition, snap *Snapshot, now time.Time) Verdict {
	r := c.Reservation
	switch {
	case c.onDemand():
		return Verdict{Code: OK}
	case c.Unknown:
		return refuse(ReservationNotKnown, "EC2 does not describe reservation %s; check its id and region", r.ID)
	case r.State != StateActive || c.Behind == "" && c.Window.Start.After(now):
		return notOpen(c.Window.Start, "reservation %s is %s%s", r.ID, r.State, opens(c.Window, now))
	case c.Never:
		return refuse(NotOpen, "reservation %s never gets its turn: %s has slot %s", r.ID, c.Behind, c.Slot.Name)
	case !r.LiveAt(now): // EC2 changes the state a while later
		return refuse(NotOpen, "reservation %s ended at %s", r.ID, FormatUTC(r.End))
	case c.Window.Start.After(now):
		return notOpen(c.Window.Start, "reservation %s waits for %s, which has slot %s until %s", r.ID, c.Behind, c.Slot.Name,
			FormatUTC(c.Window.Start))
	}
	if ms := launchMismatches(r, *c.Group, now); len(ms) > 0 {
		return refuse(Mismatched, "%s", ms[0].Text())
	}
	if !c.holds(req) {
		return refuse(NoPlace, "reservation %s has %d places, and the job needs %d", r.ID, c.size(), req.Nodes)
	}
	if c.Window.Unbounded() {
		return Verdict{Code: OK}
	}
	need := LimitOf(p.MinTime.Duration)
	if req.TimeLimit.Bounded() && req.TimeLimit.Minutes < need.Minutes {
		need = req.TimeLimit
	}
	boot := snap.Timing.BootAllowance.Duration
	if now.Add(boot).Add(need.Duration()).After(c.Window.Fence) {
		return refuse(TooLong, "jobs on %s must end by %s: %s of boot and %s of work no longer fit",
			r.ID, FormatUTC(c.Window.Fence), FormatExact(boot), need)
	}
	return Verdict{Code: OK}
}

func notOpen(until time.Time, format string, args ...any) Verdict {
	v := refuse(NotOpen, format, args...)
	v.NotBefore = until
	return v
}

// launchMismatches returns the mismatches of Match for which EC2 would refuse a launch. A node group larger than its
// reservation can still launch some of its nodes.
func launchMismatches(r Reservation, g NodeGroup, now time.Time) []Problem {
	return slices.DeleteFunc(Match(r, g, now), func(m Problem) bool { return m.Code == WrongSize || m.Code == NoInstances })
}

func opens(w Window, now time.Time) string {
	if w.Start.After(now) {
		return " and opens at " + FormatUTC(w.Start)
	}
	return ""
}

func (c Turn) onDemand() bool { return c.Reservation.ID == "" }

// types are the instance types that the candidate can give a job.
func (c Turn) types() []string {
	if !c.Group.PurchaseOption.Reserved() && !c.onDemand() && !c.Unknown {
		return []string{c.Reservation.InstanceType}
	}
	return c.Group.Types()
}

// reused returns the reservations that an on-demand group uses up first. Their ends do not end jobs: when its ODCR
// ends, an instance continues on demand.
func reused(at Place, snap *Snapshot) (all []Turn) {
	for _, id := range at.Group.ReuseIDs {
		r, known := snap.Reservation(id)
		if !known {
			r = Reservation{ID: id}
		}
		all = append(all, Turn{Place: at, Reservation: r, Window: Window{Start: r.Start}, Unknown: !known})
	}
	return all
}

// refuseHold refuses a job that asks for an ODCR where none may be created; zero for other jobs.
func (p Partition) refuseHold(w Wish, snap *Snapshot) Verdict {
	if w.Capacity != ReserveCapacity {
		return Verdict{}
	}
	holds := p.Provider.Launches() &&
		slices.ContainsFunc(p.Groups, func(g NodeGroup) bool { return !g.PurchaseOption.Reserved() })
	if holds && !snap.ReserveOff {
		return Verdict{}
	}
	why := "its nodes are not launched on demand"
	if holds {
		why = "that is switched off here"
	}
	return refuse(CannotHold, "partition %s holds no capacity for jobs: %s; leave capacity=reserve out", p.Name, why)
}

// Holds reports whether an ODCR is created for a job that launches on demand in the group.
func (g NodeGroup) Holds(wishes []Wish, snap *Snapshot) bool {
	if snap.ReserveOff || g.PurchaseOption.Reserved() {
		return false
	}
	return g.Reserve == ReservePerJob && len(wishes) > 0 ||
		slices.ContainsFunc(wishes, func(w Wish) bool { return w.Capacity == ReserveCapacity })
}
