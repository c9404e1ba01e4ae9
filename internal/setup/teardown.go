package setup

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// TeardownRequest holds the arguments of teardown.
type TeardownRequest struct {
	// Provider launches the nodes; "" stands for PCS.
	Provider capacity.Provider
	// Mark identifies a self-managed cluster.
	Mark string
	// Cluster is a PCS cluster, by name or id; "" takes it from Config.
	Cluster string
	Queue   string
	// NodeGroup is a base name for both slots, or one slot on PCS; "" stands for the queue with
	// all of its node groups.
	NodeGroup string
	// Force proceeds while jobs run; jobs end with their nodes.
	Force bool

	// Config holds the settings; nil if there are none.
	Config *config.Config
	// Former are slots that left the settings while their fences stayed: a run without an answer
	// of Slurm leaves such slots.
	Former []capacity.Partition
}

// TeardownPlan holds the steps of teardown.
type TeardownPlan struct {
	Cluster pcs.Cluster `json:"cluster"`
	Queue   string      `json:"queue"`
	Effects Effects     `json:"steps"`
	// Mismatches are all obstacles. With any, nothing is applied.
	Mismatches []capacity.Problem `json:"mismatches"`
	// Warnings stop nothing.
	Warnings []string `json:"warnings"`
	// ByHand lists work left for the administrator, a sentence each.
	ByHand []string `json:"by_hand"`

	seen *remains
}

// Steps are the lines of the plan.
func (p *TeardownPlan) Steps() []Step { return p.Effects.Steps() }

// Done reports whether nothing of ours is left.
func (p *TeardownPlan) Done() bool { return len(p.Effects)+len(p.Mismatches) == 0 }

// Known reports whether the settings have the requested queue or node group.
func (p *TeardownPlan) Known() bool {
	part, found := p.seen.partition()
	asked := p.seen.request.NodeGroup
	return found && (asked == "" || slices.ContainsFunc(part.Groups, func(g capacity.GroupSettings) bool {
		return g.Name == asked || slices.Contains(capacity.SlotNames(capacity.ProviderPCS, g.Name), asked)
	}))
}

// Reservations are those of what goes.
func (p *TeardownPlan) Reservations() (ids []string) {
	for _, slot := range p.seen.slots {
		if slot.group != nil && slot.group.Tags[capacity.TagReservation] != "" {
			ids = union(ids, []string{slot.group.Tags[capacity.TagReservation]})
		}
	}
	if change := p.seen.settingsChange(); change != nil {
		for _, g := range change.before.Groups {
			left := groupOf(change.after, g.Name).ReservationIDs
			ids = union(ids, slices.DeleteFunc(slices.Clone(g.ReservationIDs), func(id string) bool { return slices.Contains(left, id) }))
		}
	}
	return ids
}

// There returns our queues in settings and AWS.
func (p *TeardownPlan) There() []string {
	var names []string
	if c := p.seen.request.Config; c != nil {
		for _, part := range c.Partitions {
			names = append(names, part.Name)
		}
	}
	for _, q := range p.seen.inv.Queues {
		if p.seen.inv.Cluster.Ours(q.Tags) {
			names = union(names, []string{q.Name})
		}
	}
	slices.Sort(names)
	return names
}

// ErrJobsRun is returned if jobs run on nodes to be removed.
var ErrJobsRun = errors.New("jobs run there")

// PlanTeardown reads the remains of a queue, or of a node group in it, and returns the steps that
// remove them. It changes nothing. An error is a failed read; obstacles are in
// TeardownPlan.Mismatches.
func (s Setup) PlanTeardown(ctx context.Context, r TeardownRequest) (*TeardownPlan, error) {
	t, err := s.findRemains(ctx, r)
	if err != nil {
		return nil, err
	}
	p := decideTeardown(*t)
	p.Cluster = listedCluster(p.Cluster)
	p.Mismatches, p.Warnings, p.ByHand = listed(p.Mismatches), listed(p.Warnings), listed(p.ByHand)
	return p, nil
}

// decideTeardown decides what is removed, in which order, and what prevents it. Slurm's part comes
// first: PCS restarts slurmctld when nodes go.
func decideTeardown(read remains) *TeardownPlan {
	t := &read
	t.problems, t.warnings, t.byHand = slices.Clip(t.problems), slices.Clip(t.warnings), slices.Clip(t.byHand)
	p := &TeardownPlan{Cluster: t.inv.Cluster, Queue: t.request.Queue, seen: &read}
	t.checkJobs()
	settings := t.settingsChange()
	if settings != nil && t.file.err != nil {
		t.problem(capacity.ConfigFile, "make the file readable", "%s", t.file.err)
	}
	own := settings != nil && !settings.ours // the administrator's
	if own {
		t.byHand = append(t.byHand, settings.byHand()...)
	}
	p.Effects = slices.Concat(t.drains(), t.forgets(settings), t.terminates(), t.releases(), t.deletes())
	if len(p.Effects.Steps()) == 0 {
		p.Effects = nil // no instance is there to be ended
	} else {
		p.Effects = append(t.tags(), p.Effects...)
		if own && t.slurm == nil { // while that file has the partition, a pass places fences again
			p.Effects = append(p.Effects, Forget{Queue: t.request.Queue, Slots: t.slotNodes()})
		}
	}
	p.Mismatches, p.Warnings, p.ByHand = t.problems, t.warnings, t.byHand
	return p
}

