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

// templateStep returns the launch template's step. It leaves the written template in the inspection, for groupStep.
func (in *inspection) templateStep() Step {
	step := Step{What: WhatTemplate, Name: in.template.Name, Verb: Create}
	now := in.slot.Template
	switch {
	case now.ID == "":
	case !in.Owns(now.Tags):
		in.notOurs("launch template", now.Name, now.ID)
	case now.Digest == in.launch.Template.Digest:
		step.Verb = Nothing
	default:
		step.Verb = Update
	}

	step.addChange("reservation", now.ReservationID, in.template.ReservationID)
	step.add("market type", in.template.Kind.Market())
	step.addChange("instance type", now.InstanceType, in.template.InstanceType)
	step.addChange("image", now.ImageID, in.template.ImageID)

	if in.launch.Image.Name != "" {
		step.add("image name", in.launch.Image.String())
	}

	step.addChange("placement group", now.PlacementGroup, in.template.PlacementGroup)
	in.addNotCopied(&step, now)
	step.addChange("network interfaces", in.describeEFA(efaModeOf(now)), in.describeEFA(in.efaMode()))
	step.addChange("security groups", strings.Join(now.SecurityGroupIDs, ", "),
		strings.Join(in.source.SecurityGroupIDs, ", "))

	if in.OnEC2() {
		step.addChange("instance profile", now.InstanceProfile, in.template.InstanceProfile)
	}

	step.add("user data", in.describeUserData(now))
	step.add("copied from", in.describeSource(now))

	return step.withChange(in, in.slot.Name, func(ctx context.Context, w World) (err error) {
		in.writtenTemplate, err = w.EnsureLaunchTemplate(ctx, in.template)
		return err
	})
}

// addNotCopied adds the properties of the source template that the slot's template does not have.
func (in *inspection) addNotCopied(step *Step, now capacity.LaunchTemplate) {
	source := in.source
	if source.ID == "" || source.ID == now.ID {
		return
	}

	if source.PlacementGroup != "" && source.PlacementGroup != in.template.PlacementGroup {
		step.add("not copied", "placement group "+source.PlacementGroup+": the reservation has a placement of its own")
	}

	if !source.TokensRequired {
		step.add("instance metadata", "IMDSv2 only, unlike "+source.Name)
	}
}

