package setup

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func (in *inspection) templateStep(want *wanted, slot slotState) Step {
	step := Step{What: WhatTemplate, Name: want.template.Name, Verb: Create}
	switch {
	case slot.template.ID == "":
	case !in.ours(slot.template.Tags):
		in.notOurs("launch template", slot.template.Name, slot.template.ID)
	case slot.template.Digest == in.planned.Digest:
		step.Verb = Nothing
	default:
		step.Verb = Update
	}
	now := slot.template
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
	case in.onEC2():
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
		step.add("copied from", "node group "+in.likeWords())
	case in.source.ID == "" || in.onEC2() && in.source.ID == slot.template.ID:
	case in.onEC2():
		step.add("copied from", fmt.Sprintf("%s version %s", in.source.Name, in.source.Version))
	default:
		step.add("copied from", fmt.Sprintf("%s version %s (%s)", in.source.Name, in.source.Version, in.likeWords()))
	}
	return step
}

// likeWords name the node group that is copied, and say why where nobody named it.
func (in *inspection) likeWords() string {
	if in.likeFound == "" {
		return in.like.Name
	}
	return in.like.Name + ", " + in.likeFound
}

// wantedGroup returns the wanted node group with its launch template, whose version is unknown
// until the template's step is carried out.
func wantedGroup(want *wanted, slot slotState, template Step) pcs.NodeGroup {
	g := want.group
	if template.Verb == Nothing {
		g.TemplateID, g.TemplateVersion = slot.template.ID, slot.template.Version
	}
	return g
}

// groupStep returns the node group's step, and compares an existing node group with the wanted one.
func groupStep(want *wanted, slot slotState, template Step) (Step, pcs.Comparison) {
	g := want.group
	step := Step{What: WhatNodeGroup, Name: g.Name, Verb: Create}
	if slot.failed() {
		step.Verb = Replace
		step.add("could not be created", slot.group.Failures.String())
	}
	if slot.group == nil || slot.failed() {
		step.add("purchase option", g.PurchaseOption.PCSPurchaseOption())
		step.add("instance type", strings.Join(g.InstanceTypes, ", "))
		step.add("nodes", g.Scaling())
		step.add("subnets", strings.Join(g.SubnetIDs, ", "))
		step.add("image", g.AMI)
		step.add("instance profile", g.InstanceProfile)
		step.add("reservation", g.Tags[capacity.TagReservation])
		step.add("Slurm settings", pcs.SettingsText(g.SlurmSettings))
		step.add("lifecycle actions", g.Actions.String())
		return step, nil
	}
	compared := slot.group.Compare(wantedGroup(want, slot, template))
	step.Verb = Nothing
	for _, s := range compared {
		value := s.Want
		if s.Changed() {
			step.Verb = Update
			value = orNone(s.Now) + " → " + s.Want
		}
		step.add(s.Name, value)
	}
	return step, compared
}

func (in *inspection) queueStep(want *wanted, slot slotState) Step {
	step := Step{What: WhatQueue, Name: want.queue, Verb: Create}
	if q, found := in.inv.Queue(want.queue); found {
		if !in.ours(q.Tags) {
			in.notOurs("queue", q.Name, q.ARN)
		}
		step.Verb = Update
		if slot.group != nil && !slot.failed() && slices.Contains(q.GroupIDs, slot.group.ID) {
			step.Verb = Nothing
		}
		if step.addLock(q, want) {
			step.Verb = Update
		}
		var names []string
		for _, id := range q.GroupIDs {
			if g, ok := in.inv.Group(id); ok && g.Name != slot.name {
				names = append(names, g.Name)
			}
		}
		step.add("node groups", strings.Join(append(names, slot.name), ", "))
		return step
	}
	step.add("node groups", slot.name)
	step.addLock(pcs.Queue{}, want)
	return step
}

// fenceStep returns the step of the slot's fence. An existing fence is extended over the nodes of a
// changed node group.
func (in *inspection) fenceStep(want *wanted, slot slotState, group Verb) Step {
	step := Step{What: WhatFence, Name: slot.name, Verb: Create}
	switch {
	case in.fence.fenced(in.reservation.ID) && group == Nothing:
		step.Verb = Nothing
	case in.fence.fenced(in.reservation.ID):
		step.Verb = Update
	}
	timing := config.Default().Timing
	if in.request.Config != nil {
		timing = in.request.Config.Timing
	}
	step.add("fence", capacity.FormatUTC(timing.Domain().Window(in.reservation).Fence))
	return step
}
