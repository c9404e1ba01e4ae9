package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// NoJob stands for nodes that are launched without a job: any job may get them that states how little it needs.
var NoJob = Request{TimeLimit: Minutes(1)}

// AdmitLaunch decides whether nodes of a slot may be launched for a job now, and into which reservations. Each
// returned reservation has the slot, is active, is large enough for the whole job, and is open to the job's partition
// and account. They come in the order of the settings: one, or several if they have no end (see SortForLaunch). The
// zero Reservation stands for on-demand capacity.
//
// Partition and account must come from slurmctld; the comment only selects. req.Nodes counts all nodes of the job. A
// limit that fitted at submission is not held against the job: AdmitLaunch refuses for time only when not even the
// smallest of the job's limit, its --time-min and the partition's floor fits. sync lowers the limit after boot.
func AdmitLaunch(
	req Request, p Partition, slot string, snap *Snapshot, now time.Time,
) (admitted []Reservation, v Verdict) {
	// slurmctld has it: an empty account is no account.
	req.AccountKnown = true

	wish, wrong := req.Wish()
	turns, v := allowedTurns(req, wish, p, snap)
	if v.Code != AccountNotAllowed && len(wrong) > 0 {
		v = refuse(BadComment, "%s", strings.Join(wrong, "; "))
	}

	if v.Refused {
		return nil, v
	}

	all, v := prospects(turns, req, snap, now)
	if v.Code == TooManyNodes { // for good
		return nil, v
	}

	// The verdict if no turn is in this slot.
	v = refuse(NoReservation, "slot %s has no reservation%s",
		slot, formatPair(" that the job names: ", wish.ReservationID))
	for _, c := range turns {
		if c.Slot.Name != slot {
			continue
		}

		why := c.admitLaunch(req, snap, now)
		switch {
		case !why.Refused:
			admitted = append(admitted, c.Reservation)
		case v.Code == NoReservation: // the first one that is not over says most
			v = why
		}
	}

	if len(admitted) > 0 {
		return admitted, Verdict{Problem: Problem{Code: OK}}
	}

	// Too small now, but a later turn of the slot is large enough: the job waits for that.
	for _, c := range all {
		if from := c.Window.Start; v.Code == NoPlace && c.Slot.Name == slot && from.After(now) {
			v.NotBefore = from
			v.Sentence += fmt.Sprintf("; %s, which is large enough, gets slot %s at %s",
				c.Reservation.ID, slot, FormatUTC(from))

			break
		}
	}

	return nil, v
}

// admitLaunch decides about one turn.
func (c Turn) admitLaunch(req Request, snap *Snapshot, now time.Time) Verdict {
	r := c.Reservation
	v := c.check(req, now)

	// The least that is worth a launch: sync lowers the job's own limit after boot.
	need := LimitOf(c.Partition.MinTime.Duration)
	if least := req.minLimit(); least.Bounded() && least.Minutes < need.Minutes {
		need = least
	}

	// Without the job's --begin and --deadline: Slurm has started it, so they are met.
	room := c.prospect(Request{}, snap, now).Room
	switch from := c.Window.Start; {
	case v.Code == TooManyNodes:
		return refuse(NoPlace, "reservation %s has %d instances, but the job needs %d nodes", r.ID, c.size(), req.Nodes)
	case v.Refused || c.onDemand():
		return v
	case from.After(now):
		v = refuse(NotOpen, "reservation %s is %s, and gets slot %s at %s",
			r.ID, r.State, c.Slot.Name, FormatUTC(from))
		v.NotBefore = from

		return v
	case r.State != StateActive:
		return refuse(NotOpen, "reservation %s is %s", r.ID, r.State)
	case !c.Window.Unbounded() && need.Duration() > room:
		return refuse(TooLong, "jobs on %s must end by %s: %s to boot and %s to run no longer fit",
			r.ID, FormatUTC(c.Window.Fence), FormatExact(snap.Timing.BootAllowance.Duration), need)
	}

	return v
}

// SortForLaunch sorts admitted reservations for a launch of n nodes: first those with n free places, which is EC2's
// free count less the places taken since. EC2's count can be old, so EC2 has the last word at launch.
func SortForLaunch(admitted []Reservation, n int, taken map[string]int) []Reservation {
	ordered := slices.Clone(admitted)
	full := func(r Reservation) int { return rank(r.ID != "" && r.Available-taken[r.ID] < n) }
	slices.SortStableFunc(ordered, func(a, b Reservation) int { return full(a) - full(b) })

	return ordered
}

func (c Turn) onDemand() bool { return c.Reservation.ID == "" }

// types returns the instance types that the candidate can give a job.
func (c Turn) types() []string {
	if !c.Group.PurchaseOption.IsReserved() && !c.onDemand() && !c.Unknown {
		return []string{c.Reservation.InstanceType}
	}
	return c.Group.Types()
}

// reusedTurns returns the reservations that an on-demand group uses up first. Their ends do not end jobs: when its ODCR
// ends, an instance continues on demand.
func reusedTurns(at SlotRef, snap *Snapshot) (all []Turn) {
	for _, id := range at.Group.ReuseIDs {
		r, known := snap.Reservation(id)
		if !known {
			r = Reservation{ID: id}
		}

		all = append(all, Turn{SlotRef: at, Reservation: r, Window: Window{Start: r.Start}, Unknown: !known})
	}

	return all
}

// Holds reports whether an ODCR is created for jobs that launch on demand in the group; strict: they launch only into
// it, whatever the others of them prefer.
func (g NodeGroup) Holds(wishes []Wish, snap *Snapshot) (held, strict bool) {
	if snap.ReserveOff || g.PurchaseOption.IsReserved() {
		return false, false
	}

	for _, w := range wishes {
		prefers := w.Capacity == PreferCapacity
		needs := w.Capacity == ReserveCapacity || g.Reserve == ReservePerJob && !prefers
		held = held || needs || prefers
		strict = strict || needs
	}

	return held, strict
}
