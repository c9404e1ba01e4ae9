package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Known reports whether the settings have the requested queue or node group.
func (p *Plan) Known() bool {
	part, asked := p.seen.settings(), p.seen.request.NodeGroup
	return part.Name != "" && (asked == "" || slices.ContainsFunc(part.Groups, func(g capacity.GroupSettings) bool {
		return g.Name == asked || slices.Contains(capacity.SlotNames(capacity.ProviderPCS, g.Name), asked)
	}))
}

// Reservations are those of what goes.
func (p *Plan) Reservations() (ids []string) {
	for _, slot := range p.seen.Slots {
		if slot.Group != nil && slot.Group.Tags[capacity.TagReservation] != "" {
			ids = union(ids, []string{slot.Group.Tags[capacity.TagReservation]})
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
func (p *Plan) There() (names []string) {
	for _, part := range p.seen.partitions() {
		names = append(names, part.Name)
	}
	for _, q := range p.seen.Queues {
		if p.seen.Ours(q.Tags) {
			names = union(names, []string{q.Name})
		}
	}
	slices.Sort(names)
	return names
}

// ErrJobsRun is returned if jobs run on nodes to be removed.
var ErrJobsRun = errors.New("jobs run there")

// PlanTeardown reads the remains of a queue, or of a node group in it, and returns the steps that remove them. It
// changes nothing. An error is a failed read; obstacles are in Plan.Mismatches.
func (s Setup) PlanTeardown(ctx context.Context, r Request) (*Plan, error) {
	t, err := s.findRemains(ctx, r)
	if err != nil {
		return nil, err
	}
	return planTeardown(*t).listed(), nil
}

// findRemains reads everything left of a queue, or of a node group in it. A killed run may have left any part, so each
// thing is found independently: by the settings, by the queue, and by our tag with the queue's name.
func (s Setup) findRemains(ctx context.Context, r Request) (*inspection, error) {
	t := s.begin(r)
	onPCS, guest := t.Provider == capacity.ProviderPCS, t.Provider.Guest()
	if p := t.settings(); !onPCS && p.Name != "" && p.Provider != t.Provider {
		t.problem(capacity.WrongProvider, "give --provider "+string(p.Provider), "partition %q of %s has provider %q", p.Name, p.File, p.Provider)
		return t, nil
	}
	if err := t.sideBySide(ctx, s.readCluster); err != nil || len(t.problems) > 0 {
		return t, err
	}
	tags := map[string]string{capacity.TagCluster: t.Cluster.Name}
	if !onPCS {
		tags[capacity.TagPartition] = t.request.Queue
	} else if c := r.Config; c != nil && c.Cluster != t.Cluster.Name && c.Cluster != t.Cluster.ID {
		t.warn("%s is for cluster %q, not for %s, so it is left alone", c.Path, c.Cluster, t.Cluster.Name)
		t.request.Config = nil
	}
	var templates []capacity.LaunchTemplate
	reads := []read{func(ctx context.Context, t *inspection, _ *notes) error {
		var ours []string
		for _, g := range t.Groups {
			if t.Ours(g.Tags) {
				ours = append(ours, g.ID)
			}
		}
		return t.ReadRunning(ctx, s.EC2, ours)
	}}
	if !guest && !s.Unattended { // sync keeps them
		reads = append(reads, func(ctx context.Context, _ *inspection, _ *notes) (err error) {
			templates, err = s.EC2.LaunchTemplatesByTag(ctx, tags)
			return err
		})
	}
	if err := t.sideBySide(ctx, reads...); err != nil {
		return nil, err
	}
	if t.nameRemains(templates); t.OnEC2() {
		instances, err := t.instancesOnEC2(ctx, s.EC2)
		if err != nil {
			return nil, err
		}
		t.addInstances(instances)
	}
	err := t.ReadSlurm(ctx, s.Slurm, t.request.Queue)
	if s.Unattended { // sync removes node groups and their places in queues, and nothing else
		t.request.Config = nil
		for i := range t.Slots {
			t.Slots[i].Slurm.Reservations = nil
		}
	}
	return t, err
}

// nameRemains notes the slots to be removed, with what is there of each. A node group without our tag stays, with a warning.
func (t *inspection) nameRemains(templates []capacity.LaunchTemplate) {
	add := func(name, base, template string) {
		slot := site.Slot{Name: name, Base: base, Nodes: slices.Clone(groupOf(t.settings(), base).Nodes)}
		if g, found := t.Group(name); found && g.Name == name {
			if !t.Ours(g.Tags) {
				t.warn("compute node group %s does not carry our tag, so it stays", name)
			} else {
				slot.Group, slot.Instances = &g, t.Running[g.ID]
			}
		}
		for _, lt := range templates {
			if lt.Name == pcs.TemplateName(t.Cluster.Name, template) {
				slot.Template = lt
			}
		}
		t.Slots = append(t.Slots, slot)
	}
	if t.Provider == capacity.ProviderPCS {
		for _, name := range t.slotsThatGo(templates) {
			add(name, name[:len(name)-len("-a")], name)
		}
		return
	}
	for _, base := range t.basesOnEC2(templates) {
		names := []string{base}
		if t.OnEC2() {
			names = t.slotsOnEC2(base)
		}
		for i, name := range names {
			template := "" // of the node group, so with one of its slots
			if i == len(names)-1 {
				template = base
			}
			add(name, base, template)
		}
	}
}

// madeFor is the slot or node group that a launch template of setup's is for.
func (t *inspection) madeFor(lt capacity.LaunchTemplate) (name string, is bool) {
	name, is = strings.CutPrefix(lt.Name, pcs.TemplateName(t.Cluster.Name, ""))
	return name, is
}

// slotsThatGo returns the slots to be removed from PCS.
func (t *inspection) slotsThatGo(templates []capacity.LaunchTemplate) (names []string) {
	known := func(base string) bool { return groupOf(t.settings(), base).Name == base }
	if name := t.request.NodeGroup; name != "" {
		for _, ending := range []string{"-a", "-b"} {
			base, isSlot := strings.CutSuffix(name, ending)
			_, isThere := t.Group(name)
			if isSlot && !known(name) && (isThere || known(base)) {
				return []string{name}
			}
		}
		return capacity.SlotNames(capacity.ProviderPCS, name)
	}
	for _, g := range t.settings().Groups {
		names = union(names, capacity.SlotNames(capacity.ProviderPCS, g.Name))
	}
	q, _ := t.Queue(t.request.Queue)
	for _, g := range t.Groups {
		if t.Ours(g.Tags) && (slices.Contains(q.GroupIDs, g.ID) || g.Tags[capacity.TagPartition] == t.request.Queue) {
			names = union(names, []string{g.Name})
		}
	}
	for _, lt := range templates {
		if slot, is := t.madeFor(lt); is && lt.Tags[capacity.TagPartition] == t.request.Queue {
			names = union(names, []string{slot})
		}
	}
	for _, g := range t.former() {
		for _, slot := range g.Slots {
			names = union(names, []string{slot.Name})
		}
	}
	return names
}

// basesOnEC2 returns the node groups to be removed.
func (t *inspection) basesOnEC2(templates []capacity.LaunchTemplate) (bases []string) {
	for _, g := range t.settings().Groups {
		bases = append(bases, g.Name)
	}
	for _, lt := range templates {
		if base, is := t.madeFor(lt); is {
			bases = union(bases, []string{base})
		}
	}
	for _, g := range t.former() {
		bases = union(bases, []string{g.Name})
	}
	if one := t.request.NodeGroup; one != "" {
		if !slices.Contains(bases, one) && !slices.Contains(t.stay(), one) {
			return []string{one} // Slurm may have something left of it
		}
		return slices.DeleteFunc(bases, func(base string) bool { return base != one })
	}
	return bases
}

// slotsOnEC2 returns the slots of a node group; if it has left the settings, all that it may have had.
func (t *inspection) slotsOnEC2(base string) []string {
	if g := groupOf(t.settings(), base); g.Name != "" {
		return g.SlotNames(capacity.ProviderEC2)
	}
	return slices.DeleteFunc([]string{base + "-a", base + "-b", base},
		func(slot string) bool { return slot != base && slices.Contains(t.stay(), slot) })
}

// former returns node groups of the queue of which only fences are left.
func (t *inspection) former() (groups []capacity.NodeGroup) {
	for _, p := range t.request.Former {
		if p.Name == t.request.Queue {
			groups = append(groups, p.Groups...)
		}
	}
	return groups
}

// stay are the slots that the settings have.
func (t *inspection) stay() (slots []string) {
	for _, p := range t.partitions() {
		for _, g := range p.Groups {
			slots = append(slots, g.SlotNames(p.Provider)...)
		}
	}
	return slots
}

// slotOf returns the slot of a node, and whether it goes: with a whole partition those go, too, that nothing names.
func (t *inspection) slotOf(node string) (slot string, goes bool) {
	slot, named := capacity.SlotOf(node)
	if !named {
		slot = node
	}
	for _, one := range t.Slots {
		if slices.Contains(one.Nodes, node) {
			return one.Name, true
		}
		goes = goes || one.Name == slot
	}
	return slot, goes || t.request.NodeGroup == "" && !slices.Contains(t.stay(), slot)
}

// instancesOnEC2 returns our instances of the slots to be removed, by slot.
func (t *inspection) instancesOnEC2(ctx context.Context, aws interface {
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
}) (map[string][]capacity.Instance, error) {
	ours, err := aws.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: {t.request.Mark}, capacity.TagPartition: {t.request.Queue}})
	if err != nil {
		return nil, fmt.Errorf("looking for instances of partition %s: %w", t.request.Queue, err)
	}
	found := map[string][]capacity.Instance{}
	for _, i := range capacity.WithNodes(ours, slurm.Expand) {
		if node := i.Tags[capacity.TagNode]; node != "" && !i.Ended() {
			if slot, goes := t.slotOf(node); goes {
				found[slot] = append(found[slot], i)
			}
		}
	}
	return found, nil
}

// addInstances notes instances with their slots, of which some may be left by nothing else.
func (t *inspection) addInstances(instances map[string][]capacity.Instance) {
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		at := slices.IndexFunc(t.Slots, func(slot site.Slot) bool { return slot.Name == name })
		if at < 0 {
			at, t.Slots = len(t.Slots), append(t.Slots, site.Slot{Name: name, Base: name})
		}
		t.Slots[at].Instances = len(instances[name])
		for _, i := range instances[name] {
			t.Slots[at].Nodes = union(t.Slots[at].Nodes, []string{i.Tags[capacity.TagNode]})
		}
	}
}