// describeUserData returns the origin of the user data, and whether it differs from the present template's.
func (in *inspection) describeUserData(now capacity.LaunchTemplate) string {
	text := ""
	switch {
	case in.OnEC2():
		text = in.nodeScript
	case len(in.userData) > 0:
		text = "of " + in.like.Name
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

// groupStep returns the node group's step, and compares an existing node group with the wanted one. It leaves the node
// group that there is then in the inspection. The version of its launch template is unknown until that one's step is
// carried out.
func (in *inspection) groupStep(template Step) (Step, pcs.Comparison) {
	g := in.group
	now := pcs.NodeGroup{}

	if template.Verb == Nothing {
		g.TemplateID = in.slot.Template.ID
		g.TemplateVersion = in.slot.Template.Version
	}

	step := Step{What: WhatNodeGroup, Name: g.Name, Verb: Create}
	switch {
	case in.slot.HasFailed():
		step.Verb = Replace
		step.add("could not be created", in.slot.Group.Failures.String())
	case in.slot.Group != nil:
		step.Verb = Nothing
		now = *in.slot.Group
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

	return step.withAction(in, in.slot.Name, func(ctx context.Context, w World) (err error) {
		if g.TemplateVersion == "" {
			g.TemplateID = in.writtenTemplate.ID
			g.TemplateVersion = in.writtenTemplate.Version
		}

		in.createdGroup, _, err = w.EnsureNodeGroup(ctx, g, step.Verb != Nothing)

		return err
	}), compared
}

func (in *inspection) queueStep() Step {
	step := Step{What: WhatQueue, Name: in.request.Queue, Verb: Create}
	q, found := in.Queue(in.request.Queue)
	names := []string{}
	if found {
		if !in.Owns(q.Tags) {
			in.notOurs("queue", q.Name, q.ARN)
		}

		step.Verb = Update
		if in.slot.Group != nil && !in.slot.HasFailed() && slices.Contains(q.GroupIDs, in.slot.Group.ID) {
			step.Verb = Nothing
		}

		for _, id := range q.GroupIDs {
			if g, ok := in.Group(id); ok && g.Name != in.slot.Name {
				names = append(names, g.Name)
			}
		}
	}

	step.add("node groups", strings.Join(append(names, in.slot.Name), ", "))

	if to, now := in.queueSettings()[lock], q.SlurmSettings[lock]; to != "" && now != to && found {
		step.Verb = Update
		step.add(lock, cmp.Or(now, "none")+" → "+to)
	} else {
		step.add(lock, to)
	}

	return step.withChange(in, in.slot.Name, func(ctx context.Context, w World) error {
		return w.EnsureQueue(ctx, pcs.Queue{
			Name:          step.Name,
			ClusterID:     in.Cluster.ID,
			GroupIDs:      []string{in.createdGroup.ID},
			SlurmSettings: in.queueSettings(),
			Tags:          map[string]string{capacity.TagCluster: in.Cluster.Name},
		})
	})
}

// fenceStep returns the step of the slot's fence. An existing fence is extended over the nodes of a changed node group.
func (in *inspection) fenceStep(group Verb) Step {
	step := Step{What: WhatFence, Name: in.slot.Name, Verb: Create}
	switch {
	case in.slot.Slurm.Fenced(in.reservation.ID) && group == Nothing:
		step.Verb = Nothing
	case in.slot.Slurm.Fenced(in.reservation.ID):
		step.Verb = Update
	}

	step.add("fence", capacity.FormatUTC(in.request.Config.Timing.Domain().Window(in.reservation).Fence))

	return step.withAction(in, in.slot.Name, func(ctx context.Context, w World) error {
		return placeFence(ctx, w, in.request.Queue, in.slot.Name, in.reservation.ID)
	})
}

// fileSteps returns the steps for the files of the configuration, so that the partition is in it.
func (in *inspection) fileSteps() []Step {
	c := in.request.Config
	there := in.partitionFile
	path := in.request.ConfigPath

	place := config.ClusterRef{Region: in.Region}
	if !in.OnEC2() { // self-managed Slurm has no name in the settings
		place.Cluster = in.Cluster.Name
	}

	main := Step{What: WhatFile, Name: path, Verb: Nothing}
	asPackaged := c.Cluster == "" && len(c.Partitions) == 0 && (c.Region == "" || c.Region == place.Region)

	switch {
	case c.Path == "": // there is none
		main.Verb = Create
	case !in.OnEC2() && asPackaged:
		main.Verb = Update
	case c.Region != "" && c.Region != place.Region,
		c.Cluster != place.Cluster && (in.OnEC2() || c.Cluster != in.Cluster.ID):
		const own = "self-managed Slurm"
		in.problem(capacity.ConfigCluster, "correct cluster and region there, or name other settings with --config",
			"%s is for %s in %s, not for %s in %s", path, cmp.Or(c.Cluster, own), cmp.Or(c.Region, place.Region),
			cmp.Or(place.Cluster, own), place.Region)
	}

	if main.Verb != Nothing {
		main.add("region", place.Region)
		main.add("cluster", place.Cluster)
	}

	file := Step{What: WhatFile, Name: there.path, Verb: Create}
	old, wanted := in.partition()
	switch {
	case there.err != nil:
		in.problem(capacity.ConfigFile, "make the file readable", "%s", there.err)
	case old == nil && !there.owned:
		in.problem(capacity.ConfigFile, "choose another --queue, or move that file away",
			"%s exists, but was not written by pcs-capacity and has no partition %q", file.Name, in.request.Queue)
	case old == nil:
	case reflect.DeepEqual(*old, wanted):
		file.Name = old.File
		file.Verb = Nothing
	case old.File != file.Name || !there.owned:
		snippet, _ := config.NodeGroupText(wanted.Group(in.wantedEntry.Name)) // what is read can be written
		in.problem(capacity.PartitionFile, "add this there, or bring it up to date, and run this again:\n"+snippet,
			"partition %q is written in %s, which pcs-capacity did not write", in.request.Queue, old.File)
	default:
		file.Verb = Update
	}

	file.add("partition", in.request.Queue)
	file.add("node_group", in.wantedEntry.Name)
	file.add("capacity_reservation_ids", strings.Join(wanted.Group(in.wantedEntry.Name).ReservationIDs, ", "))

	var was capacity.GroupSettings
	if old != nil {
		was = old.Group(in.wantedEntry.Name)
	}

	file.addGroup(was, wanted.Group(in.wantedEntry.Name))
	file.add("allow_accounts", strings.Join(wanted.AllowAccounts, ", "))

	if old != nil {
		file.add("ended, removed", strings.Join(difference(reservationsOf(*old), reservationsOf(wanted)...), ", "))
	}

	of := in.group.Name

	return []Step{
		main.withChange(in, of, func(_ context.Context, w World) error { return w.WritePlace(path, place) }),
		file.withChange(in, of,
			func(_ context.Context, w World) error { return writePartition(w, path, file.Name, old, wanted, false) }),
	}
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
}

func reservationsOf(p capacity.PartitionSettings) (ids []string) {
	for _, g := range p.Groups {
		ids = append(ids, g.ReservationIDs...)
	}
	return ids
}

// partition returns the present partition, nil for none, and the wanted one: with the reservation, and in a file of
// ours without ended ones.
func (in *inspection) partition() (old *capacity.PartitionSettings, wanted capacity.PartitionSettings) {
	p := in.settings()
	wanted = p
	if p.Name == "" {
		wanted = config.NewPartition(in.request.Queue, in.Provider)
	} else {
		old = &p
	}

	wanted.AllowAccounts = in.allowAccounts()
	wanted.Groups = slices.Clone(p.Groups)
	if p.File == in.partitionFile.path && in.partitionFile.owned {
		isOver := func(id string) bool { _, over := in.IsLive(id); return over }
		for i := range wanted.Groups {
			g := &wanted.Groups[i]
			g.ReservationIDs = slices.DeleteFunc(slices.Clone(g.ReservationIDs), isOver)
		}
	}

	isWanted := func(g capacity.GroupSettings) bool { return g.Name == in.wantedEntry.Name }
	if i := slices.IndexFunc(wanted.Groups, isWanted); i >= 0 {
		wanted.Groups[i] = in.merge(wanted.Groups[i])
	} else {
		wanted.Groups = append(wanted.Groups, in.wantedEntry)
	}

	return old, wanted
}

// merge adds a reservation to a node group. An entry stands for both slots, so it has the subnets of
// both and the larger of their sizes. A selected reservation is not listed.
func (in *inspection) merge(g capacity.GroupSettings) capacity.GroupSettings {
	with := in.wantedEntry
	alone := false
	if !g.Select.Matches(in.reservation) {
		alone = len(g.ReservationIDs) == 0 || slices.Equal(g.ReservationIDs, with.ReservationIDs)
		g.ReservationIDs = union(g.ReservationIDs, with.ReservationIDs)
		g.Select = nil
	}

	switch {
	case !alone:
		g.SubnetIDs = union(g.SubnetIDs, with.SubnetIDs)
		g.MaxNodes = max(g.MaxNodes, with.MaxNodes)
	case sameSet(g.SubnetIDs, with.SubnetIDs): // in the order that they have
		g.MaxNodes = with.MaxNodes
	default:
		g.SubnetIDs = with.SubnetIDs
		g.MaxNodes = with.MaxNodes
	}

	g.LaunchTemplate = with.LaunchTemplate
	g.InstanceType = with.InstanceType
	g.Dynamic = with.Dynamic
	g.PurchaseOption = with.PurchaseOption

	return g
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
