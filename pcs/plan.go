package pcs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// wanted is what a plan leads to.
type wanted struct {
	cluster  Cluster
	region   string
	template capacity.LaunchTemplateSpec
	group    NodeGroup // without ID, status and template version
	queue    string
	tags     map[string]string

	configPath string
	partition  config.NodeGroup
	// reservationTags are those of the reservation, which a select may look for.
	reservationTags map[string]string
}

// plan decides, from what was read, what to do and what is in the way.
func (w *world) plan() *Plan {
	p := &Plan{Cluster: w.inv.Cluster, Reservation: w.reservation}
	w.checkNames()
	if w.inv.Cluster.ID == "" {
		if m := capacity.StateMismatch(w.reservation, w.now); w.reservation.ID != "" && m != nil {
			w.problems = append(w.problems, *m)
		}
		p.Mismatches = w.problems
		return p
	}
	w.checkCluster()
	w.checkLaunch()
	slot := w.chooseSlot()
	want := w.want(slot)
	if w.reservation.ID == "" {
		// What was asked for is all that is known of the number of nodes.
		w.checkQuotas(want, slot)
		p.Mismatches = w.problems
		return p
	}
	w.checkMatch(want, slot)
	w.checkQuotas(want, slot)

	p.Slot = slot.Name
	p.want = want
	templateStep := w.templateStep(want, slot)
	groupStep, disruptive := groupStep(want, slot.Group, templateStep.Action != Nothing || !slot.pinned())
	if slot.ours && disruptive && slot.instances > 0 {
		w.problem("in-use", fmt.Sprintf("wait until the reservation of %s has ended, or until its nodes are down", slot.Name),
			"node group %s has %d instances, which this change would replace under their jobs: %s", slot.Name, slot.instances, changedKeys(groupStep))
	}
	p.Steps = append(p.Steps, templateStep, groupStep, w.queueStep(want, slot))
	files, snippet, problems := planFiles(w.request.Config, want)
	p.Steps, p.Snippet = append(p.Steps, files...), snippet
	p.Mismatches = append(w.problems, problems...)
	p.Warnings = w.warnings()
	return p
}

// chooseSlot takes the slot that has the reservation already, else one without a node
// group, else one whose reservation has ended.
func (w *world) chooseSlot() slotState {
	for _, slot := range w.slots {
		if slot.Group != nil && !slot.ours {
			w.notOurs("compute node group", slot.Name, slot.Group.ARN)
		}
	}
	choices := []func(slotState) bool{
		func(s slotState) bool { return s.ours && s.holds(w.reservation.ID) },
		func(s slotState) bool { return s.Group == nil },
		func(s slotState) bool { return s.ours && !s.live },
	}
	for _, fits := range choices {
		if i := slices.IndexFunc(w.slots, fits); i >= 0 {
			return w.slots[i]
		}
	}
	var held []string
	for _, slot := range w.slots {
		if slot.ours {
			held = append(held, fmt.Sprintf("%s has %s until %s", slot.Name, slot.ReservationID, orNone(shortTime(slot.until))))
		}
	}
	if len(held) > 0 {
		w.problem("slots-taken", "run this again after one of them has ended, or choose another --node-group", "both slots of node group %s are taken: %s", w.request.NodeGroup, strings.Join(held, ", "))
	}
	return w.slots[0]
}

func (w *world) notOurs(what, name, id string) {
	fix := fmt.Sprintf("choose another name, or hand it over by tagging %s with %s=%s", id, capacity.TagCluster, w.inv.Cluster.Name)
	w.problem("not-ours", fix, "%s %s exists, but does not carry our tag, so it is not changed", what, name)
}

// want is the state that the plan leads to.
func (w *world) want(slot slotState) *wanted {
	r := w.reservation
	most := r.Size()
	if w.request.MaxNodes > 0 {
		most = w.request.MaxNodes
	}
	least := most
	if w.request.Dynamic {
		least = 0
	}
	subnets := w.wantedSubnets()
	return &wanted{
		cluster:  w.inv.Cluster,
		region:   w.region,
		template: w.templateSpec(slot.Name),
		tags:     w.tags(),
		queue:    w.request.Queue,
		group: NodeGroup{
			Name: slot.Name, PurchaseOption: r.Kind, InstanceTypes: []string{r.InstanceType}, SubnetIDs: subnets,
			AMI: w.ami(), InstanceProfile: w.profile(), Min: least, Max: most,
		},
		configPath:      w.request.ConfigPath,
		reservationTags: r.Tags,
		partition: config.NodeGroup{
			Name: w.request.NodeGroup, InstanceType: r.InstanceType, SubnetIDs: subnets, PurchaseOption: r.Kind,
			ReservationIDs: []string{r.ID}, MaxNodes: most, Dynamic: w.request.Dynamic,
		},
	}
}