// planTeardown decides what is removed, in which order, and what prevents it. Slurm's part comes
// first: PCS restarts slurmctld when nodes go.
func planTeardown(read inspection) *Plan {
	t := &read
	t.notes = t.fresh()
	p := &Plan{Cluster: t.Cluster, Queue: t.request.Queue, seen: &read}
	if t.Cluster.ID != "" {
		t.checkQueue()
	}
	if t.OnEC2() && len(t.Slots) > 0 {
		t.byHand = append(t.byHand, "take the nodes out of slurm.conf on Slurm's controller, and restart slurmctld, with\n  pcs-capacity hooks install")
	}
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
		p.Actions = append(t.marks(), p.Actions...)
		if own && t.SlurmErr == nil { // while that file has the partition, a pass places fences again
			p.Actions = append(p.Actions, Step{}.with(t.forgetFences))
		}
	}
	p.Mismatches, p.Warnings, p.ByHand = t.problems, t.warnings, append([]string{}, t.byHand...)
	return p
}

func (t *inspection) step(what, name string, verb Verb, slot string) Step {
	s := Step{What: what, Name: name, Verb: verb}
	s.About = capacity.Subject{Partition: t.request.Queue, Slot: slot}
	return s
}

// marks adds the queue's name to things without it: a later run finds them by that tag once queue and settings are gone.
func (t *inspection) marks() (steps Steps) {
	queue := map[string]string{capacity.TagPartition: t.request.Queue}
	mark := func(slot, what, name string, tags map[string]string, do func(ctx context.Context, w World) error) {
		if tags[capacity.TagPartition] != t.request.Queue {
			step := t.step(what, name, Update, slot)
			step.add("tag", capacity.TagPartition+"="+t.request.Queue)
			steps = append(steps, step.with(do))
		}
	}
	for _, slot := range t.Slots {
		if g := slot.Group; g != nil {
			mark(slot.Name, WhatNodeGroup, g.Name, g.Tags, func(ctx context.Context, w World) error { return w.Tag(ctx, g.ARN, queue) })
		}
		if lt := slot.Template; lt.ID != "" {
			mark(slot.Name, WhatTemplate, lt.Name, lt.Tags, func(ctx context.Context, w World) error { return w.TagLaunchTemplate(ctx, lt.ID, queue) })
		}
	}
	return steps
}

