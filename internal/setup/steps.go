package setup

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// templateStep leaves what it has written in want.
func (in *inspection) templateStep(want *wanted, slot site.Slot) Step {
	step := Step{What: WhatTemplate, Name: want.template.Name, Verb: Create}
	switch {
	case slot.Template.ID == "":
	case !in.Ours(slot.Template.Tags):
		in.notOurs("launch template", slot.Template.Name, slot.Template.ID)
	case slot.Template.Digest == in.launch.Template.Digest:
		step.Verb = Nothing
	default:
		step.Verb = Update
	}
	now := slot.Template
	if step.Verb != Update {
		now = capacity.LaunchTemplate{}
	}
	step.change("reservation", now.ReservationID, want.template.ReservationID)
	step.add("market type", want.template.Kind.Market())
	step.change("instance type", now.InstanceType, want.template.InstanceType)
	step.change("image", now.ImageID, want.template.ImageID)
	if in.launch.Image.Name != "" {
		step.add("image name", in.launch.Image.String())
	}
	step.add("placement group", want.template.PlacementGroup)
	efaNow := ""
	if now.ID != "" {
		efaNow = in.efaWord(efaOf(now))
	}
	step.change("network interfaces", efaNow, in.efaWord(in.efa()))
	step.change("security groups", strings.Join(now.SecurityGroupIDs, ", "), strings.Join(in.source.SecurityGroupIDs, ", "))
	script := ""
	switch {
	case in.OnEC2():
		step.change("instance profile", now.InstanceProfile, want.template.InstanceProfile)
		script = in.nodeScript
	case len(in.userData) > 0:
		script = "of " + in.like.Name
	}
	if now.ID != "" && !bytes.Equal(now.UserData, in.userData) {
		script = strings.TrimPrefix(script+", changed", ", ")
	}
	step.add("user data", script)
	switch {
	case in.like.ID != "" && in.like.TemplateID == "":
		step.add("copied from", "node group "+in.like.Name)
	case in.source.ID == "" || in.OnEC2() && in.source.ID == slot.Template.ID:
	default:
		step.add("copied from", strings.TrimSuffix(fmt.Sprintf("%s version %s (%s)", in.source.Name, in.source.Version, in.like.Name), " ()"))
	}
	return step.changing(in, slot.Name, func(ctx context.Context, w World) (err error) {
		want.written, err = w.EnsureLaunchTemplate(ctx, want.template)
		return err
	})
}

// groupStep returns the node group's step, and compares an existing node group with the wanted one. It leaves the node
// group that there is then in want. The version of its launch template is unknown until that one's step is carried out.
func (w *wanted) groupStep(slot site.Slot, template Step) (Step, pcs.Comparison) {
	g, now := w.group, pcs.NodeGroup{}
	if template.Verb == Nothing {
		g.TemplateID, g.TemplateVersion = slot.Template.ID, slot.Template.Version
	}
	step := Step{What: WhatNodeGroup, Name: g.Name, Verb: Create}
	switch {
	case slot.Failed():
		step.Verb = Replace
		step.add("could not be created", slot.Group.Failures.String())
	case slot.Group != nil:
		step.Verb, now = Nothing, *slot.Group
	}
	isNew := step.Verb != Nothing
	compared := now.Compare(g)
	for i, s := range compared {
		value := s.Want
		if !isNew && s.Changed() {
			step.Verb, value = Update, cmp.Or(s.Now, "none")+" → "+s.Want
		}
		if step.add(s.Name, value); isNew && i == 0 {
			step.add("instance type", strings.Join(g.InstanceTypes, ", "))
		}
	}
	if isNew {
		step.add("Slurm settings", pcs.SettingsText(g.SlurmSettings, ", "))
		compared = nil
	}
	return step.with(w.inspection, slot.Name, func(ctx context.Context, world World) (err error) {
		if step.Verb == Nothing {
			w.made, err = world.AwaitNodeGroup(ctx, g)
			return err
		}
		if g.TemplateVersion == "" {
			g.TemplateID, g.TemplateVersion = w.written.ID, w.written.Version
		}
		w.made, _, err = world.EnsureNodeGroup(ctx, g, true)
		return err
	}), compared
}

