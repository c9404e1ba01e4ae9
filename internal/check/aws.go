package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// checkCredentials judges whether AWS answers.
func (s survey) checkCredentials(f *findings) {
	switch {
	case s.AWSErr != nil && s.Region == "":
		f.failText("region", s.AWSErr.Error(), "set region in the settings, or AWS_REGION")
	case s.AWSErr != nil:
		f.failText("credentials", s.ErrorText(s.AWSErr), "run this again")
	case s.Account != "":
		f.ok("credentials", "AWS answers in %s as account %s", s.Region, s.Account)
	default:
		f.ok("credentials", "AWS answers in %s", s.Region)
	}
}

// maxOffset bounds the difference of the machine's clock from AWS's. Fences and limits are corrected by it, but
// signatures of requests fail at 5 minutes, and munge's credentials at 5 minutes between two nodes.
const maxOffset = 5 * time.Second

func (s survey) checkClock(f *findings) {
	if s.Offset.Abs() <= maxOffset {
		f.ok("clock", "this machine's clock agrees with AWS")
		return
	}

	f.warn("clock", "let chronyd or systemd-timesyncd set it; Amazon's time is at 169.254.169.123",
		"this machine's clock differs from AWS's by %s", capacity.FormatDuration(s.Offset.Abs()))
}

// reportUnread reports a failed read. A missing permission that is named already has a finding of its own.
func (s survey) reportUnread(f *findings, check, what string, err error) {
	action := ec2.DeniedAction(err)
	switch {
	case action == "":
		f.failText(check, s.ErrorText(err), "run this again")
	case s.deniedCallers()[action] == "":
		f.warn(check, "allow "+action+", or use credentials that have it",
			"%s is not checked: %s is not allowed for %s", what, action, deniedCaller(err))
	}
}

// deniedCaller names the credentials that lack a permission, as AWS does in err. Those of hooks may be others.
func deniedCaller(err error) string { return cmp.Or(ec2.DeniedCaller(err), "these credentials") }

func (s survey) checkCluster(f *findings) {
	if !s.UsesPCS() {
		return
	}

	var kinds []capacity.Kind
	for _, g := range s.OurGroups() {
		kinds = append(kinds, g.PurchaseOption)
	}

	switch problems := Cluster(s.Site, kinds...); {
	case s.NoCluster != nil:
		f.problem("cluster", capacity.Admin, *s.NoCluster)
	case s.Cluster.ID == "":
		s.reportUnread(f, "cluster", "PCS cluster "+s.Config.Cluster, s.ClusterErr)
	case len(problems) > 0:
		for _, p := range problems {
			f.problem("cluster", capacity.Admin, p)
		}
	default:
		f.ok("cluster", "PCS cluster %s is ACTIVE, with Slurm %s", s.Cluster.Name, s.Cluster.SlurmVersion)
	}
}

// deniedCallers say who may not call an action: of the questions that EC2 was asked for them, of PCS's reads, and of
// launches. PCS launches with a role of its own.
func (s survey) deniedCallers() map[string]string {
	who := map[string]string{}
	for _, err := range s.permissionErrors() {
		who[ec2.DeniedAction(err)] = deniedCaller(err)
	}

	for _, l := range s.Launches {
		for _, one := range l.Tried.Value {
			if one.Verdict == ec2.Denied && l.Provider.Launches() {
				who[one.Message] = cmp.Or(who[one.Message], deniedCaller(nil))
			}
		}
	}

	delete(who, "") // of what is allowed

	return who
}

func (s survey) permissionErrors() (errs []error) {
	for _, action := range slices.Sorted(maps.Keys(s.Permissions)) {
		errs = append(errs, s.Permissions[action].Err)
	}
	return append(errs, s.ClusterErr)
}

// checkPermissions names each action that is denied.
func (s survey) checkPermissions(f *findings) {
	before := len(f.Problems)
	for _, err := range s.permissionErrors() {
		if err != nil && ec2.DeniedAction(err) == "" {
			f.warn("permission", "fix the failures above, then rerun", "permissions could not be checked: %s",
				s.ErrorText(err))
		}
	}

	who := s.deniedCallers()
	for _, action := range slices.Sorted(maps.Keys(who)) {
		role := "sync"
		if s.UsesEC2() && permissions.Allows("hooks", action) {
			role = "hooks"
		}

		f.fail("permission", "allow it; `pcs-capacity iam-policy "+role+"` prints the policy",
			"%s is not allowed for %s", action, who[action])
	}

	if len(f.Problems) == before {
		f.ok("permission", "these credentials allow what sync and the hooks call, as far as dry runs show")
	}
}