func (t *remains) step(what, name string, action Action, slot string) Step {
	return Step{What: what, Name: name, Action: action, about: capacity.Subject{Partition: t.request.Queue, Slot: slot}}
}

// tags adds the queue's name to things without it: a later run finds them by that tag once queue
// and settings are gone.
func (t *remains) tags() (effects Effects) {
	queue := map[string]string{capacity.TagPartition: t.request.Queue}
	add := func(slot, what, name, of string, has map[string]string) {
		if has[capacity.TagPartition] != t.request.Queue {
			step := t.step(what, name, Update, slot)
			step.add("tag", capacity.TagPartition+"="+t.request.Queue)
			effects = append(effects, WriteTag{Step: step, Of: of, Tags: queue})
		}
	}
	for _, slot := range t.slots {
		if g := slot.group; g != nil {
			add(slot.name, WhatNodeGroup, g.Name, g.ARN, g.Tags)
		}
		if lt := slot.template; lt.ID != "" {
			add(slot.name, WhatTemplate, lt.Name, lt.ID, lt.Tags)
		}
	}
	return effects
}

func (t *remains) drains() Effects {
	if t.request.Provider.Guest() {
		return nil
	}
	drain := DrainNodes{Queue: t.request.Queue, Force: t.request.Force}
	for _, slot := range t.slots {
		if len(slot.slurm.Nodes) > 0 {
			step := t.step(WhatNodes, slot.name, Drain, slot.name)
			step.add("nodes", strconv.Itoa(len(slot.slurm.Nodes)))
			drain.steps = append(drain.steps, step)
			drain.Slots = append(drain.Slots, SlotNodes{slot.name, slot.slurm.Nodes})
		}
	}
	if drain.steps == nil {
		return nil
	}
	return Effects{drain}
}

// forgets removes the settings, if their file is ours, and the fences.
func (t *remains) forgets(settings *settingsChange) Effects {
	forget := Forget{Queue: t.request.Queue}
	if settings != nil && settings.ours {
		step := t.step(WhatFile, settings.before.File, Delete, "")
		for _, g := range settings.after.Groups {
			step.Action = Update
			step.add("node_group", g.Name)
		}
		forget.steps = append(forget.steps, step)
		forget.Config, forget.Was, forget.Left = t.request.Config.Path, settings.before, settings.after
	}
	for _, slot := range t.slots {
		for _, name := range slot.slurm.Reservations {
			forget.steps = append(forget.steps, t.step(WhatFence, name, Delete, slot.name))
		}
	}
	if forget.steps == nil {
		return nil
	}
	if t.slurm == nil {
		forget.Slots = t.slotNodes()
		if t.request.Config != nil {
			forget.StateDir = t.request.Config.StateDir
		}
	}
	return Effects{forget}
}

// terminates ends instances of self-managed Slurm; on PCS the node groups end theirs.
func (t *remains) terminates() Effects {
	if !t.request.Provider.Launches() {
		return nil
	}
	end := TerminateInstances{Mark: t.request.Mark, Queue: t.request.Queue, Going: t.going()}
	for _, slot := range t.slots {
		if slot.instances > 0 {
			step := t.step(WhatInstances, slot.name, Terminate, slot.name)
			step.add("instances", strconv.Itoa(slot.instances))
			end.steps = append(end.steps, step)
		}
	}
	return Effects{end}
}

// deletes removes the node groups, and then their launch templates.
func (t *remains) deletes() (effects Effects) {
	for _, slot := range t.slots {
		if slot.group != nil {
			step := t.step(WhatNodeGroup, slot.name, Delete, slot.name)
			step.add("reservation", slot.group.Tags[capacity.TagReservation])
			if slot.instances > 0 {
				step.add("instances", strconv.Itoa(slot.instances))
			}
			effects = append(effects, DeleteGroup{Step: step, Cluster: t.inv.Cluster})
		}
	}
	for _, slot := range t.slots {
		if slot.template.ID != "" {
			effects = append(effects, DeleteTemplate{
				Step: t.step(WhatTemplate, slot.template.Name, Delete, slot.name),
				ID:   slot.template.ID,
				Mark: t.inv.Cluster.Name,
			})
		}
	}
	return effects
}
