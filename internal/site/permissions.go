package site

import (
	"context"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
)

// callerTime is how long AWS may take to say who asks: a site may be unable to reach it, and the other checks go on.
const callerTime = 10 * time.Second

// permissions asks what these credentials may do: EC2 by dry runs, PCS, which has none, by reads. Each action that is
// denied is named.
func (r *run) permissions(ctx context.Context) {
	for _, action := range ec2.Reads {
		r.asked(ctx, r.EC2.TryRead(ctx, action))
	}
	if r.onPCS() {
		if r.cluster == nil {
			_, err := r.PCS.Inventory(ctx, r.Config.Cluster)
			r.asked(ctx, err)
		} else {
			r.made, r.madeErr = r.PCS.Made(ctx, *r.cluster)
			r.asked(ctx, r.madeErr)
			r.asked(ctx, r.readNodeGroups(ctx))
		}
	}
	if name := r.clusterName(); r.onEC2() && name != "" {
		// Only an instance of ours decides: the policy covers no others.
		if ours, err := r.EC2.InstancesByClusterName(ctx, name); err == nil && len(ours) > 0 {
			r.asked(ctx, r.EC2.TryTerminate(ctx, ours[0].ID))
		}
	}
}

// asked notes what an error says of permissions; nil is none.
func (r *run) asked(ctx context.Context, err error) {
	if err == nil {
		return
	}
	r.missing = true
	action := ec2.DeniedAction(err)
	if action == "" {
		words, _ := r.EC2.Explain(err)
		r.warn("permission", "fix the failures above, then rerun", "what is allowed is not known: %s", words)
		return
	}
	r.denies(action, r.whoIsDenied(ctx, err))
}

// denies reports an action that somebody lacks.
func (r *run) denies(action, who string) {
	if r.missing = true; slices.Contains(r.denied, action) {
		return
	}
	r.denied = append(r.denied, action)
	role := "sync"
	if r.onEC2() && permissions.Allows("hooks", action) {
		role = "hooks"
	}
	r.fail("permission", "allow it; `pcs-capacity iam-policy "+role+"` prints the policy", "%s is not allowed for %s", action, who)
}

// whoIsDenied names the credentials that lack a permission: as AWS does in err, else by asking once. Those of hooks
// may be others.
func (r *run) whoIsDenied(ctx context.Context, err error) string {
	if named := ec2.DeniedCaller(err); named != "" {
		return named
	}
	if r.caller == "" {
		ctx, cancel := context.WithTimeout(ctx, callerTime)
		defer cancel()
		r.caller = r.EC2.Caller(ctx)
	}
	return r.caller
}

// slots are the names of all slots on PCS.
func (r *run) slots() []string {
	var names []string
	for _, p := range r.settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider == capacity.ProviderPCS {
				names = append(names, g.SlotNames(p.Provider)...)
			}
		}
	}
	return names
}

// clusterName is the beginning of this cluster's marks; "" if Slurm does not show it.
func (r *run) clusterName() string {
	switch {
	case r.onPCS():
		return r.Config.Cluster
	case r.slurmConfig != nil:
		return r.slurmConfig.ClusterName
	}
	return ""
}

const anyMark = "0000000000000000"

// mark is a possible mark of this cluster; "" if Slurm does not show its name.
func (r *run) mark() string {
	if name := r.clusterName(); r.onPCS() || name == "" {
		return name
	}
	return capacity.ClusterMark(r.clusterName(), anyMark)
}
