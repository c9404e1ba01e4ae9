package power

import (
	"maps"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// target is a place to launch into; reservationID is "" for on-demand capacity.
type target struct {
	reservationID, subnetID, instanceType string
	kind                                  capacity.Kind
	placementGroup                        string
	// hold: first create an ODCR, in the subnet's zone azID.
	hold bool
	azID string
}

// chooseTargets returns the slot's reservations to which every job is admitted, those with enough room first, each
// with the node group's one subnet in its zone. Nodes without a job may use any reservation that has the slot.
func (f *facts) chooseTargets(jobs []capacity.Job, at place, nodes int) ([]target, *Failure) {
	p, g := f.seen(at)
	var common []capacity.Reservation
	if len(jobs) == 0 {
		p.AllowAccounts = nil // there is no account to check
		var v capacity.Verdict
		if common, v = capacity.AdmitLaunch(capacity.Request{}, p, at.slot, f.snap, f.now); v.Refused {
			return nil, refusalOf(v)
		}
	}
	var wishes []capacity.Wish
	for i, j := range jobs {
		wish, _ := j.Wish()
		wishes = append(wishes, wish)
		admitted, v := f.admit(j, at)
		if v.Refused {
			return nil, refusalOf(v)
		}
		if i == 0 {
			common = admitted
		}
		common = slices.DeleteFunc(slices.Clone(common), func(r capacity.Reservation) bool {
			return !slices.ContainsFunc(admitted, func(a capacity.Reservation) bool { return a.ID == r.ID })
		})
	}
	if len(common) == 0 {
		return nil, refusal(capacity.DifferentReservations, "the jobs that share these nodes ask for different reservations")
	}
	var targets []target
	var none *Failure
	for _, r := range capacity.LaunchOrder(common, nodes, f.taken) {
		some, refused := targetsIn(g, r, wishes)
		if refused != nil {
			none = refused
			continue
		}
		for _, t := range some {
			if r.ID == "" && g.Holds(wishes, f.snap) {
				t.hold, t.kind = true, capacity.ODCR
			}
			targets = append(targets, t)
		}
	}
	if len(targets) == 0 {
		return nil, none
	}
	return targets, nil
}

// seen returns the snapshot's settings of a place.
func (f *facts) seen(at place) (capacity.Partition, capacity.NodeGroup) {
	p, _ := f.snap.Partition(at.partition.Name)
	return p, p.Groups[slices.IndexFunc(p.Groups, func(g capacity.NodeGroup) bool { return g.Name == at.group.Name })]
}

// asked is what AdmitLaunch reads and what differs between the jobs of a run.
type asked struct {
	slot, account, comment string
	limit                  capacity.Limit
	nodes                  int
}

// admitted is AdmitLaunch's answer.
type admitted struct {
	reservations []capacity.Reservation
	verdict      capacity.Verdict
}

// admit is AdmitLaunch for a job, cached for equal jobs, such as the tasks of an array.
func (f *facts) admit(j capacity.Job, at place) ([]capacity.Reservation, capacity.Verdict) {
	key := asked{at.slot, j.Account, j.Comment, j.TimeLimit, len(j.Nodes)}
	a, known := f.admitted[key]
	if !known {
		p, _ := f.seen(at)
		a.reservations, a.verdict = capacity.AdmitLaunch(launchRequest(j, p), p, at.slot, f.snap, f.now)
		f.admitted[key] = a
	}
	return a.reservations, a.verdict
}

func launchRequest(j capacity.Job, p capacity.Partition) capacity.Request {
	return capacity.Request{Partitions: []string{p.Name}, Account: j.Account, Comment: j.Comment, TimeLimit: j.TimeLimit,
		Nodes: len(j.Nodes)}
}

// refusedForGood is why a job may never have nodes of a place; nil if it may, now or later.
func (f *facts) refusedForGood(j capacity.Job, at place) *Failure {
	_, v := f.admit(j, at)
	if !v.Refused || !ofOwner(v.Code) {
		return nil
	}
	return refusalOf(v)
}

// ofOwner reports whether only the job's owner can lift the refusal.
func ofOwner(c capacity.Code) bool {
	switch c {
	case capacity.AccountNotAllowed,
		capacity.BadComment,
		capacity.WrongPartition,
		capacity.UnknownReservation,
		capacity.NoMatchingCapacity,
		capacity.TooManyNodes:
		return true
	}
	return false
}

// targetsIn returns the targets in a reservation, in the order to try: one, in the group's subnet in its zone,
// compared by zone id, or in the subnet that a job names. For on-demand capacity it returns every type of the group
// in every subnet, unless a job names others.
func targetsIn(g capacity.NodeGroup, r capacity.Reservation, wishes []capacity.Wish) ([]target, *Failure) {
	subnets, types := map[string]bool{}, map[string]bool{}
	for _, wish := range wishes {
		if wish.SubnetID != "" {
			subnets[wish.SubnetID] = true
		}
		if wish.InstanceType != "" {
			types[wish.InstanceType] = true
		}
	}
	allowed := func(wanted map[string]bool, one string) bool {
		return len(wanted) == 0 || len(wanted) == 1 && wanted[one]
	}
	var targets []target
	for _, instanceType := range g.Types() {
		for _, s := range g.Subnets {
			switch {
			case !allowed(types, instanceType) || !allowed(subnets, s.ID):
			case r.ID == "":
				targets = append(targets, target{subnetID: s.ID, azID: s.AZID, instanceType: instanceType, kind: capacity.OnDemand})
			case s.AZID == r.AZID && instanceType == r.InstanceType:
				return []target{{reservationID: r.ID, subnetID: s.ID, azID: s.AZID, instanceType: instanceType, kind: r.Kind,
					placementGroup: r.PlacementGroup}}, nil
			}
		}
	}
	if len(targets) > 0 {
		return targets, nil
	}
	if r.ID == "" {
		return nil, refusal(capacity.Mismatched,
			"node group %s has none of what the jobs ask for together: types %v, subnets %v", g.Name,
			slices.Sorted(maps.Keys(types)), slices.Sorted(maps.Keys(subnets)))
	}
	return nil, refusal(capacity.Mismatched, "node group %s has no subnet in zone %s that the jobs %v ask for",
		g.Name, r.AZID, slices.Sorted(maps.Keys(subnets)))
}
