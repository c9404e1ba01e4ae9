package site

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// tries notes the launch of a node of the group that nodes has noted last. reference is its launch
// template, reservations are those of the group.
func (r *run) tries(reference string, subnets, reservations []string) {
	seen := r.launched[len(r.launched)-1]
	t := ec2.Trial{Launch: capacity.Launch{LaunchTemplate: reference, InstanceType: seen.Template.InstanceType, Kind: capacity.OnDemand,
		Tags: map[string]string{capacity.TagCluster: cmp.Or(r.mark(), capacity.ClusterMark("check", anyMark))}}}
	if seen.Provider == capacity.ProviderPCS {
		t.Inline, t.ImageID, t.InstanceProfile = true, seen.Template.ImageID, seen.Template.InstanceProfile
	}
	zone := ""
	for _, id := range reservations {
		res, described := r.snap.Reservation(id)
		if described && res.LiveAt(r.EC2.Now()) {
			zone = res.AZID
			t.Launch.ReservationID, t.Launch.Kind, t.Launch.PlacementGroup = res.ID, res.Kind, res.PlacementGroup
			break
		}
	}
	for _, id := range subnets {
		at := slices.IndexFunc(r.subnets, func(s capacity.Subnet) bool { return s.ID == id })
		if zone == "" || at < 0 || r.subnets[at].AZID == zone {
			t.Subnets = append(t.Subnets, id)
		}
	}
	r.trials = append(r.trials, t)
}

// tried asks EC2 about the launches, side by side.
func (r *run) tried(ctx context.Context) []Answers {
	answers, denied := make([]Answers, len(r.launched)), make([]string, len(r.launched))
	var all sync.WaitGroup
	for i, t := range r.trials {
		all.Go(func() {
			tried, err := r.EC2.TryLaunches(ctx, t)
			for _, one := range tried {
				if one.Verdict == ec2.Denied {
					denied[i] = one.Says
				}
			}
			answers[i] = Tried(r.launched[i].Group, tried, err)
		})
	}
	all.Wait()
	for i, action := range denied {
		if r.launched[i].Provider.Launches() && action != "" { // PCS launches with a role of its own
			r.denies(action, r.whoIsDenied(ctx, nil))
		}
	}
	return answers
}

// reservationsOf are the reservations of a node group, those that its select finds among them.
func (r *run) reservationsOf(partition, group string) []string {
	for _, p := range r.snap.Partitions {
		for _, g := range p.Groups {
			if p.Name == partition && g.Name == group {
				return g.ReservationIDs()
			}
		}
	}
	return nil
}