func (in *inspection) queueStep(want *wanted, slot site.Slot) Step {
	step := Step{What: WhatQueue, Name: want.request.Queue, Verb: Create}
	q, found := in.Queue(want.request.Queue)
	names := []string{}
	if found {
		if !in.Ours(q.Tags) {
			in.notOurs("queue", q.Name, q.ARN)
		}
		step.Verb = Update
		if slot.Group != nil && !slot.Failed() && slices.Contains(q.GroupIDs, slot.Group.ID) {
			step.Verb = Nothing
		}
		for _, id := range q.GroupIDs {
			if g, ok := in.Group(id); ok && g.Name != slot.Name {
				names = append(names, g.Name)
			}
		}
	}
	step.add("node groups", strings.Join(append(names, slot.Name), ", "))
	if to, now := want.queueSettings(q.SlurmSettings)[lock], q.SlurmSettings[lock]; to != "" && now != to && found {
		step.Verb = Update
		step.add(lock, cmp.Or(now, "none")+" → "+to)
	} else {
		step.add(lock, to)
	}
	return step.changing(in, slot.Name, func(ctx context.Context, w World) error {
		return w.EnsureQueue(ctx, want.queueWith(q, []string{want.made.ID}))
	})
}

// fenceStep returns the step of the slot's fence. An existing fence is extended over the nodes of a changed node group.
func (in *inspection) fenceStep(slot site.Slot, group Verb) Step {
	step := Step{What: WhatFence, Name: slot.Name, Verb: Create}
	switch {
	case slot.Slurm.Fenced(in.reservation.ID) && group == Nothing:
		step.Verb = Nothing
	case slot.Slurm.Fenced(in.reservation.ID):
		step.Verb = Update
	}
	timing := config.Default().Timing
	if in.request.Config != nil {
		timing = in.request.Config.Timing
	}
	step.add("fence", capacity.FormatUTC(timing.Domain().Window(in.reservation).Fence))
	return step.with(in, slot.Name, func(ctx context.Context, w World) error {
		return placeFence(ctx, w, in.request.Queue, slot.Name, in.reservation.ID)
	})
}

// files are the steps for the files of the configuration, so that the partition is in it.
func (want *wanted) files() []Step {
	c, there, path, place := want.request.Config, want.file, want.request.ConfigPath, config.Place{Region: want.Region}
	if !want.OnEC2() { // self-managed Slurm has no name in the settings
		place.Cluster = want.Cluster.Name
	}
	main := Step{What: WhatFile, Name: path, Verb: Nothing}
	switch {
	case c == nil:
		main.Verb = Create
	case !want.OnEC2() && c.Cluster == "" && len(c.Partitions) == 0 && (c.Region == "" || c.Region == place.Region): // as the packages bring it
		main.Verb = Update
	case c.Region != "" && c.Region != place.Region, c.Cluster != place.Cluster && (want.OnEC2() || c.Cluster != want.Cluster.ID):
		of := func(cluster, region string) string {
			if cluster != "" {
				cluster = "PCS cluster " + cluster
			}
			return cmp.Or(cluster, "self-managed Slurm") + " in " + cmp.Or(region, place.Region)
		}
		want.problem(capacity.ConfigCluster, "correct cluster and region there, or name other settings with --config", "%s is for %s, not for %s",
			path, of(c.Cluster, c.Region), of(place.Cluster, place.Region))
	}
	if main.Verb != Nothing {
		main.add("region", place.Region)
		main.add("cluster", place.Cluster)
	}
	file := Step{What: WhatFile, Name: there.path, Verb: Create}
	old, wanted := partition(c, want)
	switch {
	case there.err != nil:
		want.problem(capacity.ConfigFile, "make the file readable", "%s", there.err)
	case old == nil && !there.ours:
		want.problem(capacity.ConfigFile, "choose another --queue, or move that file away",
			"%s is there, but is not ours and has no partition %q", file.Name, want.request.Queue)
	case old == nil:
	case reflect.DeepEqual(*old, wanted):
		file.Name, file.Verb = old.File, Nothing
	case old.File != file.Name || !there.ours:
		snippet, _ := config.NodeGroupText(wanted.Group(want.partition.Name)) // what is read can be written
		want.problem(capacity.PartitionFile, "add this there, or bring it up to date, and run this again:\n"+snippet,
			"partition %q is written in %s, which is not ours to change", want.request.Queue, old.File)
	default:
		file.Verb = Update
	}
	file.add("partition", want.request.Queue)
	file.add("node_group", want.partition.Name)
	file.add("capacity_reservation_ids", strings.Join(wanted.Group(want.partition.Name).ReservationIDs, ", "))
	var was capacity.GroupSettings
	if old != nil {
		was = old.Group(want.partition.Name)
	}
	file.addGroup(was, wanted.Group(want.partition.Name))
	file.add("allow_accounts", strings.Join(wanted.AllowAccounts, ", "))
	if old != nil {
		file.add("ended, removed", strings.Join(without(reservationsOf(*old), reservationsOf(wanted)...), ", "))
	}
	of := want.group.Name
	return []Step{main.changing(want.inspection, of, func(_ context.Context, w World) error { return w.WritePlace(path, place) }),
		file.changing(want.inspection, of, func(_ context.Context, w World) error { return writePartition(w, path, file.Name, old, wanted, false) })}
}

