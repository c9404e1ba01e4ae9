package setup

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// made hands on what the steps of a plan have created so far.
type made struct {
	reservations capacity.ReservationGroup
	template     capacity.LaunchTemplate
	group        pcs.NodeGroup
}

// groupOfReservationsStep returns the step of the Capacity Reservation group that nodes on demand are launched into.
func groupOfReservationsStep(in inspection, done *made) Step {
	step := Step{What: WhatGroup, Name: in.groupName(), Verb: Create}
	if in.hasGroup {
		step.Verb = Nothing
	}

	done.reservations = in.group
	step.Do = unlessNothing(step.Verb, func(ctx context.Context, w World) (err error) {
		done.reservations, err = w.EnsureGroup(ctx, step.Name, in.tags())
		return err
	})

	return step
}

// templateStep returns the launch template's step.
func templateStep(in inspection, want wanted, done *made) Step {
	step := Step{What: WhatTemplate, Name: want.template.Name, Verb: Create}
	now := want.slot.Template
	switch {
	case now.ID == "":
	case !in.Owns(now.Tags): // it is refused
	case now.Digest == in.launch.Template.Digest:
		step.Verb = Nothing
	default:
		step.Verb = Update
	}

	step.addChange("reservation", now.ReservationID, want.template.ReservationID)

	if in.onDemand() {
		step.add("reservations", "of group "+in.groupName()+" only")
	}

	step.add("market type", want.template.Kind.Market())
	step.addChange("instance type", now.InstanceType, want.template.InstanceType)
	step.addChange("image", now.ImageID, want.template.ImageID)

	if in.launch.Image.Name != "" {
		step.add("image name", in.launch.Image.String())
	}

	step.addChange("placement group", now.PlacementGroup, want.template.PlacementGroup)
	step.addNotCopied(in.source, want.template, now)
	step.addChange("network interfaces", in.describeEFA(efaModeOf(now)), in.describeEFA(in.efaMode()))
	step.addChange("security groups", strings.Join(now.SecurityGroupIDs, ", "),
		strings.Join(in.source.SecurityGroupIDs, ", "))

	if in.OnEC2() {
		step.addChange("instance profile", now.InstanceProfile, want.template.InstanceProfile)
	}

	step.add("user data", in.describeUserData(now))
	step.add("copied from", in.describeSource(now))

	step.Do = unlessNothing(step.Verb, func(ctx context.Context, w World) (err error) {
		spec := want.template
		spec.ReservationGroup = done.reservations.ARN
		done.template, err = w.EnsureLaunchTemplate(ctx, spec)

		return err
	})

	return step
}

// addNotCopied adds the properties of the source template that the slot's template does not have.
func (s *Step) addNotCopied(
	source capacity.LaunchTemplate,
	want capacity.LaunchTemplateSpec,
	now capacity.LaunchTemplate,
) {
	if source.ID == "" || source.ID == now.ID {
		return
	}

	if source.PlacementGroup != "" && source.PlacementGroup != want.PlacementGroup {
		why := "the reservation has a placement of its own"
		if want.Kind == capacity.OnDemand {
			why = "capacity that is held for a job is in none"
		}

		s.add("not copied", "placement group "+source.PlacementGroup+": "+why)
	}

	if !source.TokensRequired {
		s.add("instance metadata", "IMDSv2 only, unlike "+source.Name)
	}
}

// describeUserData returns the origin of the user data, and whether it differs from the present template's.
func (in *inspection) describeUserData(now capacity.LaunchTemplate) string {
	text := ""
	installs, _, _ := strings.Cut(capacity.LaunchTemplate{UserData: in.userData}.Installs(), "?")
	switch {
	case in.OnEC2():
		text = in.nodeScript
	case len(in.source.UserData) > 0:
		text = "of " + in.like.Name
	}

	if installs != "" {
		text = strings.TrimPrefix(text+", then installs "+installs, ", then ")
	}

	if now.ID != "" && !bytes.Equal(now.UserData, in.userData) {
		text = strings.TrimPrefix(text+", changed", ", ")
	}

	return text
}

// describeSource returns what the template is copied from; "" if it is not copied.
func (in *inspection) describeSource(now capacity.LaunchTemplate) string {
	switch {
	case in.like.ID != "" && in.like.TemplateID == "":
		return "node group " + in.like.Name
	case in.source.ID == "" || in.OnEC2() && in.source.ID == now.ID:
		return ""
	}

	text := fmt.Sprintf("%s version %s", in.source.Name, in.source.Version)
	if in.like.Name != "" {
		text += " (" + in.like.Name + ")"
	}

	return text
}

