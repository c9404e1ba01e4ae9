package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// AdmitLaunch decides whether nodes of a slot may be launched for a job now, and
// into which reservation: the first of the slot's that is active, that the job's
// partition and account may use, and that the job fits. Partition and account must
// come from slurmctld; the comment only selects. A limit that was right when the
// job was submitted is not held against it: the launch is refused for time only
// when not even the smaller of the job's limit and the partition's floor fits, and
// sync lowers the limit after boot.
//
// The zero Reservation with an accepted verdict means on-demand capacity.
func AdmitLaunch(req Request, p Partition, g NodeGroup, slot Slot, snap *Snapshot, now time.Time) (Reservation, Verdict) {
	if !p.Allows(req.Account) {
		return Reservation{}, refuse(AccountNotAllowed, fmt.Sprintf("account %q may not use the reservations of partition %s; allowed: %s",
			clip(req.Account), p.Name, strings.Join(p.AllowAccounts, ", ")))
	}
	wish, problems := ParseWish(req.Comment)
	if len(problems) > 0 {
		return Reservation{}, refuse(BadComment, strings.Join(problems, "; "))
	}
	if _, refusal := selectWanted(candidates(p, snap), wish, p, snap); refusal != nil {
		return Reservation{}, *refusal
	}
	if g.PurchaseOption == OnDemand {
		return Reservation{}, Verdict{Code: OK}
	}
	verdict := refuse(NoReservation, fmt.Sprintf("node group %s has no reservation%s", slot.Name, word(" that the job names: ", wish.ReservationID)))
	heaviest := -1
	for _, c := range candidates(Partition{Groups: []NodeGroup{{InstanceType: g.InstanceType, MaxNodes: g.MaxNodes, Subnets: g.Subnets,
		PurchaseOption: g.PurchaseOption, Dynamic: g.Dynamic, Name: g.Name, Slots: []Slot{slot}}}}, snap) {
		if !c.suits(wish) {
			continue
		}
		v := c.admitLaunch(req, p, snap, now)
		if !v.Refused {
			return c.reservation, v
		}
		// Of several reasons, that of a reservation which is open says most, and that of
		// one which has ended least.
		weight := 2
		if c.ended(now) {
			weight = 0
		} else if v.Code == NotOpen {
			weight = 1
		}
		if weight > heaviest {
			verdict, heaviest = v, weight
		}
	}
	return Reservation{}, verdict
}

func (c candidate) admitLaunch(req Request, p Partition, snap *Snapshot, now time.Time) Verdict {
	r := c.reservation
	if c.unknown {
		return refuse(ReservationNotKnown, fmt.Sprintf("EC2 does not describe reservation %s; check its id and region", r.ID))
	}
	if r.State != StateActive {
		return refuse(NotOpen, fmt.Sprintf("reservation %s is %s%s", r.ID, r.State, opens(c.window, now)))
	}
	if ms := launchMismatches(r, c.group, now); len(ms) > 0 {
		return refuse(Mismatched, ms[0].String())
	}
	if c.window.Unbounded() {
		return Verdict{Code: OK}
	}
	need := LimitOf(p.MinTime.Duration)
	if req.TimeLimit.Bounded() && req.TimeLimit.Minutes < need.Minutes {
		need = req.TimeLimit
	}
	boot := snap.Timing.BootAllowance.Duration
	if now.Add(boot).Add(need.Duration()).After(c.window.Fence) {
		return refuse(TooLong, fmt.Sprintf("reservation %s must be free of jobs by %s: %s of boot and %s of work no longer fit",
			r.ID, FormatUTC(c.window.Fence), FormatExact(boot), need))
	}
	return Verdict{Code: OK}
}

// launchMismatches are those of Match that EC2 would refuse a launch for; a node
// group larger than its reservation can still launch a part of its nodes.
func launchMismatches(r Reservation, g NodeGroup, now time.Time) []Mismatch {
	return slices.DeleteFunc(Match(r, g, now), func(m Mismatch) bool { return m.Code == "size" })
}

func opens(w Window, now time.Time) string {
	if w.Start.After(now) {
		return " and opens at " + FormatUTC(w.Start)
	}
	return ""
}