func (t *inspection) drains() (steps Steps) {
	for _, slot := range t.Slots {
		if len(slot.Slurm.Nodes) > 0 && !t.Provider.Guest() {
			step := t.step(WhatNodes, slot.Name, Drain, slot.Name)
			step.add("nodes", strconv.Itoa(len(slot.Slurm.Nodes)))
			steps = append(steps, step.with(func(ctx context.Context, w World) error {
				return drain(ctx, w, t.request.Queue, slot.Name, slot.Slurm.Nodes, t.request.Force)
			}))
		}
	}
	return steps
}

// forgets removes the settings, if their file is ours, and with them the fences.
func (t *inspection) forgets(settings *settingsChange) (steps Steps) {
	if settings != nil && settings.ours {
		step := t.step(WhatFile, settings.before.File, Delete, "")
		for _, g := range settings.after.Groups {
			step.Verb = Update
			step.add("node_group", g.Name)
		}
		steps = append(steps, step.with(func(ctx context.Context, w World) error { return t.forget(ctx, w, settings) }))
	}
	for _, slot := range t.Slots {
		for _, name := range slot.Slurm.Reservations {
			steps = append(steps, t.step(WhatFence, name, Delete, slot.Name).with(func(ctx context.Context, w World) error { return t.forget(ctx, w, nil) }))
		}
	}
	return steps
}

