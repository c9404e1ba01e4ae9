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
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Reservations lists the reservations of what the plan removes.
func (p *Plan) Reservations() (ids []string) {
	for _, slot := range p.seen.slots {
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

// goingSlots returns the slots that go, each with what is there of it. They are those of the settings, of our node
// groups in the queue, of what carries our tag with the queue's name, and those of the requested name, of which Slurm
// may have something left. A node group without our tag stays, with a warning.
func (v *view) goingSlots(
	templates []capacity.LaunchTemplate, instances []capacity.Instance,
) (slots []Slot, found findings) {
	var names []string

	nodes := map[string][]string{}
	running := map[string]int{}
	written := map[string]capacity.LaunchTemplate{}
	all := func(base string) { names = append(names, base+"-a", base+"-b", base) }

	for _, g := range v.settings().Groups {
		for _, name := range g.SlotNames(v.Provider) {
			names = append(names, name)
			nodes[name] = g.Nodes
		}
	}

	q, _ := v.Queue(v.request.Queue)
	for _, g := range v.Groups {
		if v.Owns(g.Tags) && (slices.Contains(q.GroupIDs, g.ID) || g.Tags[capacity.TagPartition] == v.request.Queue) {
			all(groupNameOf(g.Name))
		}
	}

	slices.SortFunc(templates, func(a, b capacity.LaunchTemplate) int { return cmp.Compare(a.Name, b.Name) })

	for _, lt := range templates {
		written[lt.Name] = lt
		if slot, is := strings.CutPrefix(lt.Name, capacity.TemplateName(v.Cluster.Name, "")); is &&
			lt.Tags[capacity.TagPartition] == v.request.Queue {
			all(groupNameOf(slot))
		}
	}

	if v.request.NodeGroup != "" {
		all(v.request.NodeGroup)
	}

	for _, i := range instances {
		of := v.slotOf(i)
		names = append(names, of)
		running[of] += 1
		nodes[of] = union(nodes[of], []string{i.Tags[capacity.TagNode]})
	}

	for _, name := range union(nil, names) {
		base, goes := v.isRemoved(name)
		if !goes {
			continue
		}

		slot := v.newSlot(name)
		if slot.Group != nil && !slot.Owned {
			found.warn("compute node group %s does not carry our tag, so it stays", slot.Name)
			slot.Group = nil
			slot.Instances = 0
		}

		slot.Base = base
		slot.Nodes = nodes[name]
		slot.Template = written[capacity.TemplateName(v.Cluster.Name, name)] // with provider ec2 it is of the node group
		slot.Instances += running[name]
		slots = append(slots, slot)
	}

	return slots, found
}

// isRemoved reports whether a slot goes, by its name, and of which node group it is: as the settings say, else as its
// name does. On PCS a slot may be asked for, and then no other goes.
func (v *view) isRemoved(slot string) (base string, goes bool) {
	asked := v.request.NodeGroup
	base = groupNameOf(slot)
	queue := v.request.Queue

	known := false
	onPCS := v.Provider == capacity.ProviderPCS
	_, one := v.Group(asked)
	for _, p := range v.request.Config.Partitions {
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
		return base, asked == "" && queue == v.request.Queue || slot == asked
	}

	return base, (base == asked || slot == asked && !known) && (queue == v.request.Queue || onPCS)
}

// groupNameOf returns the node group of a slot, by its name.
func groupNameOf(slot string) string {
	if base, is := strings.CutSuffix(slot, "-a"); is {
		return base
	}
	return strings.TrimSuffix(slot, "-b")
}

// slotOf returns the slot of an instance's node.
func (v *view) slotOf(i capacity.Instance) string {
	node := i.Tags[capacity.TagNode]
	for _, g := range v.settings().Groups {
		if slices.Contains(g.Nodes, node) {
			return g.Name
		}
	}

	if slot, named := capacity.SlotOf(node); named {
		return slot
	}

	return node
}

// planTeardown decides what is removed, in which order, and what prevents it. Slurm's part comes
// first: PCS restarts slurmctld when nodes go.
func planTeardown(v view) *Plan {
	p := &Plan{Cluster: v.Cluster, Queue: v.request.Queue, Problems: slices.Clone(v.Problems), seen: &v}
	if lender := v.lender(); lender != "" {
		return planSpareTeardown(v, lender)
	}

	if v.Cluster.ID != "" {
		p.stops(checkQueue(v))
	}

	file, found := settingsRemains(v, p.Reservations())
	p.stops(checkJobs(v), found)

	add := func(slot string, steps ...Step) {
		p.add(capacity.Subject{Partition: v.request.Queue, Slot: slot}, steps...)
	}
	addEach := func(remains func(v view, slot Slot) []Step) {
		for _, slot := range v.slots {
			add(slot.Name, remains(v, slot)...)
		}
	}

	addEach(drains)
	add("", file...)
	addEach(fenceRemains)

	for _, q := range v.spareQueues() {
		add("", queueRemains(v, q)...)
	}

	if q, found := v.Queue(v.request.Queue); found {
		add("", queueRemains(v, q)...)
	}

	addEach(groupRemains)
	addEach(reservationRemains)
	addEach(templateRemains)

	p.ByHand = append([]string{}, slurmByHand(v)...)
	if v.OnEC2() && v.countInstances()+len(p.Actions) > 0 {
		add("", instanceRemains(v)...)

		p.ByHand = append(p.ByHand, removeByHand("nodes"))
	}

	return p
}

// removeByHand is left to the administrator of self-managed Slurm.
func removeByHand(what string) string {
	return "remove the " + what + " from slurm.conf on Slurm's controller, and restart slurmctld, with\n" +
		"  pcs-capacity hooks install"
}

// The remains of each kind, with what removes them.

func drains(v view, slot Slot) []Step {
	nodes := slot.Slurm.Nodes
	if len(nodes) == 0 || v.Provider.IsGuest() {
		return nil
	}

	step := Step{
		What:    WhatNodes,
		Name:    slot.Name,
		Verb:    Drain,
		Details: []Detail{{"nodes", strconv.Itoa(len(nodes))}},
	}

	step.Do = func(ctx context.Context, w World) error {
		return drain(ctx, w, v.request.Queue, slot.Name, nodes, v.request.Force)
	}

	return []Step{step}
}

// settingsRemains changes the settings, if their file is ours, and with them the fences.
func settingsRemains(v view, reservations []string) (steps []Step, found findings) {
	before := v.settings()

	left, changes := v.remainingSettings()
	switch {
	case !changes:
		return nil, found
	case v.partitionFile.err != nil:
		found.problem(capacity.ConfigFile, "make the file readable", "%s", v.partitionFile.err)
		return nil, found
	case !v.partitionFile.owned || before.File != v.partitionFile.path:
		what := "the partition"
		if len(left.Groups) > 0 {
			what = strings.Join(reservations, ", ")
		}

		again := ""
		if v.Provider.IsGuest() { // nothing but the name leads to the fences then
			again = " with --provider none --node-group " + before.Groups[0].Name
		}

		found.problem(capacity.PartitionFile, "take "+what+" out of it, and run this again"+again,
			"partition %q is written in %s, which pcs-capacity did not write", before.Name, before.File)

		return nil, found
	}

	step := Step{What: WhatFile, Name: before.File, Verb: Delete}
	for _, g := range left.Groups {
		step.Verb = Update
		step.add("node_group", g.Name)
	}

	step.Do = func(ctx context.Context, w World) error {
		return v.removeSettings(ctx, w, before, left)
	}

	return []Step{step}, found
}

func fenceRemains(_ view, slot Slot) (steps []Step) {
	for _, name := range slot.Slurm.Reservations {
		step := Step{What: WhatFence, Name: name, Verb: Delete}
		step.Do = func(ctx context.Context, w World) error { return w.DeleteReservation(ctx, name) }
		steps = append(steps, step)
	}

	return steps
}

// queueRemains takes our node groups out of the queue, or of a spare one, or deletes it.
func queueRemains(v view, q pcs.Queue) []Step {
	if !v.Owns(q.Tags) {
		return nil
	}

	stays := difference(q.GroupIDs, v.groupIDs()...)

	var names []string
	for _, id := range stays {
		g, _ := v.Group(id)
		names = append(names, g.Name)
	}

	deletes := v.isDeleted(q)
	step := Step{What: WhatQueue, Name: q.Name, Verb: Delete}
	if !deletes {
		if len(stays) == len(q.GroupIDs) {
			return nil
		}

		step.Verb = Update
		step.add("node groups", cmp.Or(strings.Join(names, ", "), "none"))
	}

	step.Do = func(ctx context.Context, w World) error {
		err := w.ReleaseQueue(ctx, v.Cluster, q.Name, v.groupIDs(), deletes)
		if err == nil && v.unattended { // the next pass deletes the fence, and then the nodes go
			err = fmt.Errorf("queue %s has changed: %w", q.Name, pcs.ErrAtWork)
		}

		return err
	}

	return []Step{step}
}

func groupRemains(v view, slot Slot) []Step {
	if slot.Group == nil {
		return nil
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

	step.Do = func(ctx context.Context, w World) error { return w.DeleteNodeGroup(ctx, v.Cluster, slot.Name) }

	return []Step{step}
}

// reservationRemains deletes the Capacity Reservation group, and cancels what is held in it: its nodes are gone by then.
func reservationRemains(v view, slot Slot) []Step {
	if slot.Reservations == nil {
		return nil
	}

	step := Step{What: WhatGroup, Name: slot.Reservations.Name, Verb: Delete}

	step.Do = func(ctx context.Context, w World) error {
		held, err := w.FindReservations(ctx, ec2.HoldsQuery(v.Cluster.Name))
		for _, r := range held {
			if err == nil && r.Tags[capacity.TagNodeGroup] == slot.Name {
				err = w.CancelODCR(ctx, r.ID)
			}
		}

		if err != nil {
			return err
		}

		return w.DeleteGroup(ctx, step.Name)
	}

	return []Step{step}
}

func templateRemains(v view, slot Slot) []Step {
	lt := slot.Template
	if lt.ID == "" {
		return nil
	}

	step := Step{What: WhatTemplate, Name: lt.Name, Verb: Delete}

	step.Do = func(ctx context.Context, w World) error {
		return w.DeleteLaunchTemplate(ctx, lt.ID, v.Cluster.Name)
	}

	return []Step{step}
}

// instanceRemains ends the instances on EC2 last, with those that come after the plan is made. On PCS the node groups
// end theirs.
func instanceRemains(v view) []Step {
	count := cmp.Or(strings.TrimPrefix(strconv.Itoa(v.countInstances()), "0"), "those launched meanwhile")
	step := Step{
		What:    WhatInstances,
		Name:    v.request.Queue,
		Verb:    Terminate,
		Details: []Detail{{"instances", count}},
	}

	step.Do = v.terminate

	return []Step{step}
}

// remainingSettings returns the queue's settings without what goes: the whole partition, or a node group, or from its
// entry the reservations of slots.
func (v *view) remainingSettings() (left capacity.PartitionSettings, changes bool) {
	left = v.settings()
	left.Groups = nil
	for _, g := range v.settings().Groups {
		if v.request.NodeGroup == "" || v.request.NodeGroup == g.Name {
			changes = true
			continue
		}

		was := len(g.ReservationIDs)
		for _, slot := range v.slots {
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
func (v *view) isQueueDeleted() bool {
	q, found := v.Queue(v.request.Queue)
	return found && v.isDeleted(q)
}

func (v *view) isDeleted(q pcs.Queue) bool {
	return v.request.NodeGroup == "" && v.Owns(q.Tags) && len(difference(q.GroupIDs, v.groupIDs()...)) == 0
}

func (v *view) groupIDs() (ids []string) {
	for _, slot := range v.slots {
		if slot.Group != nil {
			ids = append(ids, slot.Group.ID)
		}
	}

	return ids
}

// checkQueue finds queues that prevent the deletion of a node group.
func checkQueue(v view) (found findings) {
	q, exists := v.Queue(v.request.Queue)
	for _, slot := range v.slots {
		if slot.Group == nil {
			continue
		}

		if of := slot.Group.Tags[capacity.TagPartition]; of != "" && of != v.request.Queue &&
			!slices.Contains(q.GroupIDs, slot.Group.ID) {
			found.problem(capacity.OtherQueue, "use --queue "+of,
				"compute node group %s was made for queue %s", slot.Name, of)

			continue
		}

		for _, other := range v.Queues {
			_, spare := v.isSpare(other)
			if other.Name != v.request.Queue && !spare && slices.Contains(other.GroupIDs, slot.Group.ID) {
				found.problem(capacity.OtherQueue, fmt.Sprintf("remove it from queue %s first", other.Name),
					"compute node group %s is also in queue %s, and may only be in %s", slot.Name, other.Name,
					v.request.Queue)
			}
		}
	}

	gone := slices.ContainsFunc(q.GroupIDs, func(id string) bool { return slices.Contains(v.groupIDs(), id) })
	if exists && !v.Owns(q.Tags) && (gone || v.request.NodeGroup == "") {
		found.problem(
			capacity.NotOurs,
			fmt.Sprintf("choose a queue that `pcs-capacity setup` made, or hand it over by tagging %s with %s=%s",
				q.ARN, capacity.TagCluster, v.Cluster.Name),
			"queue %s does not carry our tag, so it is not changed",
			q.Name,
		)
	}

	return found
}

// checkJobs refuses to remove nodes with jobs, unless forced.
func checkJobs(v view) (found findings) {
	var jobs []string
	for _, slot := range v.slots {
		jobs = union(jobs, slot.Slurm.Jobs)
	}

	const gone = "jobs end with their nodes"

	instances := v.countInstances()
	switch {
	case v.unattended && v.SlurmErr != nil:
		found.problem(capacity.SlurmSilent, "run this where Slurm answers", "Slurm does not answer: %s", v.SlurmErr)
	case v.unattended && instances > 0:
		found.problem(capacity.NodesHaveInstances, "wait until they have ended",
			"these nodes have instances: %d", instances)
	case v.SlurmErr != nil && instances > 0 && !v.request.Force:
		found.problem(capacity.SlurmSilent, "run this where Slurm answers, or add --force",
			"Slurm does not answer (%s), so jobs may be running on these nodes (instances: %d)",
			v.SlurmErr, instances)
	case v.Provider.IsGuest(): // the nodes stay, and their jobs
	case len(jobs) > 0 && !v.request.Force:
		found.problem(capacity.JobsRun, "wait until they have ended, or add --force: "+gone,
			"%s running on these nodes", jobsSubject(jobs))
	case len(jobs) > 0:
		found.warn("%s running on these nodes; %s", jobsSubject(jobs), gone)
	}

	if v.isQueueDeleted() {
		found.warnWaiting(v)
	}

	return found
}

// warnWaiting says that jobs wait in the queue that goes.
func (f *findings) warnWaiting(v view) {
	wait := "1 job waits"
	switch n := v.jobs.Waiting; {
	case n == 0:
		return
	case n > 1:
		wait = fmt.Sprintf("%d jobs wait", n)
	}

	f.warn("partition %s goes, and %s in it; move them first: scontrol update jobid=ID partition=NAME",
		v.request.Queue, wait)
}

// slurmByHand returns what leads to Slurm's reservations of the slots when nothing else is left of them.
func slurmByHand(v view) (commands []string) {
	if v.SlurmErr == nil {
		return nil
	}

	which := ""
	if v.Provider != capacity.ProviderPCS {
		which = fmt.Sprintf("--provider %s ", v.Provider)
	}

	var bases []string
	for _, slot := range v.slots {
		bases = union(bases, []string{slot.Base})
	}

	for _, base := range bases {
		commands = append(commands, fmt.Sprintf(
			"Slurm does not answer here; where it does, remove its reservations with\n"+
				"  pcs-capacity teardown %s--queue %s --node-group %s",
			which, v.request.Queue, base))
	}

	return commands
}

// jobsSubject returns the subject of a sentence about jobs, with its verb.
func jobsSubject(jobs []string) string {
	if len(jobs) == 1 {
		return "job " + jobs[0] + " is"
	}
	return "jobs " + strings.Join(jobs, ", ") + " are"
}

// countInstances counts those of all slots.
func (v *view) countInstances() (n int) {
	for _, slot := range v.slots {
		n += slot.Instances
	}
	return n
}