// wantedSubnets are those asked for; or, of those to choose from, the ones in the
// reservation's zone, so that no launch can go anywhere else.
func (w *world) wantedSubnets() []string {
	var ids []string
	for _, s := range w.subnets {
		if (len(w.request.SubnetIDs) > 0 || s.AZID == w.reservation.AZID) && !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func (w *world) templateStep(want *wanted, slot slotState) Step {
	step := Step{What: WhatTemplate, Name: want.template.Name, Action: Create}
	switch {
	case slot.template.ID == "":
	case !w.inv.ours(slot.template.Tags):
		w.notOurs("launch template", slot.template.Name, slot.template.ID)
	case slot.template.Digest == w.digest:
		step.Action = Nothing
	default:
		step.Action = Update
	}
	step.add("reservation", want.template.ReservationID)
	step.add("market type", marketWord(want.template.Kind))
	step.add("instance type", want.template.InstanceType)
	step.add("image", want.template.ImageID)
	step.add("security groups", strings.Join(w.securityGroups(), ", "))
	switch {
	case len(w.request.UserData) > 0:
		step.add("user data", fmt.Sprintf("%d bytes", len(w.request.UserData)))
	case w.source.UserData:
		step.add("user data", "of "+w.like.Name)
	}
	if w.source.ID != "" {
		step.add("copied from", fmt.Sprintf("%s version %s (%s)", w.source.Name, w.source.Version, w.like.Name))
	}
	return step
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

// pinned reports whether the slot's node group has the newest version of the slot's
// launch template.
func (s slotState) pinned() bool {
	return s.Group != nil && s.Group.TemplateID == s.template.ID && s.Group.TemplateVersion == s.template.Version
}

func (w *world) queueStep(want *wanted, slot slotState) Step {
	step := Step{What: WhatQueue, Name: want.queue, Action: Create}
	if q, found := w.inv.Queue(want.queue); found {
		if !w.inv.ours(q.Tags) {
			w.notOurs("queue", q.Name, q.ARN)
		}
		step.Action = Update
		if slot.Group != nil && slices.Contains(q.GroupIDs, slot.Group.ID) {
			step.Action = Nothing
		}
		var names []string
		for _, id := range q.GroupIDs {
			if g, ok := w.inv.Group(id); ok && g.Name != slot.Name {
				names = append(names, g.Name)
			}
		}
		step.add("node groups", strings.Join(append(names, slot.Name), ", "))
		return step
	}
	step.add("node groups", slot.Name)
	return step
}

// add appends a detail; one without a value is left out.
func (s *Step) add(key, value string) {
	if value != "" {
		s.Details = append(s.Details, Detail{key, value})
	}
}

// changedKeys names the details of an update that change something.
func changedKeys(s Step) string {
	var keys []string
	for _, d := range s.Details {
		if strings.Contains(d.Value, arrow) {
			keys = append(keys, d.Key)
		}
	}
	return strings.Join(keys, ", ")
}

const arrow = " → "

// groupStep compares a node group with the wanted one. newTemplate says that the
// group is to be pinned to another version of its launch template. The second value
// says that PCS would replace instances, or take nodes away: everything but more
// nodes and more subnets.
func groupStep(want *wanted, now *NodeGroup, newTemplate bool) (Step, bool) {
	step := Step{What: WhatNodeGroup, Name: want.group.Name, Action: Create}
	g := want.group
	if now == nil {
		step.add("purchase option", string(purchaseOptions[g.PurchaseOption]))
		step.add("instance type", strings.Join(g.InstanceTypes, ", "))
		step.add("nodes", scaling(g))
		step.add("subnets", strings.Join(g.SubnetIDs, ", "))
		step.add("image", g.AMI)
		step.add("instance profile", g.InstanceProfile)
		step.add("reservation", want.tags[capacity.TagReservation])
		return step, false
	}
	disruptive, changed := false, false
	compare := func(key, old, new string, mild bool) {
		if old == new {
			step.add(key, new)
			return
		}
		changed, disruptive = true, disruptive || !mild
		step.add(key, orNone(old)+arrow+new)
	}
	compare("purchase option", string(purchaseOptions[now.PurchaseOption]), string(purchaseOptions[g.PurchaseOption]), false)
	compare("nodes", scaling(*now), scaling(g), g.Max >= now.Max && g.Min >= now.Min)
	compare("subnets", sorted(now.SubnetIDs), sorted(g.SubnetIDs), containsAll(g.SubnetIDs, now.SubnetIDs))
	compare("image", now.AMI, g.AMI, false)
	compare("instance profile", now.InstanceProfile, g.InstanceProfile, false)
	compare("reservation", now.Tags[capacity.TagReservation], want.tags[capacity.TagReservation], false)
	if newTemplate {
		changed, disruptive = true, true
		step.add("launch template", "version "+now.TemplateVersion+arrow+"the newest")
	}
	if now.Status == UpdateFailed {
		changed = true
		step.add("status", string(now.Status)+arrow+string(Active))
	}
	step.Action = Nothing
	if changed {
		step.Action = Update
	}
	return step, disruptive
}

func scaling(g NodeGroup) string {
	if g.Min == g.Max {
		return strconv.Itoa(g.Max)
	}
	return fmt.Sprintf("%d to %d", g.Min, g.Max)
}

func sorted(ids []string) string {
	return strings.Join(slices.Sorted(slices.Values(ids)), ", ")
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(id string) bool { return !slices.Contains(all, id) })
}
