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
	// notBefore is AWS's time before which trying again is of no use; zero if nobody knows.
	notBefore time.Time
	// held are the jobs, by id, that are refused for what only their owners can change,
	// each with its own reason.
	held map[int]refusal
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

// chooseTargets finds the reservations of a slot that every one of the jobs is admitted to,
// those with room for so many nodes first, each with the one subnet of the node group in
// its zone. Nodes without a job may have any that has the slot.
func chooseTargets(jobs []Job, at place, nodes int, f *facts) ([]target, error) {
	p, _ := f.snap.Partition(at.partition.Name)
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
	var common []capacity.Reservation
	var refused *refusal
	held := map[int]refusal{}
	for i, req := range requests {
		admitted, v := capacity.AdmitLaunch(req, p, g, slot, f.snap, f.now)
		if v.Refused {
			why := refusal{code: string(v.Code), message: v.Message, notBefore: v.NotBefore,
				private: v.Code == capacity.BadComment || v.Code == capacity.AccountNotAllowed}
			if len(jobs) > 0 && ofOwner(v.Code) {
				held[jobs[i].ID] = why
			}
			if refused == nil {
				refused = &why
			}
		}
		if i == 0 {
			common = admitted
		}
		common = slices.DeleteFunc(slices.Clone(common), func(r capacity.Reservation) bool {
			return !slices.ContainsFunc(admitted, func(a capacity.Reservation) bool { return a.ID == r.ID })
		})
	}
	if refused != nil {
		refused.held = held
		return nil, refused
	}
	if len(common) == 0 {
		return nil, &refusal{code: string(capacity.NoMatchingCapacity), message: "the jobs that share these nodes ask for different reservations"}
	}
	var targets []target
	var none error
	for _, r := range capacity.LaunchOrder(common, nodes, f.taken) {
		t, err := subnetIn(g, r, requests)
		if err != nil {
			none = err
			continue
		}
		targets = append(targets, t)
	}
	if len(targets) == 0 {
		return nil, none
	}
	return targets, nil
}

// ofOwner reports whether a job is refused for what time does not change: it would be
// refused again and again, and the jobs that Slurm puts on the same nodes with it.
func ofOwner(c capacity.Code) bool {
	switch c {
	case capacity.AccountNotAllowed, capacity.BadComment, capacity.WrongPartition, capacity.UnknownReservation, capacity.NoMatchingCapacity, capacity.TooManyNodes:
		return true
	}
	return false
}

// subnetIn is the group's subnet in the zone of the reservation, compared by zone id,
// or the one that a job names.
func subnetIn(g capacity.NodeGroup, r capacity.Reservation, requests []capacity.Request) (target, error) {
	wanted := map[string]bool{}
	for _, req := range requests {
		if wish, _ := capacity.ParseWish(req.Comment); wish.SubnetID != "" {
			wanted[wish.SubnetID] = true
		}
	}
	for _, s := range g.Subnets {
		if r.ID != "" && s.AZID != r.AZID {
			continue
		}
		if len(wanted) == 0 || len(wanted) == 1 && wanted[s.ID] {
			return target{r.ID, s.ID}, nil
		}
	}
	return target{}, &refusal{code: string(capacity.Mismatched), message: fmt.Sprintf("node group %s has no subnet in zone %s that the jobs %v ask for",
		g.Name, r.AZID, slices.Sorted(maps.Keys(wanted)))}
}
