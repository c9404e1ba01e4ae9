package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Reservations lists the reservations of what the plan removes.
func (p *Plan) Reservations() (ids []string) {
	for _, slot := range p.seen.Slots {
		if slot.ReservationID != "" {
			ids = union(ids, []string{slot.ReservationID})
		}
	}

	left, _ := p.seen.remainingSettings()

	return union(ids, difference(reservationsOf(p.seen.settings()), reservationsOf(left)...))
}

// OurQueues returns our queues in settings and AWS.
func (p *Plan) OurQueues() (names []string) {
	for _, part := range p.seen.request.Config.Partitions {
		names = append(names, part.Name)
	}

	for _, q := range p.seen.Queues {
		if p.seen.Owns(q.Tags) {
			names = union(names, []string{q.Name})
		}
	}

	slices.Sort(names)

	return names
}

// ErrJobsRun is returned if jobs run on nodes to be removed.
var ErrJobsRun = errors.New("jobs run there")

// PlanTeardown reads the remains of a queue, or of a node group in it, and returns the steps that remove them. It
// changes nothing. An error is a failed read; obstacles are among Plan.Problems.
func (s Setup) PlanTeardown(ctx context.Context, r Request) (*Plan, error) {
	t, err := s.findRemains(ctx, r)
	if err != nil {
		return nil, err
	}

	return planTeardown(*t).withoutNil(), nil
}

// findRemains reads everything left of a queue, or of a node group in it. A killed run may have left any part, so each
// thing is found independently: by the settings, by the queue, and by our tag with the queue's name.
func (s Setup) findRemains(ctx context.Context, r Request) (*inspection, error) {
	t := s.newInspection(r)

	onPCS := t.Provider == capacity.ProviderPCS
	guest := t.Provider.IsGuest()
	err := s.readCluster(ctx, t)
	if err != nil || t.hasProblems() {
		return t, err
	}

	tags := map[string]string{capacity.TagCluster: t.Cluster.Name}
	if !onPCS {
		tags[capacity.TagPartition] = t.request.Queue
	} else if c := t.request.Config; c.Path != "" && c.Cluster != t.Cluster.Name && c.Cluster != t.Cluster.ID {
		t.warn("%s is for cluster %q, not for %s, so it is left alone", c.Path, c.Cluster, t.Cluster.Name)
		t.request.Config = config.Default()
	}

	if p := t.settings(); p.Name != "" && p.Provider != t.Provider {
		t.problem(capacity.WrongProvider, "give --provider "+string(p.Provider),
			"partition %q of %s has provider %q", p.Name, p.File, p.Provider)

		return t, nil
	}

	var (
		templates []capacity.LaunchTemplate
		instances []capacity.Instance
	)

	if !guest && !s.Unattended { // sync keeps them
		templates, err = s.EC2.LaunchTemplatesByTag(ctx, tags)
	}

	if err == nil && t.OnEC2() {
		instances, err = t.instancesOnEC2(ctx, s.EC2)
	}

	if err != nil {
		return nil, err
	}

	t.addRemains(templates, instances)

	err = s.readSlurm(ctx, t)
	if s.Unattended { // sync removes node groups and their places in queues, and nothing else
		t.request.Config = config.Default()
		for i := range t.Slots {
			t.Slots[i].Slurm.Reservations = nil
		}
	}

	return t, err
}

