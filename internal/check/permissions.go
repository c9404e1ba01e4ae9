package check

import (
	"cmp"
	"context"
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
	missing := len(r.denied)
	note := func(err error) {
		if action := ec2.DeniedAction(err); action != "" {
			missing++
			r.denied = append(r.denied, action)
			role := "sync"
			if r.onEC2() && permissions.Allows("hooks", action) {
				role = "hooks"
			}
			r.fail("permission", "allow it; `pcs-capacity iam-policy "+role+"` prints the policy", "%s is not allowed for %s", action, r.whoIsDenied(ctx, err))
		} else if err != nil {
			missing++
			words, _ := r.EC2.Explain(err)
			r.warn("permission", "run this again once the rest is mended", "what is allowed is not known: %s", words)
		}
	}
	for _, action := range ec2.Reads {
		note(r.EC2.TryRead(ctx, action))
	}
	if r.onPCS() {
		_, err := r.PCS.Slots(ctx, r.Config.Cluster, r.slots())
		note(err)
		if err == nil && r.cluster != nil {
			r.made, r.madeErr = r.PCS.Made(ctx, *r.cluster)
			note(r.madeErr)
			note(r.readNodeGroups(ctx))
		}
	}
	if name := r.clusterName(); r.onEC2() && name != "" {
		// Only an instance of ours decides: the policy covers no others.
		if ours, err := r.EC2.InstancesByClusterName(ctx, name); err == nil && len(ours) > 0 {
			note(r.EC2.TryTerminate(ctx, ours[0].ID))
		}
	}
	for _, l := range r.launches() {
		if err := r.EC2.TryLaunch(ctx, l); ec2.DeniedAction(err) != "" { // preflight says what else EC2 refuses
			note(err)
		}
	}
	if missing == 0 {
		r.ok("permission", "what sync and the hooks ask is allowed with the credentials of this command, as far as dry runs tell")
	}
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

// launches are launches of one node, one for each node group that we launch, with the tags that
// policies demand. They name no reservation: EC2 refuses one that is not open yet.
func (r *run) launches() []capacity.Launch {
	var all []capacity.Launch
	mark := cmp.Or(r.mark(), capacity.ClusterMark("check", anyMark))
	for _, p := range r.settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider.Launches() && len(g.SubnetIDs) > 0 {
				all = append(all, capacity.Launch{ClientToken: "pcs-capacity-check-" + g.Name, LaunchTemplate: g.LaunchTemplate, InstanceType: g.InstanceType, SubnetID: g.SubnetIDs[0],
					Kind: capacity.OnDemand, Count: 1, Tags: map[string]string{capacity.TagCluster: mark}})
			}
		}
	}
	return all
}