// groupStep returns the node group's step, and compares an existing node group with the wanted one. The version of its
// launch template is unknown until that one's step is carried out.
func groupStep(want wanted, template Step, done *made) (Step, pcs.Comparison) {
	g := want.group
	now := pcs.NodeGroup{}

	if template.Verb == Nothing {
		g.TemplateID = want.slot.Template.ID
		g.TemplateVersion = want.slot.Template.Version
	}

	step := Step{What: WhatNodeGroup, Name: g.Name, Verb: Create}
	switch {
	case want.slot.HasFailed():
		step.Verb = Replace
		step.add("could not be created", want.slot.Group.Failures.String())
	case want.slot.Group != nil:
		step.Verb = Nothing
		now = *want.slot.Group
	}

	isNew := step.Verb != Nothing
	compared := now.Compare(g)
	for i, s := range compared {
		value := s.Want
		if !isNew && s.Changed() {
			step.Verb = Update
			value = cmp.Or(s.Now, "none") + " → " + s.Want
		}

		if step.add(s.Name, value); isNew && i == 0 {
			step.add("instance type", strings.Join(g.InstanceTypes, ", "))
		}
	}

	if isNew {
		step.add("Slurm settings", pcs.SettingsText(g.SlurmSettings, ", "))

		compared = nil
	}

	step.Do = func(ctx context.Context, w World) (err error) {
		if g.TemplateVersion == "" {
			g.TemplateID = done.template.ID
			g.TemplateVersion = done.template.Version
		}

		done.group, _, err = w.EnsureNodeGroup(ctx, g, step.Verb != Nothing)

		return err
	}

	return step, compared
}

func queueStep(in inspection, want wanted, done *made) Step {
	q, exists := in.Queue(in.request.Queue)
	step := queueNodesStep(in, want, q, exists, in.request.Queue)
	if to, now := in.queueSettings()[lock], q.SlurmSettings[lock]; to != "" && now != to && exists {
		step.Verb = Update
		step.add(lock, cmp.Or(now, "none")+" → "+to)
	} else {
		step.add(lock, to)
	}

	step.Do = unlessNothing(step.Verb, func(ctx context.Context, w World) error {
		return w.EnsureQueue(ctx, pcs.Queue{
			Name:          step.Name,
			ClusterID:     in.Cluster.ID,
			GroupIDs:      []string{done.group.ID},
			SlurmSettings: in.queueSettings(),
			Tags:          map[string]string{capacity.TagCluster: in.Cluster.Name},
		})
	})

	return step
}

// queueNodesStep begins the step of a queue that gets the slot's node group.
func queueNodesStep(in inspection, want wanted, q pcs.Queue, exists bool, name string) Step {
	step := Step{What: WhatQueue, Name: name, Verb: Create}
	names := []string{}
	if exists {
		step.Verb = Update
		if want.slot.Group != nil && !want.slot.HasFailed() && slices.Contains(q.GroupIDs, want.slot.Group.ID) {
			step.Verb = Nothing
		}

		for _, id := range q.GroupIDs {
			if g, ok := in.Group(id); ok && g.Name != want.slot.Name {
				names = append(names, g.Name)
			}
		}
	}

	step.add("node groups", strings.Join(append(names, want.slot.Name), ", "))

	return step
}

// fenceStep returns the step of the slot's fence. An existing fence is extended over the nodes of a changed node group.
func fenceStep(in inspection, want wanted, group Verb) Step {
	step := Step{What: WhatFence, Name: want.slot.Name, Verb: Create}
	switch {
	case want.slot.Slurm.Fenced(in.reservation.ID) && group == Nothing:
		step.Verb = Nothing
	case want.slot.Slurm.Fenced(in.reservation.ID):
		step.Verb = Update
	}

	step.add("fence", capacity.FormatUTC(in.request.Config.Timing.Domain().Window(in.reservation).Fence))

	step.Do = func(ctx context.Context, w World) error {
		return placeFence(ctx, w, in.request.Queue, want.slot.Name, in.reservation.ID)
	}

	return step
}

// fileSteps returns the steps for the files of the configuration, so that the partition is in it.
func fileSteps(in inspection, want wanted) (steps []Step, found findings) {
	main, wrong := mainFileStep(in)
	partition, found := partitionStep(in, want)

	return []Step{main, partition}, findings{append(wrong.Problems, found.Problems...)}
}