// addRemains notes the slots that go, each with what is there of it. They are those of the settings, of our node
// groups in the queue, of what carries our tag with the queue's name, and those of the requested name, of which Slurm
// may have something left. A node group without our tag stays, with a warning.
func (t *inspection) addRemains(templates []capacity.LaunchTemplate, instances []capacity.Instance) {
	var names []string

	nodes := map[string][]string{}
	running := map[string]int{}
	written := map[string]capacity.LaunchTemplate{}
	all := func(base string) { names = append(names, base+"-a", base+"-b", base) }

	for _, g := range t.settings().Groups {
		for _, name := range g.SlotNames(t.Provider) {
			names = append(names, name)
			nodes[name] = g.Nodes
		}
	}

	q, _ := t.Queue(t.request.Queue)
	for _, g := range t.Groups {
		if t.Owns(g.Tags) && (slices.Contains(q.GroupIDs, g.ID) || g.Tags[capacity.TagPartition] == t.request.Queue) {
			all(groupNameOf(g.Name))
		}
	}

	slices.SortFunc(templates, func(a, b capacity.LaunchTemplate) int { return cmp.Compare(a.Name, b.Name) })

	for _, lt := range templates {
		written[lt.Name] = lt
		if slot, is := strings.CutPrefix(lt.Name, pcs.TemplateName(t.Cluster.Name, "")); is &&
			lt.Tags[capacity.TagPartition] == t.request.Queue {
			all(groupNameOf(slot))
		}
	}

	if t.request.NodeGroup != "" {
		all(t.request.NodeGroup)
	}

	for _, i := range instances {
		of := t.slotOf(i)
		names = append(names, of)
		running[of] += 1
		nodes[of] = union(nodes[of], []string{i.Tags[capacity.TagNode]})
	}

	for _, name := range union(nil, names) {
		base, goes := t.isRemoved(name)
		if !goes {
			continue
		}

		slot := t.newSlot(name)
		if slot.Group != nil && !slot.Owned {
			t.warn("compute node group %s does not carry our tag, so it stays", slot.Name)
			slot.Group = nil
			slot.Instances = 0
		}

		slot.Base = base
		slot.Nodes = nodes[name]
		slot.Template = written[pcs.TemplateName(t.Cluster.Name, name)] // with provider ec2 it is of the node group
		slot.Instances += running[name]
		t.Slots = append(t.Slots, slot)
	}
}

// isRemoved reports whether a slot goes, by its name, and of which node group it is: as the settings say, else as its
// name does. On PCS a slot may be asked for, and then no other goes.
func (t *inspection) isRemoved(slot string) (base string, goes bool) {
	asked := t.request.NodeGroup
	base = groupNameOf(slot)
	queue := t.request.Queue

	known := false
	onPCS := t.Provider == capacity.ProviderPCS
	_, one := t.Group(asked)
	for _, p := range t.request.Config.Partitions {
		for _, g := range p.Groups {
			names := g.SlotNames(p.Provider)
			one = one || onPCS && slices.Contains(names, asked)
			if slices.Contains(names, slot) ||
				!onPCS && g.Name == slot {
				base = g.Name
				queue = p.Name
				known = true
			}
		}
	}

	if asked == "" || onPCS && one {
		return base, asked == "" && queue == t.request.Queue || slot == asked
	}

	return base, (base == asked || slot == asked && !known) && (queue == t.request.Queue || onPCS)
}

// groupNameOf returns the node group of a slot, by its name.
func groupNameOf(slot string) string {
	if base, is := strings.CutSuffix(slot, "-a"); is {
		return base
	}
	return strings.TrimSuffix(slot, "-b")
}

// slotOf returns the slot of an instance's node.
func (t *inspection) slotOf(i capacity.Instance) string {
	node := i.Tags[capacity.TagNode]
	for _, g := range t.settings().Groups {
		if slices.Contains(g.Nodes, node) {
			return g.Name
		}
	}

	if slot, named := capacity.SlotOf(node); named {
		return slot
	}

	return node
}

// instancesOnEC2 returns our instances that go.
func (t *inspection) instancesOnEC2(ctx context.Context, aws interface {
	FindInstances(ctx context.Context, q capacity.InstanceQuery) ([]capacity.Instance, error)
},
) ([]capacity.Instance, error) {
	ours, err := aws.FindInstances(ctx, capacity.InstanceQuery{
		Tags: map[string][]string{capacity.TagCluster: {t.request.Mark}, capacity.TagPartition: {t.request.Queue}},
	})
	if err != nil {
		return nil, fmt.Errorf("looking for instances of partition %s: %w", t.request.Queue, err)
	}

	going := slices.DeleteFunc(capacity.WithNodes(ours), func(i capacity.Instance) bool {
		_, goes := t.isRemoved(t.slotOf(i))
		return i.Ended() || i.Tags[capacity.TagNode] == "" || !goes
	})
	slices.SortFunc(going, func(a, b capacity.Instance) int {
		return cmp.Compare(a.Tags[capacity.TagNode], b.Tags[capacity.TagNode])
	})

	return going, nil
}

