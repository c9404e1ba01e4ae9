package setup

import (
	"context"
	"errors"
	"fmt"
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
	// NodeGroup is a base name for both slots, or one slot on PCS; "" stands for the queue with all of its node groups.
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
	Actions Steps       `json:"steps"`
	// Mismatches are all obstacles. With any, nothing is applied.
	Mismatches []capacity.Problem `json:"mismatches"`
	// Warnings stop nothing.
	Warnings []string `json:"warnings"`
	// ByHand lists work left for the administrator, a sentence each.
	ByHand []string `json:"by_hand"`

	seen *remains
}

// Steps are the lines of the plan.
func (p *TeardownPlan) Steps() Steps { return p.Actions.Shown() }

// Done reports whether nothing of ours is left.
func (p *TeardownPlan) Done() bool { return len(p.Actions)+len(p.Mismatches) == 0 }

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
			ids = union(ids, without(g.ReservationIDs, groupOf(change.after, g.Name).ReservationIDs...))
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

// PlanTeardown reads the remains of a queue, or of a node group in it, and returns the steps that remove them. It
// changes nothing. An error is a failed read; obstacles are in TeardownPlan.Mismatches.
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
	p.Actions = slices.Concat(t.drains(), t.forgets(settings), t.terminates(), t.releases(), t.deletes())
	if len(p.Actions.Shown()) == 0 {
		p.Actions = nil // no instance is there to be ended
	} else {
		p.Actions = append(t.tags(), p.Actions...)
		if own && t.slurm == nil { // while that file has the partition, a pass places fences again
			p.Actions = append(p.Actions, Step{}.with(t.forgetFences))
		}
	}
	p.Mismatches, p.Warnings, p.ByHand = t.problems, t.warnings, t.byHand
	return p
}

func (t *remains) step(what, name string, verb Verb, slot string) Step {
	s := Step{What: what, Name: name, Verb: verb}
	s.About = capacity.Subject{Partition: t.request.Queue, Slot: slot}
	return s
}

// tags adds the queue's name to things without it: a later run finds them by that tag once queue and settings are gone.
func (t *remains) tags() (steps Steps) {
	queue := map[string]string{capacity.TagPartition: t.request.Queue}
	tag := func(slot, what, name string) Step {
		step := t.step(what, name, Update, slot)
		step.add("tag", capacity.TagPartition+"="+t.request.Queue)
		return step
	}
	for _, slot := range t.slots {
		if g := slot.group; g != nil && g.Tags[capacity.TagPartition] != t.request.Queue {
			steps = append(steps, tag(slot.name, WhatNodeGroup, g.Name).with(func(ctx context.Context, w World) error { return w.Tag(ctx, g.ARN, queue) }))
		}
		if lt := slot.template; lt.ID != "" && lt.Tags[capacity.TagPartition] != t.request.Queue {
			steps = append(steps, tag(slot.name, WhatTemplate, lt.Name).with(func(ctx context.Context, w World) error { return w.TagLaunchTemplate(ctx, lt.ID, queue) }))
		}
	}
	return steps
}

func (t *remains) drains() (steps Steps) {
	for _, slot := range t.slots {
		if len(slot.slurm.Nodes) > 0 && !t.request.Provider.Guest() {
			step := t.step(WhatNodes, slot.name, Drain, slot.name)
			step.add("nodes", strconv.Itoa(len(slot.slurm.Nodes)))
			steps = append(steps, step.with(func(ctx context.Context, w World) error {
				return drain(ctx, w, t.request.Queue, slot.name, slot.slurm.Nodes, t.request.Force)
			}))
		}
	}
	return steps
}

// forgets removes the settings, if their file is ours, and with them the fences.
func (t *remains) forgets(settings *settingsChange) (steps Steps) {
	if settings != nil && settings.ours {
		step := t.step(WhatFile, settings.before.File, Delete, "")
		for _, g := range settings.after.Groups {
			step.Verb = Update
			step.add("node_group", g.Name)
		}
		steps = append(steps, step.with(func(ctx context.Context, w World) error { return t.forget(ctx, w, settings) }))
	}
	for _, slot := range t.slots {
		for _, name := range slot.slurm.Reservations {
			steps = append(steps, t.step(WhatFence, name, Delete, slot.name).with(func(ctx context.Context, w World) error { return t.forget(ctx, w, nil) }))
		}
	}
	return steps
}