// terminates ends instances of self-managed Slurm; on PCS the node groups end theirs.
func (t *inspection) terminates() (steps Steps) {
	if !t.OnEC2() {
		return nil
	}
	for _, slot := range t.Slots {
		if slot.Instances > 0 {
			step := t.step(WhatInstances, slot.Name, Terminate, slot.Name)
			step.add("instances", strconv.Itoa(slot.Instances))
			steps = append(steps, step.with(t.terminate))
		}
	}
	return append(steps, Step{}.with(t.terminate)) // one may come after the plan
}

// releases takes the node groups out of the queue, or deletes the queue.
func (t *inspection) releases() Steps {
	q, found := t.Queue(t.request.Queue)
	stays := without(q.GroupIDs, t.groupIDs()...)
	step := t.step(WhatQueue, q.Name, Update, "")
	switch {
	case !found || !t.Ours(q.Tags):
		return nil
	case t.deletesQueue():
		step.Verb = Delete
	case len(stays) == len(q.GroupIDs):
		return nil
	default:
		var names []string
		for _, id := range stays {
			g, _ := t.Group(id)
			names = append(names, g.Name)
		}
		step.add("node groups", cmp.Or(strings.Join(names, ", "), "none"))
	}
	return Steps{step.with(func(ctx context.Context, w World) error {
		err := w.ReleaseQueue(ctx, t.Cluster, q.Name, t.groupIDs(), step.Verb == Delete)
		if err == nil && t.unattended { // the next pass deletes the fence, and then the nodes go
			err = fmt.Errorf("queue %s has changed: %w", q.Name, pcs.ErrAtWork)
		}
		return err
	})}
}