// planTeardown decides what is removed, in which order, and what prevents it. Slurm's part comes
// first: PCS restarts slurmctld when nodes go.
func planTeardown(read inspection) *Plan {
	t := &read
	p := &Plan{Cluster: t.Cluster, Queue: t.request.Queue, seen: &read}
	if t.Cluster.ID != "" {
		t.checkQueue()
	}

	t.checkJobs()

	for _, steps := range []func(p *Plan){
		t.planDrain,
		t.planSettings,
		t.planFences,
		t.planQueue,
		t.planGroups,
		t.planTemplates,
		t.planInstances,
	} {
		steps(p)
	}

	p.Problems = t.Problems
	p.ByHand = append([]string{}, t.byHand...)

	return p
}

// planStep adds a step to a plan; slot is "" for one of the whole queue.
func (t *inspection) planStep(p *Plan, slot string, step Step, do func(ctx context.Context, w World) error) {
	p.Actions = append(p.Actions, step.withAction(t, slot, do))
}

func (t *inspection) planDrain(p *Plan) {
	for _, slot := range t.Slots {
		nodes := slot.Slurm.Nodes
		if len(nodes) == 0 || t.Provider.IsGuest() {
			continue
		}

		step := Step{
			What:    WhatNodes,
			Name:    slot.Name,
			Verb:    Drain,
			Details: []Detail{{"nodes", strconv.Itoa(len(nodes))}},
		}
		t.planStep(p, slot.Name, step, func(ctx context.Context, w World) error {
			return drain(ctx, w, t.request.Queue, slot.Name, nodes, t.request.Force)
		})
	}
}

// planSettings changes the settings, if their file is ours, and with them the fences.
func (t *inspection) planSettings(p *Plan) {
	before := t.settings()
	left, changes := t.remainingSettings()

	switch {
	case !changes:
	case t.partitionFile.err != nil:
		t.problem(capacity.ConfigFile, "make the file readable", "%s", t.partitionFile.err)
	case !t.partitionFile.owned || before.File != t.partitionFile.path:
		what := "the partition"
		if len(left.Groups) > 0 {
			what = strings.Join(p.Reservations(), ", ")
		}

		again := ""
		if t.Provider.IsGuest() { // nothing but the name leads to the fences then
			again = " with --provider none --node-group " + before.Groups[0].Name
		}

		t.problem(capacity.PartitionFile, "take "+what+" out of it, and run this again"+again,
			"partition %q is written in %s, which pcs-capacity did not write", before.Name, before.File)
	default:
		step := Step{What: WhatFile, Name: before.File, Verb: Delete}
		for _, g := range left.Groups {
			step.Verb = Update
			step.Details = append(step.Details, Detail{"node_group", g.Name})
		}

		t.planStep(p, "", step,
			func(ctx context.Context, w World) error { return t.removeSettings(ctx, w, before, left) })
	}
}

func (t *inspection) planFences(p *Plan) {
	for _, slot := range t.Slots {
		for _, name := range slot.Slurm.Reservations {
			t.planStep(p, slot.Name, Step{What: WhatFence, Name: name, Verb: Delete},
				func(ctx context.Context, w World) error { return w.DeleteReservation(ctx, name) })
		}
	}
}