// addGroup says what becomes of a node group's entry, beside its reservations; was has no name for a new one.
func (s *Step) addGroup(was, is capacity.GroupSettings) {
	s.change("launch_template", was.LaunchTemplate, is.LaunchTemplate)
	if was.Name == "" {
		return
	}
	for _, one := range []struct{ key, was, is string }{
		{"purchase_option", string(was.PurchaseOption), string(is.PurchaseOption)},
		{"subnet_ids", strings.Join(was.SubnetIDs, ", "), strings.Join(is.SubnetIDs, ", ")},
		{"max_nodes", strconv.Itoa(was.MaxNodes), strconv.Itoa(is.MaxNodes)},
		{"dynamic", strconv.FormatBool(was.Dynamic), strconv.FormatBool(is.Dynamic)},
	} {
		if one.was != one.is {
			s.change(one.key, one.was, one.is)
		}
	}
}

// reservationsOf are those that a partition lists.
func reservationsOf(p capacity.PartitionSettings) (ids []string) {
	for _, g := range p.Groups {
		ids = append(ids, g.ReservationIDs...)
	}
	return ids
}

// partition returns the present partition, nil for none, and the wanted one: with the reservation, and in a file of ours
// without ended ones.
func partition(c *config.Config, want *wanted) (*capacity.PartitionSettings, capacity.PartitionSettings) {
	p, found := c.Partition(want.request.Queue)
	if !found {
		created := config.NewPartition(want.request.Queue, want.Provider, want.partition)
		created.AllowAccounts = want.allowAccounts()
		return nil, created
	}
	merged := p
	if len(merged.AllowAccounts) == 0 {
		merged.AllowAccounts = want.allowAccounts()
	}
	merged.Groups = slices.Clone(p.Groups)
	for i := range merged.Groups {
		if p.File == want.file.path && want.file.ours {
			merged.Groups[i].ReservationIDs = slices.DeleteFunc(slices.Clone(merged.Groups[i].ReservationIDs), func(id string) bool { _, over := want.Live(id); return over })
		}
	}
	i := slices.IndexFunc(merged.Groups, func(g capacity.GroupSettings) bool { return g.Name == want.partition.Name })
	if i < 0 {
		merged.Groups = append(merged.Groups, want.partition)
	} else {
		merged.Groups[i] = merge(merged.Groups[i], want)
	}
	return &p, merged
}

// merge adds a reservation to a node group. An entry stands for both slots, so it has the subnets of
// both and the larger of their sizes. A selected reservation is not listed.
func merge(g capacity.GroupSettings, want *wanted) capacity.GroupSettings {
	with, alone := want.partition, false
	if !g.Select.Matches(want.reservation) {
		alone = len(g.ReservationIDs) == 0 || slices.Equal(g.ReservationIDs, with.ReservationIDs)
		g.ReservationIDs, g.Select = union(g.ReservationIDs, with.ReservationIDs), nil
	}
	g.SubnetIDs = union(g.SubnetIDs, with.SubnetIDs)
	if alone {
		g.MaxNodes = with.MaxNodes
	}
	if alone && !sameSet(g.SubnetIDs, with.SubnetIDs) {
		g.SubnetIDs = with.SubnetIDs
	}
	g.MaxNodes = max(g.MaxNodes, with.MaxNodes)
	g.LaunchTemplate = with.LaunchTemplate
	g.InstanceType, g.Dynamic = with.InstanceType, with.Dynamic
	g.PurchaseOption = with.PurchaseOption
	return g
}

// without is a list without some of its members.
func without(list []string, some ...string) []string {
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
