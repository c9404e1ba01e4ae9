package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
)

// programs are the programs that run for this cluster unattended.
func (r *run) programs() []permissions.Program {
	all := r.loop().Programs()
	if r.onEC2() {
		all = append(all, permissions.Hooks.Programs()...)
	}
	return all
}

// loop is the role of sync with these settings.
func (r *run) loop() permissions.Role {
	if r.settings.RollsOver("") {
		return permissions.LoopRollOver
	}
	return permissions.Loop
}

// asksImages are the actions that read the images of nodes that we launch.
var asksImages = []string{"ec2:DescribeImages", "ec2:DescribeLaunchTemplateVersions", "ssm:GetParameters"}

// actions are the actions that the programs need with these settings.
func (r *run) actions() []string {
	return slices.DeleteFunc(permissions.Of(r.programs()...), func(action string) bool {
		rollsOver := r.settings.RollsOver("") && slices.Contains(permissions.Of(permissions.RollingOver), action)
		return !r.onEC2() && !rollsOver && slices.Contains(asksImages, action)
	})
}

// The actions that list a group and queues, and further actions that one call needs.
var (
	asksGroup      = "resource-groups:ListGroupResources"
	asksQueues     = "pcs:ListQueues"
	asksNodeGroups = "pcs:GetComputeNodeGroup"
	asksSlots      = []string{"pcs:GetCluster", "pcs:ListComputeNodeGroups", "pcs:ListTagsForResource"}
	asksLaunch     = []string{"ec2:RunInstances", "ec2:CreateTags", "iam:PassRole", "ssm:GetParameters"}
)

// simulateTime is how long IAM may take: a site may be unable to reach it, and the other checks go
// on.
const simulateTime = 10 * time.Second

// simulated are resources, real or not, on which IAM simulates actions that have no dry run, or a
// dry run for existing instances only.
var simulated = map[string]string{
	"ec2:CancelCapacityReservation": "capacity-reservation/cr-00000000000000000",
	"ec2:TerminateInstances":        "instance/i-00000000000000000",
}

// permissions tries each action of these programs: by a dry run where EC2 has one, by a read of
// PCS, which has none. IAM simulates the rest; actions that it cannot simulate are named.
func (r *run) permissions(ctx context.Context) {
	missing := 0
	groups := r.settings.SelectedGroups()
	actions := r.actions()
	unasked := slices.DeleteFunc(slices.Clone(actions), func(action string) bool {
		return !r.onPCS() && strings.HasPrefix(action, "pcs:") || len(groups) == 0 && action == asksGroup
	})
	all := len(unasked)
	note := func(err error, asked ...string) {
		unasked = slices.DeleteFunc(unasked, func(action string) bool { return slices.Contains(asked, action) })
		if action := ec2.DeniedAction(err); action != "" {
			missing++
			r.notAllowed(ctx, action, err)
		} else if err != nil {
			words, _ := r.EC2.Explain(err)
			missing++
			r.warn("permission", "run this again once the rest is mended", "what is allowed is not known: %s", words)
		}
	}
	for _, action := range actions {
		if !r.onEC2() && !strings.HasPrefix(action, "ec2:Describe") {
			continue
		}
		if known, err := r.EC2.TryRead(ctx, action); known {
			note(err, action)
		}
	}
	if r.onPCS() {
		_, err := r.PCS.Slots(ctx, r.Config.Cluster, r.slots())
		note(err, asksSlots...)
		if err == nil && r.cluster != nil {
			r.made, r.madeErr = r.PCS.Made(ctx, *r.cluster)
			note(r.madeErr, asksQueues)
			note(r.readNodeGroups(ctx), asksNodeGroups)
		}
	}
	if len(groups) > 0 {
		if _, err := r.members(ctx); err == nil || ec2.DeniedAction(err) != "" { // else members has a finding of its own
			note(err, asksGroup)
		}
	}
	if name := r.clusterName(); r.onEC2() && name != "" {
		// Only an instance of ours decides: the policy covers no others.
		if ours, err := r.EC2.InstancesByClusterName(ctx, name); err == nil && len(ours) > 0 {
			note(r.EC2.TryTerminate(ctx, ours[0].ID), "ec2:TerminateInstances")
		}
	}
	for _, l := range r.launches() {
		err := r.EC2.TryLaunch(ctx, l)
		if ec2.DeniedAction(err) == "" {
			err = nil // preflight says what else EC2 refuses
		}
		note(err, asksLaunch...)
	}
	whyNot := r.simulate(ctx, &unasked)
	if missing+len(r.denied) > 0 {
		return
	}
	text := fmt.Sprintf("allowed for %s with the credentials of this command, as far as AWS tells without effect: %d actions", strings.Join(r.roles(), " and "), all-len(unasked))
	if whyNot != "" && r.onEC2() {
		unasked = append(unasked, "launches into reservations")
	}
	if len(unasked) > 0 {
		text += "; not checked: " + strings.Join(unasked, ", ") + whyNot
	}
	r.ok("permission", "%s", text)
}