// mainFileStep has config.toml name the region and the PCS cluster.
func mainFileStep(in inspection) (file Step, found findings) {
	c := in.request.Config
	path := in.request.ConfigPath

	place := config.ClusterRef{Region: in.Region}
	if !in.OnEC2() { // self-managed Slurm has no name in the settings
		place.Cluster = in.Cluster.Name
	}

	file = Step{What: WhatFile, Name: path, Verb: Nothing}
	elsewhere := c.Region != "" && c.Region != place.Region
	asPackaged := c.Cluster == "" && len(c.Partitions) == 0 && !elsewhere

	switch {
	case c.Path == "": // there is none
		file.Verb = Create
	case !in.OnEC2() && asPackaged:
		file.Verb = Update
	case elsewhere, c.Cluster != place.Cluster && (in.OnEC2() || c.Cluster != in.Cluster.ID):
		const own = "self-managed Slurm"
		found.problem(capacity.ConfigCluster, "correct cluster and region there, or name other settings with --config",
			"%s is for %s in %s, not for %s in %s", path, cmp.Or(c.Cluster, own), cmp.Or(c.Region, place.Region),
			cmp.Or(place.Cluster, own), place.Region)
	}

	if file.Verb != Nothing {
		file.add("region", place.Region)
		file.add("cluster", place.Cluster)
	}

	file.Do = unlessNothing(file.Verb, func(_ context.Context, w World) error { return w.WritePlace(path, place) })

	return file, found
}

// partitionStep has the partition's file in conf.d say what is wanted.
func partitionStep(in inspection, want wanted) (file Step, found findings) {
	there := in.partitionFile
	old := in.settings()
	is := want.partition.Group(want.entry.Name)

	file = Step{What: WhatFile, Name: there.path, Verb: Create}
	switch {
	case there.err != nil:
		found.problem(capacity.ConfigFile, "make the file readable", "%s", there.err)
	case old.Name == "" && !there.owned:
		found.problem(capacity.ConfigFile, "choose another --queue, or move that file away",
			"%s exists, but was not written by pcs-capacity and has no partition %q", file.Name, in.request.Queue)
	case old.Name == "":
	case reflect.DeepEqual(old, want.partition):
		file.Name = old.File
		file.Verb = Nothing
	case old.File != file.Name || !there.owned:
		snippet, _ := config.NodeGroupText(is) // what is read can be written
		found.problem(capacity.PartitionFile, "add this there, or bring it up to date, and run this again:\n"+snippet,
			"partition %q is written in %s, which pcs-capacity did not write", in.request.Queue, old.File)
	default:
		file.Verb = Update
	}

	ended := difference(reservationsOf(old), reservationsOf(want.partition)...)

	file.add("partition", in.request.Queue)
	file.add("node_group", is.Name)
	file.add("capacity_reservation_ids", strings.Join(is.ReservationIDs, ", "))
	file.addGroup(old.Group(is.Name), is)
	file.add("allow_accounts", strings.Join(want.partition.AllowAccounts, ", "))
	file.add("spare", want.partition.Spare)
	file.add("ended, removed", strings.Join(ended, ", "))

	path, name := in.request.ConfigPath, file.Name
	file.Do = unlessNothing(file.Verb, func(_ context.Context, w World) error {
		return writePartition(w, path, name, old, want.partition, false)
	})

	return file, found
}

// addGroup says what becomes of a node group's entry, beside its reservations; was has no name for a new one.
func (s *Step) addGroup(was, is capacity.GroupSettings) {
	s.addChange("launch_template", was.LaunchTemplate, is.LaunchTemplate)

	if was.Name == "" {
		return
	}

	changed := func(key string, was, is any) {
		if !reflect.DeepEqual(was, is) {
			s.addChange(key, fmt.Sprint(was), fmt.Sprint(is))
		}
	}
	changed("purchase_option", was.PurchaseOption, is.PurchaseOption)
	changed("subnet_ids", strings.Join(was.SubnetIDs, ", "), strings.Join(is.SubnetIDs, ", "))
	changed("max_nodes", was.MaxNodes, is.MaxNodes)
	changed("dynamic", was.Dynamic, is.Dynamic)
	changed("reserve", was.Reserve, is.Reserve)
}

func reservationsOf(p capacity.PartitionSettings) (ids []string) {
	for _, g := range p.Groups {
		ids = append(ids, g.ReservationIDs...)
	}
	return ids
}

func difference(list []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(some, one) })
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, id := range b {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}

	return out
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
