package site

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// templates looks for launch templates from which EC2 or PCS would launch no node, or launch one
// outside its reservation.
func (r *run) templates(ctx context.Context) {
	read := map[string]capacity.LaunchTemplate{}
	for _, p := range r.settings.Partitions {
		for _, g := range p.Groups {
			if !p.Provider.Launches() {
				continue
			}
			t, seen := read[g.LaunchTemplate]
			if !seen {
				var ok bool
				t, ok = r.template(ctx, g.LaunchTemplate, func(t capacity.LaunchTemplate) []lack { return launchedBySlurm(t, g) })
				if ok {
					r.configless(t)
				}
				read[g.LaunchTemplate] = t
			}
			if t.ID != "" {
				r.nodes(p.Provider, g.Name, g.InstanceType, t, g.SubnetIDs, g.MaxNodes)
				r.tries(g.LaunchTemplate, g.SubnetIDs, r.reservationsOf(p.Name, g.Name))
			}
		}
	}
	if r.cluster == nil {
		return
	}
	if err := r.readNodeGroups(ctx); err != nil {
		r.unread(ctx, "launch-template", "that of the PCS node groups", err)
	}
	for _, g := range r.nodeGroups {
		name := g.Name
		if g.Status != pcs.Active && !g.Status.Changing() {
			r.fail("node-group", "run `pcs-capacity setup` for it again", "PCS node group %s is %s: %s", name, g.Status, g.Failures)
		}
		if g.TemplateID == "" {
			r.fail("launch-template", "delete it in PCS, and run `pcs-capacity setup`", "PCS node group %s has no launch template of its own, so PCS launches it into no reservation", name)
			continue
		}
		t, ok := r.template(ctx, g.TemplateID+":"+g.TemplateVersion, func(t capacity.LaunchTemplate) []lack { return launchedByPCS(t, g) })
		if ok {
			t.ImageID, t.InstanceProfile = cmp.Or(g.AMI, t.ImageID), g.InstanceProfile
			r.nodes(capacity.ProviderPCS, name, strings.Join(g.InstanceTypes, ", "), t, g.SubnetIDs, g.Max)
			r.launched[len(r.launched)-1].Actions = g.Actions
			r.tries(g.TemplateID+":"+g.TemplateVersion, g.SubnetIDs, []string{g.Tags[capacity.TagReservation]})
		}
	}
}

// readNodeGroups reads the compute node groups of the settings that carry our tag, once. With an error it has the others.
func (r *run) readNodeGroups(ctx context.Context) error {
	if r.nodeGroups == nil {
		r.nodeGroups = []pcs.NodeGroup{}
		var all []pcs.NodeGroup
		all, r.nodeGroupsErr = r.PCS.NodeGroups(ctx, r.cluster.ID)
		for _, g := range all {
			if r.cluster.Ours(g.Tags) && slices.Contains(r.slots(), g.Name) {
				r.nodeGroups = append(r.nodeGroups, g)
			}
		}
	}
	return r.nodeGroupsErr
}

// configless checks that slurmctld serves slurm.conf to nodes that ask for it.
func (r *run) configless(t capacity.LaunchTemplate) {
	if c := r.slurmConfig; c != nil && t.AsksConfServer() && !slices.Contains(c.SlurmctldParameters, "enable_configless") {
		r.fail("configless", "run `pcs-capacity hooks install` on the controller, which adds it",
			"nodes of launch template %s get slurm.conf from slurmctld (--conf-server), which refuses without enable_configless in SlurmctldParameters", t.Name)
	}
}

// lack is one thing that is wrong with a launch template, as the end of a sentence, and its fix.
type lack struct{ what, fix string }

// template reads a launch template and reports its faults; ok is false if it cannot be read.
func (r *run) template(ctx context.Context, reference string, wrong func(capacity.LaunchTemplate) []lack) (t capacity.LaunchTemplate, ok bool) {
	t, found, err := r.EC2.TemplateVersion(ctx, reference)
	switch {
	case err != nil:
		r.unread(ctx, "launch-template", reference, err)
		return t, false
	case !found:
		r.fail("launch-template", "name one that exists in the settings, or create it", "EC2 has no launch template %s in %s", reference, r.EC2.Region())
		return t, false
	}
	lacks := wrong(t)
	for _, l := range lacks {
		r.fail("launch-template", l.fix, "launch template %s (version %s) %s", t.Name, t.Version, l.what)
	}
	if len(lacks) == 0 {
		r.ok("launch-template", "%s (version %s)", t.Name, t.Version)
	}
	return t, true
}

// launchedBySlurm returns the faults of a template for a node group with provider ec2. The launch
// itself sets type, subnet and reservation.
func launchedBySlurm(t capacity.LaunchTemplate, g capacity.GroupSettings) []lack {
	var found []lack
	if t.ImageID == "" {
		found = append(found, lack{"has no image", "add one with Slurm and your user data"})
	}
	if t.Market != "" && g.PurchaseOption.Buys(capacity.ODCR) {
		found = append(found, lack{fmt.Sprintf("buys %s, but node group %s is %s", t.Market, g.Name, g.PurchaseOption), "take InstanceMarketOptions out of it"})
	}
	if !t.MetadataTags {
		found = append(found, lack{"has no tags in the instance metadata, from which a node learns its name", "set MetadataOptions.InstanceMetadataTags to enabled"})
	}
	return found
}

// launchedByPCS returns the faults of the template of a compute node group of ours.
func launchedByPCS(t capacity.LaunchTemplate, g pcs.NodeGroup) []lack {
	id := g.Tags[capacity.TagReservation]
	var found []lack
	add := func(what string, args ...any) {
		found = append(found, lack{fmt.Sprintf(what, args...),
			fmt.Sprintf("run `pcs-capacity setup --reservation %s` for node group %s again", id, strings.TrimSuffix(strings.TrimSuffix(g.Name, "-a"), "-b"))})
	}
	switch {
	case t.NoTarget:
		add("has a CapacityReservationSpecification without a CapacityReservationTarget, so that nothing is launched into %s", id)
	case t.ReservationID != id:
		add("launches into %q instead of %s", t.ReservationID, id)
	}
	if want := g.PurchaseOption.Market(); t.Market != want {
		add("has MarketType %q; PCS wants %q for %s", t.Market, want, g.PurchaseOption)
	}
	if want := g.PurchaseOption.Market() != ""; (want || t.InstanceType != "") && !slices.Contains(g.InstanceTypes, t.InstanceType) {
		add("has InstanceType %q, the node group %s", t.InstanceType, strings.Join(g.InstanceTypes, ", "))
	}
	return found
}