// deletes removes the node groups, and then their launch templates.
func (t *inspection) deletes() (steps Steps) {
	for _, slot := range t.Slots {
		if slot.Group != nil {
			step := t.step(WhatNodeGroup, slot.Name, Delete, slot.Name)
			step.add("reservation", slot.Group.Tags[capacity.TagReservation])
			if slot.Instances > 0 {
				step.add("instances", strconv.Itoa(slot.Instances))
			}
			steps = append(steps, step.with(func(ctx context.Context, w World) error { return w.DeleteNodeGroup(ctx, t.Cluster, slot.Name) }))
		}
	}
	for _, slot := range t.Slots {
		if lt := slot.Template; lt.ID != "" {
			step := t.step(WhatTemplate, lt.Name, Delete, slot.Name)
			steps = append(steps, step.with(func(ctx context.Context, w World) error {
				return w.DeleteLaunchTemplate(ctx, lt.ID, t.Cluster.Name)
			}))
		}
	}
	return steps
}

// deletesQueue reports whether the queue goes: no single node group was requested, the queue is
// ours, and no node group stays in it.
func (t *inspection) deletesQueue() bool {
	q, found := t.Queue(t.request.Queue)
	return found && t.request.NodeGroup == "" && t.Ours(q.Tags) && len(without(q.GroupIDs, t.groupIDs()...)) == 0
}

func (t *inspection) groupIDs() (ids []string) {
	for _, slot := range t.Slots {
		if slot.Group != nil {
			ids = append(ids, slot.Group.ID)
		}
	}
	return ids
}

// checkQueue finds queues that prevent the deletion of a node group.
func (t *inspection) checkQueue() {
	for _, q := range t.Queues {
		for _, slot := range t.Slots {
			switch {
			case slot.Group == nil || !slices.Contains(q.GroupIDs, slot.Group.ID):
			case q.Name != t.request.Queue:
				t.problem(capacity.OtherQueue, fmt.Sprintf("take it out of queue %s first", q.Name),
					"compute node group %s is in queue %s as well, and goes with none but %s", slot.Name, q.Name,
					t.request.Queue)
			case !t.Ours(q.Tags):
				t.problem(capacity.NotOurs,
					fmt.Sprintf("take %s out of it by hand, or hand the queue over by tagging %s with %s=%s", slot.Name,
						q.ARN, capacity.TagCluster, t.Cluster.Name),
					"queue %s does not carry our tag, so it is not changed", q.Name)
			}
		}
	}
	q, found := t.Queue(t.request.Queue)
	for _, slot := range t.Slots {
		if slot.Group == nil || slices.Contains(q.GroupIDs, slot.Group.ID) {
			continue
		}
		if of := slot.Group.Tags[capacity.TagPartition]; of != "" && of != t.request.Queue {
			t.problem(capacity.OtherQueue, "give --queue "+of, "compute node group %s was made for queue %s", slot.Name, of)
		}
	}
	if found && t.request.NodeGroup == "" && !t.Ours(q.Tags) && len(t.problems) == 0 {
		t.problem(capacity.NotOurs, "choose a queue that `pcs-capacity setup` made",
			"queue %s does not carry our tag, so it is not changed", q.Name)
	}
	if p := t.settings(); p.Name != "" && p.Provider != capacity.ProviderPCS {
		t.problem(capacity.WrongProvider, "remove it from the settings by hand",
			"partition %s of %s is not on PCS; there is nothing to tear down in AWS", p.Name, p.File)
	}
}