// planQueue takes our node groups out of the queue, or deletes it.
func (t *inspection) planQueue(p *Plan) {
	q, found := t.Queue(t.request.Queue)
	if !found || !t.Owns(q.Tags) {
		return
	}

	stays := difference(q.GroupIDs, t.groupIDs()...)

	var names []string
	for _, id := range stays {
		g, _ := t.Group(id)
		names = append(names, g.Name)
	}

	deletes := t.isQueueDeleted()
	step := Step{What: WhatQueue, Name: q.Name}
	switch {
	case deletes:
		step.Verb = Delete
	case len(stays) < len(q.GroupIDs):
		step.Verb = Update
		step.Details = []Detail{{"node groups", cmp.Or(strings.Join(names, ", "), "none")}}
	default:
		return
	}

	t.planStep(p, "", step, func(ctx context.Context, w World) error {
		err := w.ReleaseQueue(ctx, t.Cluster, q.Name, t.groupIDs(), deletes)
		if err == nil && t.unattended { // the next pass deletes the fence, and then the nodes go
			err = fmt.Errorf("queue %s has changed: %w", q.Name, pcs.ErrAtWork)
		}

		return err
	})
}

func (t *inspection) planGroups(p *Plan) {
	for _, slot := range t.Slots {
		if slot.Group == nil {
			continue
		}

		step := Step{
			What: WhatNodeGroup,
			Name: slot.Name,
			Verb: Delete,
			Details: []Detail{
				{"reservation", slot.ReservationID},
				{"instances", strings.TrimPrefix(strconv.Itoa(slot.Instances), "0")},
			},
		}
		t.planStep(p, slot.Name, step,
			func(ctx context.Context, w World) error { return w.DeleteNodeGroup(ctx, t.Cluster, slot.Name) })
	}
}

func (t *inspection) planTemplates(p *Plan) {
	for _, slot := range t.Slots {
		if lt := slot.Template; lt.ID != "" {
			t.planStep(p, slot.Name, Step{What: WhatTemplate, Name: lt.Name, Verb: Delete},
				func(ctx context.Context, w World) error { return w.DeleteLaunchTemplate(ctx, lt.ID, t.Cluster.Name) })
		}
	}
}

// planInstances ends the instances on EC2 last, with those that come after the plan is made. On PCS the node groups end
// theirs.
func (t *inspection) planInstances(p *Plan) {
	n := t.countInstances()
	if !t.OnEC2() || n+len(p.Actions) == 0 {
		return
	}

	count := cmp.Or(strings.TrimPrefix(strconv.Itoa(n), "0"), "those launched meanwhile")
	step := Step{
		What:    WhatInstances,
		Name:    t.request.Queue,
		Verb:    Terminate,
		Details: []Detail{{"instances", count}},
	}
	t.planStep(p, "", step, t.terminate)
	t.byHand = append(t.byHand,
		"remove the nodes from slurm.conf on Slurm's controller, and restart slurmctld, with\n"+
			"  pcs-capacity hooks install")
}

// remainingSettings returns the queue's settings without what goes: the whole partition, or a node group, or from its
// entry the reservations of slots.
func (t *inspection) remainingSettings() (left capacity.PartitionSettings, changes bool) {
	left = t.settings()
	left.Groups = nil
	for _, g := range t.settings().Groups {
		if t.request.NodeGroup == "" || t.request.NodeGroup == g.Name {
			changes = true
			continue
		}

		was := len(g.ReservationIDs)
		for _, slot := range t.Slots {
			if slot.Group != nil && slices.Contains(capacity.SlotNames(capacity.ProviderPCS, g.Name), slot.Name) {
				g.ReservationIDs = difference(g.ReservationIDs, slot.ReservationID)
			}
		}

		changes = changes || len(g.ReservationIDs) < was
		left.Groups = append(left.Groups, g)
	}

	return left, changes
}