// checkReservations compares every reservation with every node group that uses it.
func (s survey) checkReservations(f *findings) {
	for _, p := range s.Settings.Partitions {
		for _, g := range p.Groups {
			if err := s.Selected[g.Name].Err; err != nil {
				s.reportUnread(f, "reservation", "what node group "+g.Name+" selects", err)
			}
		}
	}

	if s.Reservations.Err != nil {
		s.reportUnread(f, "reservation", "capacity_reservation_ids", s.Reservations.Err)
		return
	}

	for _, m := range s.Missing {
		f.fail("reservation",
			fmt.Sprintf("check the id, the region (%s) and the account, or remove it from the settings", s.Region),
			"EC2 does not describe reservation %s", m.ID)
	}

	if s.Subnets.Err != nil {
		s.reportUnread(f, "subnet", "subnet_ids", s.Subnets.Err)
		return
	}

	for _, t := range s.Settings.LaunchTemplates() {
		switch image := s.Platforms[t]; {
		case image.Err != nil && image.Value.Template != "": // templates reports an unreadable one
			f.failText("platform", s.ErrorText(image.Err), "name an AMI of this region in it that this account may use")
		case image.Err == nil && image.Value.Platform == "":
			f.warn("platform", "make sure that the reservations are for that AMI's platform",
				"the AMI of launch template %s has an unknown platform, so reservations are not compared with it",
				t)
		}
	}

	for _, m := range s.MissingSubnets {
		f.fail("subnet", fmt.Sprintf("check subnet_ids and the region (%s)", s.Region),
			"EC2 does not describe subnet %s", m.ID)
	}

	snap := s.Build()
	for _, p := range snap.Partitions {
		for _, g := range p.Groups {
			s.checkGroup(f, snap, g)
		}
	}
}

// checkGroup compares the reservations of a node group with it.
func (s survey) checkGroup(f *findings, snap *capacity.Snapshot, g capacity.NodeGroup) {
	ids := slices.Compact(slices.Sorted(slices.Values(g.ReservationIDs())))
	if len(ids) == 0 && g.PurchaseOption.IsReserved() {
		f.warn("reservation", "add capacity_reservation_ids to it, or select",
			"node group %s has no reservation", g.Name)
	}

	for _, id := range ids {
		res, described := snap.Reservation(id)
		if !described {
			continue // reported already
		}

		mismatches := capacity.Match(res, g, s.Now)
		if len(mismatches) == 0 {
			f.ok("reservation", "%s matches node group %s", id, g.Name)
		}

		lasting := capacity.FilterLasting(mismatches)
		for _, m := range mismatches {
			if m.Code == capacity.HasEnded {
				m.Fix = "remove it from the settings"
			}

			if slices.Contains(lasting, m) {
				f.problem("reservation", capacity.Admin, m)
			} else if g.PurchaseOption.IsReserved() {
				// It goes away by itself, or only costs the surplus nodes. A group that buys on demand has other
				// capacity.
				f.problem("reservation", capacity.Note, m)
			}
		}
	}
}

// checkTemplates judges launch templates from which EC2 or PCS would launch no node, or launch one outside its
// reservation.
func (s survey) checkTemplates(f *findings) {
	for _, p := range s.Settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider.Launches() {
				s.checkTemplate(f, g.LaunchTemplate,
					func(t capacity.LaunchTemplate) []fault { return slurmLaunchFaults(t, g, s.Slurmctld) })
			}
		}
	}

	if s.Cluster.ID != "" && s.ClusterErr != nil {
		s.reportUnread(f, "launch-template", "that of the PCS node groups", s.ClusterErr)
	}

	for _, g := range s.Groups {
		switch {
		case !s.Owns(g.Tags) || g.Status == pcs.Deleting:
			continue
		case !slices.Contains(s.SlotNames(), g.Name):
			f.fail("leftover",
				"add it to the settings again, or run `pcs-capacity teardown "+
					"--queue "+g.Tags[capacity.TagPartition]+" --node-group "+g.Name+"`",
				"compute node group %s carries the tag of pcs-capacity but is not in the settings, so sync does not "+
					"manage it",
				g.Name)

			continue
		}

		if g.Status.Failed() {
			fix := "run `pcs-capacity setup` for it again"
			if g.Status == pcs.DeleteFailed {
				fix = capacity.DeleteAgain(g.Tags[capacity.TagPartition], g.Name)
			}

			f.fail("node-group", fix, "PCS node group %s is %s: %s", g.Name, g.Status, g.Failures)
		}

		if g.TemplateID == "" {
			f.problem("launch-template", capacity.Admin, NoTemplate(g))
			continue
		}

		s.checkTemplate(
			f,
			facts.TemplateOf(g),
			func(t capacity.LaunchTemplate) []fault { return pcsLaunchFaults(t, g) },
		)
	}
}

// fault is one thing that is wrong with a launch template, as the end of a sentence, and its fix.
type fault struct{ text, fix string }

