package check

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/preflight"
)

// nodes notes what the nodes of a group are launched with, for preflight.
func (r *run) nodes(p capacity.Provider, group, instanceType string, t capacity.LaunchTemplate, subnetIDs []string, most int) {
	t.InstanceType = instanceType
	n := preflight.Network{Nodes: most, Subnets: named(subnetIDs)}
	if p == capacity.ProviderPCS {
		n.ClusterGroups, n.ClusterSubnets = r.cluster.SecurityGroupIDs, named(r.cluster.SubnetIDs)
	}
	r.launched = append(r.launched, preflight.Seen{Provider: p, Group: group, Source: t.Name, Template: t, Network: n})
}

// named are subnets of which nothing but the id is known yet.
func named(ids []string) []ec2.Subnet {
	all := make([]ec2.Subnet, len(ids))
	for i, id := range ids {
		all[i].ID = id
	}
	return all
}

// attached reads what nodes are attached to, and what IAM says of their instance profile. A
// permission that is missing is named once, for all groups.
func (r *run) attached(ctx context.Context) {
	networks, profiles := make([]error, len(r.launched)), make([]error, len(r.launched))
	atIAM, cancel := context.WithTimeout(ctx, callerTime)
	defer cancel()
	var all sync.WaitGroup
	for i, seen := range r.launched {
		all.Go(func() {
			var read preflight.Seen
			read, networks[i] = preflight.ReadNetwork(ctx, r.EC2, seen)
			r.launched[i].Network = read.Network
		})
		if seen.Template.InstanceProfile != "" {
			all.Go(func() { r.launched[i].Profile, profiles[i] = r.profile(atIAM, seen) })
		}
	}
	all.Wait()
	told := map[string]bool{}
	tell := func(check, what, group string, err error) {
		if key := cmp.Or(ec2.DeniedAction(err), check+group); err != nil && !told[key] {
			told[key] = true
			r.unread(ctx, check, what, err)
		}
	}
	for i, seen := range r.launched {
		tell("network", "whether nodes reach AWS, slurmctld and each other", seen.Group, networks[i])
		tell("instance-profile", "whether nodes may join the cluster", seen.Group, profiles[i])
	}
}

func (r *run) profile(ctx context.Context, seen preflight.Seen) (preflight.Profile, error) {
	p, err := preflight.ReadRole(ctx, r.PCS, seen.Template.InstanceProfile)
	if err != nil || seen.Provider != capacity.ProviderPCS {
		return p, err
	}
	return preflight.ReadRights(ctx, r.PCS, p, r.cluster.ARN)
}

// preflight judges what nodes are launched with.
func (r *run) preflight(ctx context.Context) {
	errs := make([]error, len(r.launched))
	var all sync.WaitGroup
	for i := range r.launched {
		all.Go(func() { r.launched[i], errs[i] = preflight.Read(ctx, r.EC2, r.launched[i]) })
	}
	all.Wait()
	r.attached(ctx)
	answers := r.tried(ctx)
	for i, seen := range r.launched {
		if err := errs[i]; err != nil && (seen.Provider == capacity.ProviderPCS || ec2.DeniedAction(err) != "") { // else platforms says it
			r.unread(ctx, "launch", "what the nodes of "+seen.Group+" are launched with", err)
		}
		if seen.Image.ID != "" {
			r.ok("image", "nodes of %s boot %s: %s", seen.Group, seen.Image.ID, seen.Image)
		}
		problems := preflight.Judge(seen)
		if !slices.ContainsFunc(problems, preflight.Stops) { // EC2 would name that again
			problems = append(problems, answers[i].Refusals...)
		}
		for _, p := range problems {
			status := Fail
			if !preflight.Stops(p) {
				status = Warn
			}
			r.problem(string(p.Code), status, p)
		}
		for _, text := range []string{answers[i].OK, answers[i].Unasked} {
			if text != "" {
				r.ok("launch", "%s", text)
			}
		}
	}
}
