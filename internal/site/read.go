package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Unread is why parts of a launch are not known; nil for a part that was read.
type Unread struct {
	Image   error // of the image and the instance type
	Network error // of security groups, routes and endpoints
}

// Read completes a launch from EC2, side by side. What cannot be read stays as it is.
func (l Launch) Read(ctx context.Context, aws *ec2.Client) (Launch, Unread) {
	var not Unread
	var all sync.WaitGroup
	all.Go(func() { not.Image = l.readImage(ctx, aws) })
	all.Go(func() { not.Network = l.readNetwork(ctx, aws) })
	all.Wait()
	return l, not
}

// readImage reads the type and the image. Systems Manager names one that does not begin with ami-.
func (l *Launch) readImage(ctx context.Context, aws *ec2.Client) (err error) {
	if l.Type.Name == "" {
		types, failed := aws.InstanceTypes(ctx, []string{l.Template.InstanceType})
		l.Type, err = types[l.Template.InstanceType], failed
	}
	if id := l.Template.ImageID; strings.HasPrefix(id, "ami-") {
		image, failed := aws.Image(ctx, id)
		l.Image, err = image, errors.Join(err, failed)
	}
	return err
}

// readNetwork reads the security groups of nodes with EFA and, for nodes of PCS, the way out: of subnets known by their
// ids only the rest, the route tables, and where those lead nowhere the endpoints.
func (l *Launch) readNetwork(ctx context.Context, aws *ec2.Client) error {
	n := &l.Network
	n.Region = aws.Region()
	var groups, err error
	if l.hasEFA() {
		n.Groups, groups = aws.SecurityGroups(ctx, l.Template.SecurityGroupIDs)
	}
	if l.Provider != capacity.ProviderPCS || len(n.Subnets) == 0 {
		return groups
	}
	if n.Subnets[0].VPC == "" {
		var ids []string
		for _, one := range n.Subnets {
			ids = append(ids, one.ID)
		}
		n.Subnets, _, err = aws.DetailedSubnets(ctx, ids)
	}
	if err == nil && len(n.Subnets) > 0 {
		n.Tables, err = aws.RouteTables(ctx, n.Subnets[0].VPC)
	}
	if err == nil && slices.ContainsFunc(n.Subnets, func(one ec2.Subnet) bool { return l.closedIn(one) != "" }) {
		n.Endpoints, err = aws.PCSEndpoints(ctx, n.Subnets[0].VPC)
	}
	return cmp.Or(groups, err)
}

// launches notes what the nodes of a group are launched with, from a reference to a launch template into its reservations.
func (r *run) launches(p capacity.Provider, group, instanceType, reference string, t capacity.LaunchTemplate, subnetIDs, reservations []string, most int) *Launch {
	t.InstanceType = instanceType
	l := &Launch{Provider: p, Group: group, Source: t.Name, Template: t, Network: Network{Nodes: most, Subnets: named(subnetIDs)}}
	l.trial = r.trial(*l, reference, subnetIDs, reservations)
	r.launched = append(r.launched, l)
	return l
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
		all.Go(func() { *r.launched[i], unread[i] = r.launched[i].Read(ctx, r.EC2) })
	}
	all.Wait()
	told := map[string]bool{}
	tell := func(check, what, group string, err error) {
		if key := cmp.Or(ec2.DeniedAction(err), check+group); err != nil && !told[key] {
			told[key] = true
			r.unread(check, what, err)
		}
	}
	for i, seen := range r.launched {
		tell("network", "whether nodes reach AWS and each other", seen.Group, unread[i].Network)
	}
	answers := r.tried(ctx)
	for i, seen := range r.launched {
		if err := unread[i].Image; err != nil && (seen.Provider == capacity.ProviderPCS || ec2.DeniedAction(err) != "") { // else platforms says it
			r.unread("launch", "what the nodes of "+seen.Group+" are launched with", err)
		}
		if seen.Image.ID != "" {
			r.ok("image", "nodes of %s boot %s: %s", seen.Group, seen.Image.ID, seen.Image)
		}
		problems := Judge(*seen)
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

// trial is the launch of a node of a group.
func (r *run) trial(seen Launch, reference string, subnets, reservations []string) ec2.Trial {
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
	return t
}

// tried asks EC2 about the launches, side by side.
func (r *run) tried(ctx context.Context) []Answers {
	answers, denied := make([]Answers, len(r.launched)), make([]string, len(r.launched))
	var all sync.WaitGroup
	for i, l := range r.launched {
		all.Go(func() {
			tried, err := r.EC2.TryLaunches(ctx, l.trial)
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
			r.denies(action, nil)
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
				r.launches(p.Provider, g.Name, g.InstanceType, g.LaunchTemplate, t, g.SubnetIDs, r.reservationsOf(p.Name, g.Name), g.MaxNodes)
			}
		}
	}
	if r.Cluster.ID != "" && r.clusterErr != nil {
		r.unread("launch-template", "that of the PCS node groups", r.clusterErr)
	}
	for _, g := range r.Groups {
		name := g.Name
		switch {
		case !r.Ours(g.Tags) || g.Status == pcs.Deleting:
			continue
		case !slices.Contains(r.slots(), name):
			r.fail("leftover", "add it to the settings again, or run `pcs-capacity teardown --queue "+g.Tags[capacity.TagPartition]+" --node-group "+name+"`",
				"compute node group %s carries the tag of pcs-capacity, and the settings do not name it, so sync does not manage it", name)
			continue
		}
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
			r.launches(capacity.ProviderPCS, name, strings.Join(g.InstanceTypes, ", "), g.TemplateID+":"+g.TemplateVersion, t, g.SubnetIDs,
				[]string{g.Tags[capacity.TagReservation]}, g.Max)
		}
	}
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
		r.unread("launch-template", reference, err)
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