// isQueueDeleted reports whether the queue goes: no single node group was requested, the queue is
// ours, and no node group stays in it.
func (t *inspection) isQueueDeleted() bool {
	q, found := t.Queue(t.request.Queue)
	return found && t.request.NodeGroup == "" && t.Owns(q.Tags) && len(difference(q.GroupIDs, t.groupIDs()...)) == 0
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
	q, found := t.Queue(t.request.Queue)
	for _, slot := range t.Slots {
		if slot.Group == nil {
			continue
		}

		if of := slot.Group.Tags[capacity.TagPartition]; of != "" && of != t.request.Queue &&
			!slices.Contains(q.GroupIDs, slot.Group.ID) {
			t.problem(capacity.OtherQueue, "give --queue "+of,
				"compute node group %s was made for queue %s", slot.Name, of)

			continue
		}

		for _, other := range t.Queues {
			if other.Name != t.request.Queue && slices.Contains(other.GroupIDs, slot.Group.ID) {
				t.problem(capacity.OtherQueue, fmt.Sprintf("remove it from queue %s first", other.Name),
					"compute node group %s is also in queue %s, and may be in none but %s", slot.Name, other.Name,
					t.request.Queue)
			}
		}
	}

	gone := slices.ContainsFunc(q.GroupIDs, func(id string) bool { return slices.Contains(t.groupIDs(), id) })
	if found && !t.Owns(q.Tags) && (gone || t.request.NodeGroup == "") {
		t.problem(
			capacity.NotOurs,
			fmt.Sprintf("choose a queue that `pcs-capacity setup` made, or hand it over by tagging %s with %s=%s",
				q.ARN, capacity.TagCluster, t.Cluster.Name),
			"queue %s does not carry our tag, so it is not changed",
			q.Name,
		)
	}
}

// checkJobs refuses to remove nodes with jobs, unless forced.
func (t *inspection) checkJobs() {
	var jobs, bases []string
	for _, slot := range t.Slots {
		jobs = union(jobs, slot.Slurm.Jobs)
		bases = union(bases, []string{slot.Base})
	}

	const gone = "jobs end with their nodes"

	instances := t.countInstances()
	switch {
	case t.unattended && t.SlurmErr != nil:
		t.problem(capacity.SlurmSilent, "run this where Slurm answers", "Slurm does not answer: %s", t.SlurmErr)
	case t.unattended && instances > 0:
		t.problem(capacity.NodesHaveInstances, "wait until they have ended",
			"these nodes have instances: %d", instances)
	case t.SlurmErr != nil && instances > 0 && !t.request.Force:
		t.problem(capacity.SlurmSilent, "run this where Slurm answers, or add --force",
			"Slurm does not answer (%s), so it is not known whether jobs run on these nodes (instances: %d)",
			t.SlurmErr, instances)
	case t.Provider.IsGuest(): // the nodes stay, and their jobs
	case len(jobs) > 0 && !t.request.Force:
		t.problem(capacity.JobsRun, "wait until they have ended, or add --force: "+gone,
			"%s running on these nodes", jobsSubject(jobs))
	case len(jobs) > 0:
		t.warn("%s running on these nodes; %s", jobsSubject(jobs), gone)
	}

	which := ""
	if t.Provider != capacity.ProviderPCS {
		which = fmt.Sprintf("--provider %s ", t.Provider)
	}

	for _, base := range bases { // which leads to the slots when nothing else is left of them
		if t.SlurmErr != nil {
			t.byHand = append(t.byHand, fmt.Sprintf(
				"Slurm does not answer here; where it does, remove its reservations with\n"+
					"  pcs-capacity teardown %s--queue %s --node-group %s",
				which, t.request.Queue, base))
		}
	}

	if t.isQueueDeleted() && t.Waiting > 0 {
		wait := "1 job waits"
		if t.Waiting > 1 {
			wait = fmt.Sprintf("%d jobs wait", t.Waiting)
		}

		t.warn("partition %s goes, and %s in it; move them first: scontrol update jobid=ID partition=NAME",
			t.request.Queue, wait)
	}
}

// jobsSubject returns the subject of a sentence about jobs, with its verb.
func jobsSubject(jobs []string) string {
	if len(jobs) == 1 {
		return "job " + jobs[0] + " is"
	}
	return "jobs " + strings.Join(jobs, ", ") + " are"
}

// countInstances counts those of all slots.
func (t *inspection) countInstances() (n int) {
	for _, slot := range t.Slots {
		n += slot.Instances
	}
	return n
}