// terminates ends instances of self-managed Slurm; on PCS the node groups end theirs.
func (t *remains) terminates() (steps Steps) {
	if !t.request.Provider.Launches() {
		return nil
	}
	for _, slot := range t.slots {
		if slot.instances > 0 {
			step := t.step(WhatInstances, slot.name, Terminate, slot.name)
			step.add("instances", strconv.Itoa(slot.instances))
			steps = append(steps, step.with(t.terminate))
		}
	}
	return append(steps, Step{}.with(t.terminate)) // one may come after the plan
}

// deletes removes the node groups, and then their launch templates.
func (t *remains) deletes() (steps Steps) {
	for _, slot := range t.slots {
		if slot.group != nil {
			step := t.step(WhatNodeGroup, slot.name, Delete, slot.name)
			step.add("reservation", slot.group.Tags[capacity.TagReservation])
			if slot.instances > 0 {
				step.add("instances", strconv.Itoa(slot.instances))
			}
			steps = append(steps, step.with(func(ctx context.Context, w World) error { return w.DeleteNodeGroup(ctx, t.inv.Cluster, slot.name) }))
		}
	}
	for _, slot := range t.slots {
		if lt := slot.template; lt.ID != "" {
			step := t.step(WhatTemplate, lt.Name, Delete, slot.name)
			steps = append(steps, step.with(func(ctx context.Context, w World) error {
				return w.DeleteLaunchTemplate(ctx, lt.ID, t.inv.Cluster.Name)
			}))
		}
	}
	return steps
}

// settingsChange is a change of a partition's settings.
type settingsChange struct {
	before, after capacity.PartitionSettings
	// ours: setup wrote the file. Any other file is left alone.
	ours bool
}

// settingsChange returns the change of the partition's settings; nil for none.
func (t *remains) settingsChange() *settingsChange {
	before, found := t.partition()
	if !found {
		return nil
	}
	c := &settingsChange{before: before, after: before}
	c.after.Groups = nil
	for _, g := range before.Groups {
		if left, stays := t.entryLeft(g); stays {
			c.after.Groups = append(c.after.Groups, left)
		}
	}
	same := slices.EqualFunc(before.Groups, c.after.Groups, func(a, b capacity.GroupSettings) bool {
		return a.Name == b.Name && slices.Equal(a.ReservationIDs, b.ReservationIDs)
	})
	if same {
		return nil
	}
	c.ours = t.file.ours && before.File == t.file.path
	return c
}

// entryLeft returns an entry of the settings without the reservations of removed slots; false if the entry goes.
func (t *remains) entryLeft(g capacity.GroupSettings) (left capacity.GroupSettings, stays bool) {
	if t.request.NodeGroup == "" || t.request.NodeGroup == g.Name {
		return g, false
	}
	left = g
	for _, slot := range t.slots {
		if slot.group != nil && slices.Contains(capacity.SlotNames(capacity.ProviderPCS, g.Name), slot.name) {
			left.ReservationIDs = without(left.ReservationIDs, slot.group.Tags[capacity.TagReservation])
		}
	}
	return left, true
}

// byHand lists the administrator's changes of a file that is not ours.
func (c *settingsChange) byHand() []string {
	const notOurs = ", which is not ours to change"
	if len(c.after.Groups) == 0 {
		return []string{fmt.Sprintf("remove partition %q from %s%s", c.before.Name, c.before.File, notOurs)}
	}
	var work []string
	for _, g := range c.before.Groups {
		switch left := groupOf(c.after, g.Name); {
		case left.Name == "":
			work = append(work,
				fmt.Sprintf("remove node_group %q of partition %q from %s%s", g.Name, c.before.Name, c.before.File, notOurs))
		case len(left.ReservationIDs) < len(g.ReservationIDs):
			work = append(work,
				fmt.Sprintf("set capacity_reservation_ids = %q for node_group %q of partition %q in %s%s",
					left.ReservationIDs, g.Name, c.before.Name, c.before.File, notOurs))
		}
	}
	return work
}
