package site

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
)

// mostOffset is how far the machine's clock may be from AWS's. Fences and limits are corrected by the difference, but
// signatures of requests fail at 5 minutes, and munge's credentials at 5 minutes between two nodes.
const mostOffset = 5 * time.Second

// aws makes the checks that ask AWS.
func (r *run) aws(ctx context.Context) {
	if r.EC2 == nil {
		r.failWords("region", r.EC2Err.Error(), "set region in the settings, or AWS_REGION")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := r.EC2.TryRead(ctx, "ec2:DescribeCapacityReservations"); err != nil {
		if words, general := r.EC2.Explain(err); general {
			r.failWords("credentials", words, "run this again")
			return
		}
	}
	if account, err := r.EC2.Account(ctx); err == nil {
		r.account = account
		r.ok("credentials", "AWS answers in %s as account %s", r.EC2.Region(), account)
	} else {
		r.ok("credentials", "AWS answers in %s", r.EC2.Region())
	}
	r.offset = r.EC2.Offset()
	if r.offset.Abs() > mostOffset {
		r.warn("clock", "let chronyd or systemd-timesyncd keep it; Amazon's time is at 169.254.169.123", "this machine's clock is %s %s AWS's", capacity.FormatDuration(r.offset.Abs()), behind(r.offset))
	} else {
		r.ok("clock", "this machine's clock is AWS's")
	}
	r.pcsCluster(ctx)
	r.permissions(ctx)
	r.reservations(ctx)
	r.templates(ctx)
	r.judgeLaunches(ctx)
	if !r.missing {
		r.ok("permission", "what sync and the hooks ask is allowed with the credentials of this command, as far as dry runs tell")
	}
}

func behind(offset time.Duration) string {
	if offset > 0 {
		return "behind"
	}
	return "ahead of"
}

// unread reports a failed read. A missing permission has a finding of its own.
func (r *run) unread(check, what string, err error) {
	words, _ := r.EC2.Explain(err)
	if action := ec2.DeniedAction(err); action != "" {
		if !slices.Contains(r.denied, action) {
			r.warn(check, "allow "+action+", or run this as somebody who has it", "%s is not checked: %s is not allowed for %s", what, action, whoIsDenied(err))
		}
		return
	}
	r.failWords(check, words, "run this again")
}

func (r *run) pcsCluster(ctx context.Context) {
	if !r.onPCS() {
		return
	}
	missing, err := r.ReadCluster(ctx, r.PCS, r.Config.Cluster)
	r.clusterErr = err
	switch what, fix := r.Cluster.NotActive(); {
	case missing != nil:
		r.problem("cluster", Fail, *missing)
	case r.Cluster.ID == "":
		r.unread("cluster", "PCS cluster "+r.Config.Cluster, err)
	case what != "":
		r.fail("cluster", fix, "PCS %s", what)
	default:
		r.ok("cluster", "PCS cluster %s is ACTIVE, with Slurm %s", r.Cluster.Name, r.Cluster.SlurmVersion)
	}
}

// reservations compares every reservation with every node group that uses it.
func (r *run) reservations(ctx context.Context) {
	var seen capacity.Seen
	var ids, subnetIDs []string
	for _, p := range r.settings.Partitions {
		for _, g := range p.Groups {
			ids, subnetIDs = append(ids, g.ReservationIDs...), append(subnetIDs, g.SubnetIDs...)
			if g.Select != nil {
				found, err := r.EC2.ReservationsByTag(ctx, g.Select.Tags)
				if err != nil {
					r.unread("reservation", "what node group "+g.Name+" selects", err)
				}
				seen.Reservations = append(seen.Reservations, found...)
			}
		}
	}
	sort := func(ids []string) []string { slices.Sort(ids); return slices.Compact(ids) }
	if err := r.ReadReservations(ctx, r.EC2, sort(ids)); err != nil {
		r.unread("reservation", strings.Join(ids, ", "), err)
		return
	}
	seen.Reservations = slices.AppendSeq(seen.Reservations, maps.Values(r.Known))
	for _, id := range slices.Sorted(maps.Keys(r.Unknown)) {
		r.fail("reservation", fmt.Sprintf("check the id, the region (%s) and the account, or take it out of the settings", r.EC2.Region()),
			"EC2 does not describe reservation %s", id)
	}
	subnets, unknown, err := r.EC2.KnownSubnets(ctx, sort(subnetIDs))
	if err != nil {
		r.unread("subnet", strings.Join(subnetIDs, ", "), err)
		return
	}
	seen.Subnets = subnets
	seen.Platforms = r.platforms(ctx)
	for _, m := range unknown {
		r.fail("subnet", fmt.Sprintf("check subnet_ids and the region (%s)", r.EC2.Region()), "EC2 does not describe subnet %s", m.ID)
	}
	snap := capacity.Build(r.settings, seen)
	r.snap, r.subnets = *snap, subnets
	for _, p := range snap.Partitions {
		for _, g := range p.Groups {
			r.group(snap, g)
		}
	}
}

// platforms are the platforms of the launch templates' images.
func (r *run) platforms(ctx context.Context) map[string]capacity.ImagePlatform {
	all := map[string]capacity.ImagePlatform{}
	for _, t := range r.settings.LaunchTemplates() {
		image, err := r.EC2.ImagePlatform(ctx, t)
		switch all[t] = image; {
		case err != nil && image.Template != "": // templates reports an unreadable one
			words, _ := r.EC2.Explain(err)
			r.failWords("platform", words, "name an AMI of this region in it that this account may use")
		case err == nil && image.Platform == "":
			r.warn("platform", "see that the reservations are for the platform of that AMI", "the platform of the AMI of launch template %s is not known, so reservations are not compared with it", t)
		}
	}
	return all
}

// group compares the reservations of a node group with it.
func (r *run) group(snap *capacity.Snapshot, g capacity.NodeGroup) {
	ids := g.ReservationIDs()
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 && g.PurchaseOption.Reserved() {
		r.warn("reservation", "add capacity_reservation_ids to it, or select", "node group %s has no reservation", g.Name)
	}
	for _, id := range ids {
		res, described := snap.Reservation(id)
		if !described {
			continue // reported already
		}
		mismatches := capacity.Match(res, g, r.EC2.Now())
		if len(mismatches) == 0 {
			r.ok("reservation", "%s goes with node group %s", id, g.Name)
		}
		lasting := capacity.Lasting(mismatches)
		for _, m := range mismatches {
			switch {
			case slices.Contains(lasting, m):
				r.problem("reservation", Fail, m)
			case !g.PurchaseOption.Reserved(): // there is other capacity
			case m.Code == capacity.HasEnded:
				m.Fix = "take it out of the settings"
				r.problem("reservation", Warn, m)
			default: // goes away by itself, or only costs the surplus nodes
				r.problem("reservation", Warn, m)
			}
		}
	}
}

// permissions asks what these credentials may do: EC2 by dry runs, PCS, which has none, by reads. Each action that is
// denied is named.
func (r *run) permissions(ctx context.Context) {
	for _, action := range ec2.Reads {
		r.asked(r.EC2.TryRead(ctx, action))
	}
	r.asked(r.clusterErr)
	if name := r.clusterName(); r.onEC2() && name != "" {
		// Only an instance of ours decides: the policy covers no others.
		if ours, err := r.EC2.InstancesByClusterName(ctx, name); err == nil && len(ours) > 0 {
			r.asked(r.EC2.TryTerminate(ctx, ours[0].ID))
		}
	}
}

// asked notes what an error says of permissions; nil is none.
func (r *run) asked(err error) {
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
	r.denies(action, err)
}

// denies reports an action that somebody lacks.
func (r *run) denies(action string, err error) {
	if r.missing = true; slices.Contains(r.denied, action) {
		return
	}
	r.denied = append(r.denied, action)
	role := "sync"
	if r.onEC2() && permissions.Allows("hooks", action) {
		role = "hooks"
	}
	r.fail("permission", "allow it; `pcs-capacity iam-policy "+role+"` prints the policy", "%s is not allowed for %s", action, whoIsDenied(err))
}

// whoIsDenied names the credentials that lack a permission, as AWS does in err. Those of hooks may be others.
func whoIsDenied(err error) string { return cmp.Or(ec2.DeniedCaller(err), "these credentials") }

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