func (r *run) notAllowed(ctx context.Context, action string, err error) {
	r.denied = append(r.denied, action)
	r.fail("permission", "allow it; `pcs-capacity iam-policy "+r.role(action)+"` prints the policy", "%s is not allowed for %s: %s", action, r.whoIsDenied(ctx, err), why(action))
}

// whoIsDenied names the credentials that lack a permission: as AWS does in err, else by asking once. Those of hooks
// may be others.
func (r *run) whoIsDenied(ctx context.Context, err error) string {
	if named := ec2.DeniedCaller(err); named != "" {
		return named
	}
	if r.caller == "" {
		ctx, cancel := context.WithTimeout(ctx, simulateTime)
		defer cancel()
		r.caller = r.EC2.Caller(ctx)
	}
	return r.caller
}

// simulate removes from unasked the actions that IAM has simulated. If IAM could not, whyNot has
// the reason, in brackets.
func (r *run) simulate(ctx context.Context, unasked *[]string) (whyNot string) {
	mark := r.mark()
	if mark == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, simulateTime)
	defer cancel()
	var err error
	if r.simulation, err = r.EC2.Simulation(ctx); err != nil {
		return r.unsimulated(ctx, err)
	}
	for _, action := range slices.Clone(*unasked) {
		if simulated[action] == "" {
			continue
		}
		allowed, err := r.simulation.Allows(ctx, action, simulated[action], map[string]string{capacity.TagCluster: mark})
		if err != nil {
			return r.unsimulated(ctx, err)
		}
		*unasked = slices.DeleteFunc(*unasked, func(one string) bool { return one == action })
		if !allowed {
			r.notAllowed(ctx, action, nil)
		}
	}
	return ""
}

// unsimulated returns the reason, and gives up on IAM.
func (r *run) unsimulated(ctx context.Context, err error) string {
	r.simulation = nil
	words, _ := r.EC2.Explain(err)
	if action := ec2.DeniedAction(err); action != "" {
		words = action + " is not allowed for " + r.whoIsDenied(ctx, err)
	}
	return " (" + words + ")"
}

// launchInto has IAM simulate a launch into each reservation of ours: the policy may list
// yesterday's. For another account's reservation, IAM would ask for policies there, which EC2 does
// not.
func (r *run) launchInto(ctx context.Context, res capacity.Reservation) {
	if r.simulation == nil || slices.Contains(r.denied, launches) || res.OwnerID != "" && res.OwnerID != r.simulation.Account() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, simulateTime)
	defer cancel()
	allowed, err := r.simulation.Allows(ctx, launches, "capacity-reservation/"+res.ID, res.Tags)
	switch {
	case err != nil:
		r.ok("permission", "not checked: launches into reservations%s", r.unsimulated(ctx, err))
	case !allowed:
		r.fail("permission", "`pcs-capacity iam-policy hooks` prints a policy for the reservations of these settings", "%s is not allowed into %s for %s", launches, res.ID, r.whoIsDenied(ctx, nil))
	}
}

const launches = "ec2:RunInstances"

func why(action string) string {
	for _, a := range permissions.Actions {
		if a.Name == action {
			return "it is for " + a.Why
		}
	}
	return "what AWS asks besides"
}

func (r *run) roles() []string {
	if r.onEC2() {
		return []string{string(r.loop()), string(permissions.Hooks)}
	}
	return []string{string(r.loop())}
}

// role is the role whose policy has the action.
func (r *run) role(action string) string {
	for _, role := range []permissions.Role{permissions.Loop, r.loop(), permissions.Hooks} {
		for _, name := range permissions.Of(role.Programs()...) {
			if name == action {
				return string(role)
			}
		}
	}
	return string(permissions.Admin)
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