// checkJobs refuses to remove nodes with jobs, unless forced.
func (t *inspection) checkJobs() {
	var jobs, bases []string
	instances := 0
	for _, slot := range t.Slots {
		jobs, bases, instances = union(jobs, slot.Slurm.Jobs), union(bases, []string{slot.Base}), instances+slot.Instances
	}
	gone := "jobs end with their nodes"
	switch {
	case t.unattended && t.SlurmErr != nil:
		t.problem(capacity.SlurmSilent, "run this where Slurm answers", "Slurm does not answer: %s", t.SlurmErr)
	case t.unattended && instances > 0:
		t.problem(capacity.NodesHaveInstances, "wait until they have ended", "these nodes have instances: %d",
			instances)
	case t.SlurmErr != nil && instances > 0 && !t.request.Force:
		t.problem(capacity.SlurmSilent, "run this where Slurm answers, or add --force",
			"Slurm does not answer (%s), so it is not known whether jobs run on these nodes (instances: %d)", t.SlurmErr,
			instances)
	case t.Provider.Guest(): // the nodes stay, and their jobs
	case len(jobs) > 0 && !t.request.Force:
		t.problem(capacity.JobsRun, "wait until they have ended, or add --force: "+gone, "%s running on these nodes", named(jobs))
	case len(jobs) > 0:
		t.warn("%s running on these nodes; %s", named(jobs), gone)
	}
	which := ""
	if t.Provider != capacity.ProviderPCS {
		which = fmt.Sprintf("--provider %s ", t.Provider)
	}
	for _, base := range bases { // which leads to the slots when nothing else is left of them
		if t.SlurmErr != nil {
			t.byHand = append(t.byHand,
				fmt.Sprintf("Slurm does not answer here; where it does, remove its reservations with\n  pcs-capacity teardown %s--queue %s --node-group %s", which, t.request.Queue, base))
		}
	}
	if t.deletesQueue() && t.Waiting > 0 {
		wait := "1 job waits"
		if t.Waiting > 1 {
			wait = fmt.Sprintf("%d jobs wait", t.Waiting)
		}
		t.warn("partition %s goes, and %s in it; move them first: scontrol update jobid=ID partition=NAME", t.request.Queue, wait)
	}
}

// named is the subject of a sentence about jobs, with its verb.
func named(jobs []string) string {
	if len(jobs) == 1 {
		return "job " + jobs[0] + " is"
	}
	return "jobs " + strings.Join(jobs, ", ") + " are"
}

// settingsChange is a change of a partition's settings.
type settingsChange struct {
	before, after capacity.PartitionSettings
	// ours: setup wrote the file. Any other file is left alone.
	ours bool
}

// settingsChange returns the change of the partition's settings; nil for none. The whole partition goes, or a node group,
// or from its entry the reservations of slots.
func (t *inspection) settingsChange() *settingsChange {
	before := t.settings()
	if before.Name == "" {
		return nil
	}
	c := &settingsChange{before: before, after: before, ours: t.file.ours && before.File == t.file.path}
	c.after.Groups = nil
	same := true
	for _, g := range before.Groups {
		if t.request.NodeGroup == "" || t.request.NodeGroup == g.Name {
			same = false
			continue
		}
		left := g
		for _, slot := range t.Slots {
			if slot.Group != nil && slices.Contains(capacity.SlotNames(capacity.ProviderPCS, g.Name), slot.Name) {
				left.ReservationIDs = without(left.ReservationIDs, slot.Group.Tags[capacity.TagReservation])
			}
		}
		same = same && len(left.ReservationIDs) == len(g.ReservationIDs)
		c.after.Groups = append(c.after.Groups, left)
	}
	if same {
		return nil
	}
	return c
}

// byHand lists the administrator's changes of a file that is not ours.
func (c *settingsChange) byHand() (work []string) {
	const notOurs = ", which is not ours to change"
	if len(c.after.Groups) == 0 {
		return []string{fmt.Sprintf("remove partition %q from %s%s", c.before.Name, c.before.File, notOurs)}
	}
	for _, g := range c.before.Groups {
		switch left := groupOf(c.after, g.Name); {
		case left.Name == "":
			work = append(work, fmt.Sprintf("remove node_group %q of partition %q from %s%s", g.Name, c.before.Name, c.before.File, notOurs))
		case len(left.ReservationIDs) < len(g.ReservationIDs):
			work = append(work, fmt.Sprintf("set capacity_reservation_ids = %q for node_group %q of partition %q in %s%s",
				left.ReservationIDs, g.Name, c.before.Name, c.before.File, notOurs))
		}
	}
	return work
}
