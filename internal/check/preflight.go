package check

import (
	"context"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/preflight"
)

// nodes notes what the nodes of a group are launched with, for preflight.
func (r *run) nodes(p capacity.Provider, group, instanceType string, t capacity.LaunchTemplate) {
	t.InstanceType = instanceType
	r.launched = append(r.launched, preflight.Seen{Provider: p, Group: group, Source: t.Name, Template: t})
}

// preflight judges what nodes are launched with.
func (r *run) preflight(ctx context.Context) {
	errs := make([]error, len(r.launched))
	var all sync.WaitGroup
	for i := range r.launched {
		all.Go(func() { r.launched[i], errs[i] = preflight.Read(ctx, r.EC2, r.launched[i]) })
	}
	all.Wait()
	for i, seen := range r.launched {
		if err := errs[i]; err != nil && (seen.Provider == capacity.ProviderPCS || ec2.DeniedAction(err) != "") { // else platforms says it
			r.unread(ctx, "launch", "what the nodes of "+seen.Group+" are launched with", err)
		}
		for _, p := range preflight.Judge(seen) {
			status := Fail
			if !preflight.Stops(p) {
				status = Warn
			}
			r.problem(string(p.Code), status, p)
		}
	}
}
