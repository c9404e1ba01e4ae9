package hooks

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// target is where a launch goes; reservationID is "" for on-demand capacity.
type target struct{ reservationID, subnetID string }

// refusal is why we do not launch, with a code of ours.
type refusal struct {
	code, message string
	// private says that message holds text that a user wrote.
	private bool
	// held are the jobs, by id, that are refused for what only their owners can change,
	// each with its own reason.
	held map[int]refusal
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

// chooseTarget finds the first reservation of the slot that every one of the jobs is
// admitted to, and the one subnet of the node group in its zone. Nodes without a job
// take the first that is open.
func chooseTarget(jobs []Job, at place, snap *capacity.Snapshot, now time.Time) (target, error) {
	p, _ := snap.Partition(at.partition.Name)
	g := p.Groups[slices.IndexFunc(p.Groups, func(g capacity.NodeGroup) bool { return g.Name == at.group.Name })]
	slot := g.Slots[slices.IndexFunc(g.Slots, func(s capacity.Slot) bool { return s.Name == at.slot })]
	requests := []capacity.Request{{}}
	if len(jobs) == 0 {
		p.AllowAccounts = nil // nobody's account is to be asked about
	} else {
		requests = requests[:0]
	}
	for _, j := range jobs {
		requests = append(requests, capacity.Request{Partitions: []string{p.Name}, Account: j.Account, Comment: j.Comment, TimeLimit: j.TimeLimit, Nodes: len(j.Nodes)})
	}
	one := []string{""} // on demand: a choice without a reservation
	if g.PurchaseOption != capacity.OnDemand {
		one = slot.ReservationIDs
	}
	for _, id := range one {
		alone := capacity.Slot{Name: slot.Name, Feature: slot.Feature}
		if id != "" {
			alone.ReservationIDs = []string{id}
		}
		if admitsAll(requests, p, g, alone, snap, now) {
			return subnetIn(g, id, requests, snap)
		}
	}
	var first *refusal
	held := map[int]refusal{}
	for i, req := range requests {
		_, v := capacity.AdmitLaunch(req, p, g, slot, snap, now)
		if !v.Refused {
			continue
		}
		why := refusal{code: string(v.Code), message: v.Message, private: v.Code == capacity.BadComment || v.Code == capacity.AccountNotAllowed}
		if len(jobs) > 0 && ofOwner(v.Code) {
			held[jobs[i].ID] = why
		}
		if first == nil {
			first = &why
		}
	}
	if first != nil {
		return target{}, &refusal{code: first.code, message: first.message, private: first.private, held: held}
	}
	return target{}, &refusal{code: string(capacity.NoMatchingCapacity), message: "the jobs that share these nodes ask for different reservations"}
}

// ofOwner reports whether a job is refused for what time does not change: it would be
// refused again and again, and the jobs that Slurm puts on the same nodes with it.
func ofOwner(c capacity.Code) bool {
	switch c {
	case capacity.AccountNotAllowed, capacity.BadComment, capacity.WrongPartition, capacity.UnknownReservation, capacity.NoMatchingCapacity:
		return true
	}
	return false
}

func admitsAll(requests []capacity.Request, p capacity.Partition, g capacity.NodeGroup, s capacity.Slot, snap *capacity.Snapshot, now time.Time) bool {
	return !slices.ContainsFunc(requests, func(req capacity.Request) bool {
		_, v := capacity.AdmitLaunch(req, p, g, s, snap, now)
		return v.Refused
	})
}

// subnetIn is the group's subnet in the zone of the reservation, compared by zone id,
// or the one that a job names.
func subnetIn(g capacity.NodeGroup, reservationID string, requests []capacity.Request, snap *capacity.Snapshot) (target, error) {
	r, _ := snap.Reservation(reservationID)
	wanted := map[string]bool{}
	for _, req := range requests {
		if wish, _ := capacity.ParseWish(req.Comment); wish.SubnetID != "" {
			wanted[wish.SubnetID] = true
		}
	}
	for _, s := range g.Subnets {
		if reservationID != "" && s.AZID != r.AZID {
			continue
		}
		if len(wanted) == 0 || len(wanted) == 1 && wanted[s.ID] {
			return target{reservationID, s.ID}, nil
		}
	}
	return target{}, &refusal{code: string(capacity.Mismatched), message: fmt.Sprintf("node group %s has no subnet in zone %s that the jobs %v ask for",
		g.Name, r.AZID, slices.Sorted(maps.Keys(wanted)))}
}
