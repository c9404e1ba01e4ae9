package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// mostOffset is how far the machine's clock may be from AWS's. Fences and limits are
// corrected by the difference, while signatures of requests fail at 5 minutes and munge's
// credentials at as much between two nodes.
const mostOffset = 5 * time.Second

// aws makes the checks that ask AWS.
func (r *run) aws(ctx context.Context) {
	if r.EC2 == nil {
		r.failWords("region", r.EC2Err.Error(), "set region in the settings, or AWS_REGION")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := r.EC2.TryRead(ctx, "ec2:DescribeCapacityReservations"); err != nil {
		if words, general := r.EC2.Explain(err); general {
			r.failWords("credentials", words, "run this again")
			return
		}
	}
	if account, err := r.EC2.Account(ctx); err == nil {
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
}

func behind(offset time.Duration) string {
	if offset > 0 {
		return "behind"
	}
	return "ahead of"
}

// unread says that something could not be read. A permission that the programs need has a
// finding of its own.
func (r *run) unread(check, what string, err error) {
	words, _ := r.EC2.Explain(err)
	if action := ec2.DeniedAction(err); action != "" {
		if !slices.Contains(permissions.Of(r.programs()...), action) {
			r.warn(check, "allow "+action+", or run this as somebody who has it", "%s is not checked: %s is not allowed", what, action)
		}
		return
	}
	r.failWords(check, words, "run this again")
}

func (r *run) pcsCluster(ctx context.Context) {
	if !r.onPCS() {
		return
	}
	cluster, err := r.PCS.Cluster(ctx, r.Config.Cluster)
	switch {
	case err != nil:
		r.unread("cluster", "PCS cluster "+r.Config.Cluster, err)
	case cluster.Status != pcs.Active:
		r.cluster = &cluster
		r.fail("cluster", "run this again once it is ACTIVE", "PCS cluster %s is %s", cluster.Name, cluster.Status)
	default:
		r.cluster = &cluster
		r.ok("cluster", "PCS cluster %s is ACTIVE, with Slurm %s", cluster.Name, cluster.SlurmVersion)
	}
}

// reservations holds every reservation against every node group that is to use it.
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
	found, missing, err := r.EC2.Reservations(ctx, sort(ids))
	if err != nil {
		r.unread("reservation", strings.Join(ids, ", "), err)
		return
	}
	seen.Reservations = append(seen.Reservations, found...)
	for _, m := range missing {
		r.fail("reservation", fmt.Sprintf("check the id, the region (%s) and the account, or take it out of the settings", r.EC2.Region()),
			"EC2 does not describe reservation %s", m.ID)
	}
	subnets, unknown, err := r.EC2.KnownSubnets(ctx, sort(subnetIDs))
	if err != nil {
		r.unread("subnet", strings.Join(subnetIDs, ", "), err)
		return
	}
	seen.Subnets = subnets
	for _, m := range unknown {
		r.fail("subnet", fmt.Sprintf("check subnet_ids and the region (%s)", r.EC2.Region()), "EC2 does not describe subnet %s", m.ID)
	}
	snap := capacity.Build(r.settings, seen)
	for _, p := range snap.Partitions {
		for _, g := range p.Groups {
			r.group(snap, g)
		}
	}
}

func (r *run) group(snap *capacity.Snapshot, g capacity.NodeGroup) {
	var ids []string
	for _, s := range g.Slots {
		ids = append(ids, s.ReservationIDs...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 && g.PurchaseOption != capacity.OnDemand {
		r.warn("reservation", "add capacity_reservation_ids to it, or select", "node group %s has no reservation", g.Name)
	}
	for _, id := range ids {
		res, described := snap.Reservation(id)
		if !described {
			continue // said already
		}
		mismatches := capacity.Match(res, g, r.EC2.Now())
		if len(mismatches) == 0 {
			r.ok("reservation", "%s goes with node group %s", id, g.Name)
		}
		lasting := capacity.Lasting(mismatches)
		for _, m := range mismatches {
			switch {
			case slices.Contains(lasting, m):
				r.fail("reservation", m.Fix, "%s", m.Message)
			case m.Code == "expired":
				r.warn("reservation", "take it out of the settings", "%s", m.Message)
			default: // mends itself, or costs only the nodes that are too many
				r.warn("reservation", m.Fix, "%s", m.Message)
			}
		}
	}
}

// templates looks for launch templates from which EC2 or PCS would launch no node, or not
// into its reservation.
func (r *run) templates(ctx context.Context) {
	seen := map[string]bool{}
	for _, p := range r.settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider == capacity.ProviderEC2 && !seen[g.LaunchTemplate] {
				seen[g.LaunchTemplate] = true
				r.template(ctx, g.LaunchTemplate, func(t capacity.LaunchTemplate) []capacity.Mismatch { return launchedBySlurm(t, g) })
			}
		}
	}
	if r.cluster == nil {
		return
	}
	for _, name := range r.slots() {
		g, found, err := r.PCS.NodeGroup(ctx, r.cluster.ID, name)
		if err != nil {
			r.unread("launch-template", "that of node group "+name, err)
			if ec2.DeniedAction(err) != "" {
				return // so would be the others
			}
		}
		if !found || !r.cluster.Ours(g.Tags) {
			continue
		}
		if g.Status != pcs.Active && !g.Status.Changing() {
			r.fail("node-group", "run `pcs-capacity setup` for it again", "PCS node group %s is %s: %s", name, g.Status, g.Failures)
		}
		r.template(ctx, g.TemplateID+":"+g.TemplateVersion, func(t capacity.LaunchTemplate) []capacity.Mismatch { return launchedByPCS(t, g) })
	}
}

func (r *run) template(ctx context.Context, reference string, wrong func(capacity.LaunchTemplate) []capacity.Mismatch) {
	t, found, err := r.EC2.TemplateVersion(ctx, reference)
	switch {
	case err != nil:
		r.unread("launch-template", reference, err)
		return
	case !found:
		r.fail("launch-template", "name one that exists in the settings, or create it", "EC2 has no launch template %s in %s", reference, r.EC2.Region())
		return
	}
	mismatches := wrong(t)
	for _, m := range mismatches {
		r.fail("launch-template", m.Fix, "launch template %s (version %s) %s", t.Name, t.Version, m.Message)
	}
	if len(mismatches) == 0 {
		r.ok("launch-template", "%s (version %s)", t.Name, t.Version)
	}
}

// launchedBySlurm says what is wrong with a template for a node group with provider ec2.
// The launch itself says type, subnet and reservation.
func launchedBySlurm(t capacity.LaunchTemplate, g capacity.GroupSettings) []capacity.Mismatch {
	var found []capacity.Mismatch
	if t.ImageID == "" {
		found = append(found, capacity.Mismatch{Code: "image", Message: "has no image", Fix: "add one with Slurm and your user data"})
	}
	if t.Market != "" && (g.PurchaseOption == capacity.ODCR || g.PurchaseOption == capacity.OnDemand) {
		found = append(found, capacity.Mismatch{Code: "market", Message: fmt.Sprintf("buys %s, but node group %s is %s", t.Market, g.Name, g.PurchaseOption), Fix: "take InstanceMarketOptions out of it"})
	}
	if !t.MetadataTags {
		found = append(found, capacity.Mismatch{Code: "metadata-tags", Message: "has no tags in the instance metadata, from which a node learns its name", Fix: "set MetadataOptions.InstanceMetadataTags to enabled"})
	}
	return found
}

// markets are the market types that PCS wants beside a purchase option: AWS PCS User
// Guide, "Capacity Blocks" and "I-ODCRs".
var markets = map[capacity.Kind]string{capacity.CapacityBlock: "capacity-block", capacity.InterruptibleODCR: "interruptible-capacity-reservation"}

// launchedByPCS says what is wrong with the template of a compute node group of ours.
func launchedByPCS(t capacity.LaunchTemplate, g pcs.NodeGroup) []capacity.Mismatch {
	id := g.Tags[capacity.TagReservation]
	var found []capacity.Mismatch
	add := func(code, message string, args ...any) {
		found = append(found, capacity.Mismatch{Code: code, Message: fmt.Sprintf(message, args...),
			Fix: fmt.Sprintf("run `pcs-capacity setup --reservation %s` for node group %s again", id, strings.TrimSuffix(strings.TrimSuffix(g.Name, "-a"), "-b"))})
	}
	switch {
	case t.NoTarget:
		add("target", "has a CapacityReservationSpecification without a CapacityReservationTarget, so that nothing is launched into %s", id)
	case t.ReservationID != id:
		add("target", "launches into %q instead of %s", t.ReservationID, id)
	}
	if want := markets[g.PurchaseOption]; t.Market != want {
		add("market", "has MarketType %q; PCS wants %q for %s", t.Market, want, g.PurchaseOption)
	}
	if want := markets[g.PurchaseOption] != ""; (want || t.InstanceType != "") && !slices.Contains(g.InstanceTypes, t.InstanceType) {
		add("instance-type", "has InstanceType %q, the node group %s", t.InstanceType, strings.Join(g.InstanceTypes, ", "))
	}
	return found
}
