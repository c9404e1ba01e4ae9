package site

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// nodes notes what the nodes of a group are launched with.
func (r *run) nodes(p capacity.Provider, group, instanceType string, t capacity.LaunchTemplate, subnetIDs []string, most int) {
	t.InstanceType = instanceType
	n := Network{Nodes: most, Subnets: named(subnetIDs)}
	arn := ""
	if p == capacity.ProviderPCS {
		arn = r.cluster.ARN
		n.ClusterGroups, n.ClusterSubnets = r.cluster.SecurityGroupIDs, named(r.cluster.SubnetIDs)
	}
	r.launched = append(r.launched, Launch{Provider: p, Group: group, Source: t.Name, Template: t, ClusterARN: arn, Network: n})
}

// named are subnets of which nothing but the id is known yet.
func named(ids []string) []ec2.Subnet {
	all := make([]ec2.Subnet, len(ids))
	for i, id := range ids {
		all[i].ID = id
	}
	return all
}

// judgeLaunches reads and judges what nodes are launched with. A permission that is missing is named once, for all
// groups.
func (r *run) judgeLaunches(ctx context.Context) {
	unread := make([]Unread, len(r.launched))
	var all sync.WaitGroup
	for i := range r.launched {
		all.Go(func() { r.launched[i], unread[i] = r.launched[i].Read(ctx, r.EC2, r.PCS) })
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
		tell("network", "whether nodes reach AWS, slurmctld and each other", seen.Group, errors.Join(unread[i].Names, unread[i].Network))
		tell("instance-profile", "whether nodes may join the cluster", seen.Group, unread[i].Profile)
	}
	answers := r.tried(ctx)
	for i, seen := range r.launched {
		if err := errors.Join(unread[i].Image, unread[i].Defaults); err != nil && (seen.Provider == capacity.ProviderPCS || ec2.DeniedAction(err) != "") { // else platforms says it
			r.unread(ctx, "launch", "what the nodes of "+seen.Group+" are launched with", err)
		}
		if seen.Image.ID != "" {
			r.ok("image", "nodes of %s boot %s: %s", seen.Group, seen.Image.ID, seen.Image)
		}
		problems := Judge(seen)
		if !slices.ContainsFunc(problems, Stops) { // EC2 would name that again
			problems = append(problems, answers[i].Refusals...)
		}
		for _, p := range problems {
			status := Fail
			if !Stops(p) {
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