// checkTemplate reports the faults of a launch template.
func (s survey) checkTemplate(f *findings, reference string, wrong func(capacity.LaunchTemplate) []fault) {
	t := s.Templates[reference]
	switch {
	case t.Err != nil:
		s.reportUnread(f, "launch-template", reference, t.Err)
		return
	case t.Value.ID == "":
		f.fail("launch-template", "name one that exists in the settings, or create it",
			"EC2 has no launch template %s in %s", reference, s.Region)

		return
	}

	lacks := wrong(t.Value)
	for _, l := range lacks {
		f.fail("launch-template", l.fix, "launch template %s (version %s) %s", t.Value.Name, t.Value.Version, l.text)
	}

	installs := ""
	if what, _, _ := strings.Cut(t.Value.Installs(), "?"); what != "" {
		installs = "; its nodes install " + what
	}

	if len(lacks) == 0 {
		f.ok("launch-template", "%s (version %s)%s", t.Value.Name, t.Value.Version, installs)
	}
}

// slurmLaunchFaults returns the faults of a template for a node group with provider ec2. The launch itself sets type,
// subnet and reservation. c is nil where slurmctld does not answer.
func slurmLaunchFaults(t capacity.LaunchTemplate, g capacity.GroupSettings, c *slurm.Config) (found []fault) {
	if t.ImageID == "" {
		found = append(found, fault{"has no image", "add one with Slurm and your user data"})
	}

	if !t.MetadataTags {
		found = append(found, fault{
			"has no tags in the instance metadata, from which a node learns its name",
			"set MetadataOptions.InstanceMetadataTags to enabled",
		})
	}

	if c != nil && t.AsksConfServer() && !slices.Contains(c.SlurmctldParameters, "enable_configless") {
		found = append(found, fault{
			"has nodes get slurm.conf from slurmctld (--conf-server), which refuses without enable_configless in " +
				"SlurmctldParameters",
			"run `pcs-capacity hooks install` on the controller, which adds it",
		})
	}

	return found
}

// pcsLaunchFaults returns the fault of the template of a compute node group of ours. PCS has compared the rest when it
// made the group.
func pcsLaunchFaults(t capacity.LaunchTemplate, g pcs.NodeGroup) []fault {
	id := g.Tags[capacity.TagReservation]
	what := fmt.Sprintf("launches into %q instead of %s", t.ReservationID, id)
	switch {
	case t.NoTarget:
		what = "has a CapacityReservationSpecification without a CapacityReservationTarget, so that nothing is " +
			"launched into " + id
	case t.ReservationID == id:
		return nil
	}

	return []fault{
		{
			what,
			fmt.Sprintf("run `pcs-capacity setup --reservation %s` for node group %s again", id,
				strings.TrimSuffix(strings.TrimSuffix(g.Name, "-a"), "-b")),
		},
	}
}

// checkLaunches judges what nodes are launched with. A permission that is missing is named once, for all groups.
func (s survey) checkLaunches(f *findings) {
	for _, l := range s.Launches {
		if err := l.NetworkErr; err != nil {
			s.reportUnread(f, "network", "whether nodes reach AWS and each other", err)
		}

		if err := l.ImageErr; err != nil &&
			(l.Provider == capacity.ProviderPCS || ec2.DeniedAction(err) != "") { // else platforms says it
			s.reportUnread(f, "launch", "what the nodes of "+l.Group+" are launched with", err)
		}

		if l.Image.ID != "" {
			f.ok("image", "nodes of %s boot %s: %s", l.Group, l.Image.ID, l.Image)
		}

		problems := Launch(*l)
		stops := len(problems.Texts(capacity.Admin)) > 0
		for _, p := range Trial(l.Group, l.Tried.Value, l.Tried.Err) {
			if p.Severity == capacity.Note { // permission says it
				p.Severity = capacity.Good
			}

			if p.Severity == capacity.Good || !stops { // else EC2 names that again
				problems.Add(p)
			}
		}

		for _, p := range problems {
			f.problem(cmp.Or(string(p.Code), "launch"), p.Severity, p)
		}
	}
}

// Cluster finds what keeps a PCS cluster from launching into reservations of some kinds.
func Cluster(s facts.Site, kinds ...capacity.Kind) (all capacity.Problems) {
	c := s.Cluster
	if what, fix := c.NotActive(); what != "" {
		all.Add(capacity.Problemf(capacity.ClusterStatus, capacity.Subject{}, fix, "%s", what))
	}
	// Versions have two digits on each side of the dot, so text comparison works.
	if slices.ContainsFunc(kinds, capacity.Kind.IsBlock) && c.SlurmVersion < "24.05" {
		all.Add(capacity.Problemf(capacity.OldSlurm, capacity.Subject{}, "use a cluster with a newer Slurm",
			"cluster %s has Slurm %s, but PCS needs 24.05 for Capacity Blocks", c.Name, c.SlurmVersion))
	}

	return all
}

// NoTemplate returns the problem of a node group of ours whose launch template somebody has taken away.
func NoTemplate(g pcs.NodeGroup) capacity.Problem {
	return capacity.Problemf(capacity.NoLaunchTemplate, capacity.Subject{},
		"delete it in PCS, and run `pcs-capacity setup` for it again",
		"node group %s has no launch template of its own, so PCS launches it into no reservation", g.Name)
}
