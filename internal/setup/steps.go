package setup

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Action is what a step does.
type Action string

// The actions.
const (
	Create  Action = "create"
	Update  Action = "update"
	Replace Action = "replace" // delete what could not be created, and create it
	Delete  Action = "delete"
	Drain   Action = "drain"
	Nothing Action = "nothing"
	// Terminate is EC2's word for instances.
	Terminate Action = "terminate"
)

// What a step is about.
const (
	WhatTemplate  = "launch template"
	WhatNodeGroup = pcs.WhatNodeGroup
	WhatQueue     = pcs.WhatQueue
	WhatFile      = "file"
	WhatNodes     = "Slurm nodes"
	WhatInstances = "instances"
	WhatFence     = "Slurm reservation"
)

// Step is one thing to do.
type Step struct {
	What    string   `json:"what"`
	Name    string   `json:"name"`
	Action  Action   `json:"action"`
	Details []Detail `json:"details"`
}

// Detail is one line of a step, for a table.
type Detail struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (in *inspection) templateStep(want *wanted, slot slotState) Step {
	step := Step{What: WhatTemplate, Name: want.template.Name, Action: Create}
	switch {
	case slot.template.ID == "":
	case !in.ours(slot.template.Tags):
		in.notOurs("launch template", slot.template.Name, slot.template.ID)
	case slot.template.Digest == in.digest:
		step.Action = Nothing
	default:
		step.Action = Update
	}
	now := slot.template
	if step.Action != Update {
		now = capacity.LaunchTemplate{}
	}
	step.change("reservation", now.ReservationID, want.template.ReservationID)
	step.add("market type", marketWord(want.template.Kind))
	step.change("instance type", now.InstanceType, want.template.InstanceType)
	step.change("image", now.ImageID, want.template.ImageID)
	step.add("placement group", want.template.PlacementGroup)
	efaNow := ""
	if now.ID != "" {
		efaNow = in.efaWord(efaOf(now))
	}
	step.change("network interfaces", efaNow, in.efaWord(in.efa()))
	step.add("package", in.installWord())
	step.change("security groups", strings.Join(now.SecurityGroupIDs, ", "), strings.Join(in.securityGroups(), ", "))
	step.add("root volume", rootWord(want.template.RootVolume))
	script := ""
	switch {
	case in.onEC2():
		step.change("instance profile", now.InstanceProfile, want.template.InstanceProfile)
		script = in.nodeScript
	case len(in.request.UserData) > 0:
		script = fmt.Sprintf("%d bytes as MIME multi-part", len(in.userData))
	case len(in.userData) > 0:
		script = "of " + in.like.Name
	}
	if now.ID != "" && !bytes.Equal(now.UserData, in.userData) {
		script = strings.TrimPrefix(script+", changed", ", ")
	}
	step.add("user data", script)
	switch {
	case in.source.ID == "" || in.onEC2() && in.source.ID == slot.template.ID:
	case in.onEC2():
		step.add("copied from", fmt.Sprintf("%s version %s", in.source.Name, in.source.Version))
	default:
		step.add("copied from", fmt.Sprintf("%s version %s (%s)", in.source.Name, in.source.Version, in.like.Name))
	}
	return step
}

// rootWord is what becomes of the root volume; "" if that of image and copy stays.
func rootWord(v capacity.RootVolume) string {
	var words []string
	if v.GiB > 0 {
		words = append(words, fmt.Sprintf("%d GiB", v.GiB))
	}
	if v.Type != "" {
		words = append(words, v.Type)
	}
	return strings.Join(words, " ")
}

// marketWord is what the template says as MarketType; an ODCR has none.
func marketWord(k capacity.Kind) string {
	switch k {
	case capacity.CapacityBlock:
		return "capacity-block"
	case capacity.InterruptibleODCR:
		return "interruptible-capacity-reservation"
	}
	return ""
}

// wantedGroup is the wanted node group with its launch template; where that is still to be
// changed, its version is not known yet.
func wantedGroup(want *wanted, slot slotState, template Step) pcs.NodeGroup {
	g := want.group
	if template.Action == Nothing {
		g.TemplateID, g.TemplateVersion = slot.template.ID, slot.template.Version
	}
	return g
}

// groupStep says what to do to the node group, and compares it with the wanted one if
// it is there.
func groupStep(want *wanted, slot slotState, template Step) (Step, pcs.Comparison) {
	g := want.group
	step := Step{What: WhatNodeGroup, Name: g.Name, Action: Create}
	if slot.failed() {
		step.Action = Replace
		step.add("could not be created", slot.group.Failures.String())
	}
	if slot.group == nil || slot.failed() {
		step.add("purchase option", pcs.PurchaseOption(g.PurchaseOption))
		step.add("instance type", strings.Join(g.InstanceTypes, ", "))
		step.add("nodes", g.Scaling())
		step.add("subnets", strings.Join(g.SubnetIDs, ", "))
		step.add("image", g.AMI)
		step.add("instance profile", g.InstanceProfile)
		step.add("reservation", g.Tags[capacity.TagReservation])
		step.add("Slurm settings", pcs.SettingsText(g.SlurmSettings))
		return step, nil
	}
	compared := slot.group.Compare(wantedGroup(want, slot, template))
	step.Action = Nothing
	for _, s := range compared {
		value := s.Want
		if s.Changed() {
			step.Action = Update
			value = orNone(s.Now) + " → " + s.Want
		}
		step.add(s.Name, value)
	}
	return step, compared
}

func (in *inspection) queueStep(want *wanted, slot slotState) Step {
	step := Step{What: WhatQueue, Name: want.queue, Action: Create}
	if q, found := in.inv.Queue(want.queue); found {
		if !in.ours(q.Tags) {
			in.notOurs("queue", q.Name, q.ARN)
		}
		step.Action = Update
		if slot.group != nil && slices.Contains(q.GroupIDs, slot.group.ID) {
			step.Action = Nothing
		}
		if step.addLock(q, want) {
			step.Action = Update
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

// change appends a detail with what there is now, where that is something else.
func (s *Step) change(key, now, want string) {
	if now != "" && now != want {
		want = now + " → " + orNone(want)
	}
	s.add(key, want)
}

// add appends a detail; one without a value is left out.
func (s *Step) add(key, value string) {
	if value != "" {
		s.Details = append(s.Details, Detail{key, value})
	}
}
