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
	// notBefore is AWS's time before which trying again is of no use; zero if nobody knows.
	notBefore time.Time
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

// chooseTargets finds the reservations of a slot that every one of the jobs is admitted to,
// those with room for so many nodes first, each with the one subnet of the node group in
// its zone. Nodes without a job may have any that has the slot.
func chooseTargets(jobs []Job, at place, nodes int, f *facts) ([]target, error) {
	p, g, slot := f.settings(at)
	requests := []capacity.Request{{}}
	if len(jobs) == 0 {
		p.AllowAccounts = nil // nobody's account is to be asked about
	} else {
		requests = requests[:0]
	}
	for _, j := range jobs {
		requests = append(requests, launchRequest(j, p))
	}
	var common []capacity.Reservation
	for i, req := range requests {
		admitted, v := capacity.AdmitLaunch(req, p, g, slot, f.snap, f.now)
		if v.Refused {
			return nil, &refusal{string(v.Code), v.Message, v.NotBefore}
		}
		if i == 0 {
			common = admitted
		}
		common = slices.DeleteFunc(slices.Clone(common), func(r capacity.Reservation) bool {
			return !slices.ContainsFunc(admitted, func(a capacity.Reservation) bool { return a.ID == r.ID })
		})
	}
	if len(common) == 0 {
		return nil, &refusal{code: "different-reservations", message: "the jobs that share these nodes ask for different reservations"}
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

// settings are what the snapshot has about a place.
func (f *facts) settings(at place) (capacity.Partition, capacity.NodeGroup, capacity.Slot) {
	p, _ := f.snap.Partition(at.partition.Name)
	g := p.Groups[slices.IndexFunc(p.Groups, func(g capacity.NodeGroup) bool { return g.Name == at.group.Name })]
	return p, g, g.Slots[slices.IndexFunc(g.Slots, func(s capacity.Slot) bool { return s.Name == at.slot })]
}

func launchRequest(j Job, p capacity.Partition) capacity.Request {
	return capacity.Request{Partitions: []string{p.Name}, Account: j.Account, Comment: j.Comment, TimeLimit: j.TimeLimit, Nodes: len(j.Nodes)}
}

// refusedForGood is why a job may not have nodes of a place, if that is something which
// time does not change; nil if it is not.
func refusedForGood(j Job, at place, f *facts) *refusal {
	p, g, slot := f.settings(at)
	_, v := capacity.AdmitLaunch(launchRequest(j, p), p, g, slot, f.snap, f.now)
	if !v.Refused || !ofOwner(v.Code) {
		return nil
	}
	return &refusal{string(v.Code), v.Message, v.NotBefore}
}

// ofOwner reports whether a refusal is for what only the job's owner can change.
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
