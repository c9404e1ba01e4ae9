package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// remains is everything left of a queue, or of a node group in it. A killed run may have left any part, so each thing
// is found independently: by the settings, by the queue, and by our tag with the queue's name.
type remains struct {
	request    TeardownRequest
	unattended bool
	inv        pcs.Inventory
	// file is the partition's file in conf.d.
	file  partitionFile
	slots []slotState
	// slurm is the reason why Slurm does not answer; nil if it does.
	slurm   error
	waiting int // jobs in the partition

	byHand []string

	notes
}

func (s Setup) findRemains(ctx context.Context, r TeardownRequest) (*remains, error) {
	t := &remains{request: r, unattended: s.Unattended}
	if r.Config != nil {
		t.file = readFile(r.Config.Path, r.Queue)
	}
	if r.Provider.Launches() || r.Provider.Guest() {
		return t, s.findOnEC2(ctx, t)
	}
	if r.Config != nil && r.Cluster == "" {
		t.request.Cluster = r.Config.Cluster
	}
	inv, missing, err := s.inventory(ctx, t.request.Cluster)
	if missing != nil {
		t.problems = append(t.problems, *missing)
	}
	if err != nil || missing != nil {
		return t, err
	}
	t.inv = inv
	if c := t.request.Config; c != nil && c.Cluster != inv.Cluster.Name && c.Cluster != inv.Cluster.ID {
		t.warn("%s is for cluster %q, not for %s, so it is left alone", c.Path, c.Cluster, inv.Cluster.Name)
		t.request.Config = nil
	}
	var templates []capacity.LaunchTemplate
	var running map[string]int
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		if s.Unattended { // it keeps them
			return nil
		}
		templates, err = s.EC2.LaunchTemplatesByTag(readCtx, map[string]string{capacity.TagCluster: inv.Cluster.Name})
		return err
	})
	reads.Go(func() (err error) {
		var ours []string
		for _, g := range inv.Groups {
			if inv.Cluster.Ours(g.Tags) {
				ours = append(ours, g.ID)
			}
		}
		running, err = s.instances(readCtx, ours)
		return err
	})
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	for _, name := range t.slotNames(templates) {
		t.addRemaining(name, templates, running)
	}
	t.checkQueue()
	err = s.askSlurm(ctx, t)
	if s.Unattended { // sync removes node groups and their places in queues, and nothing else
		t.request.Config = nil
		for i := range t.slots {
			t.slots[i].template, t.slots[i].slurm.Reservations = capacity.LaunchTemplate{}, nil
		}
	}
	return t, err
}

// partition returns the settings of the queue.
func (t *remains) partition() (capacity.PartitionSettings, bool) {
	return t.request.Config.Partition(t.request.Queue)
}

// slotNames returns the slots to be removed.
func (t *remains) slotNames(templates []capacity.LaunchTemplate) []string {
	p, _ := t.partition()
	known := func(base string) bool { return groupOf(p, base).Name == base }
	if name := t.request.NodeGroup; name != "" {
		for _, ending := range []string{"-a", "-b"} {
			base, isSlot := strings.CutSuffix(name, ending)
			_, isThere := t.inv.Group(name)
			if isSlot && !known(name) && (isThere || known(base)) {
				return []string{name}
			}
		}
		return capacity.SlotNames(capacity.ProviderPCS, name)
	}
	var names []string
	for _, g := range p.Groups {
		names = union(names, capacity.SlotNames(capacity.ProviderPCS, g.Name))
	}
	q, _ := t.inv.Queue(t.request.Queue)
	for _, g := range t.inv.Groups {
		if t.inv.Cluster.Ours(g.Tags) &&
			(slices.Contains(q.GroupIDs, g.ID) || g.Tags[capacity.TagPartition] == t.request.Queue) {
			names = union(names, []string{g.Name})
		}
	}
	for _, template := range templates {
		slot, isOurs := strings.CutPrefix(template.Name, pcs.TemplateName(t.inv.Cluster.Name, ""))
		if isOurs && template.Tags[capacity.TagPartition] == t.request.Queue {
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

// former returns node groups of the queue of which only fences are left.
func (t *remains) former() (groups []capacity.NodeGroup) {
	for _, p := range t.request.Former {
		if p.Name == t.request.Queue {
			groups = append(groups, p.Groups...)
		}
	}
	return groups
}

// addRemaining adds a slot. A node group without our tag stays, with a warning.
func (t *remains) addRemaining(name string, templates []capacity.LaunchTemplate, running map[string]int) {
	slot := slotState{name: name, base: name[:len(name)-len("-a")]}
	if g, found := t.inv.Group(name); found && g.Name == name {
		if !t.inv.Cluster.Ours(g.Tags) {
			t.warn("compute node group %s does not carry our tag, so it stays", name)
		} else {
			slot.group, slot.instances = &g, running[g.ID]
		}
	}
	for _, lt := range templates {
		if lt.Name == pcs.TemplateName(t.inv.Cluster.Name, name) {
			slot.template = lt
		}
	}
	t.slots = append(t.slots, slot)
}

// checkQueue finds queues that prevent the deletion of a node group.
func (t *remains) checkQueue() {
	for _, q := range t.inv.Queues {
		for _, slot := range t.slots {
			if slot.group == nil || !slices.Contains(q.GroupIDs, slot.group.ID) {
				continue
			}
			switch {
			case q.Name != t.request.Queue:
				t.problem(capacity.OtherQueue, fmt.Sprintf("take it out of queue %s first", q.Name),
					"compute node group %s is in queue %s as well, and goes with none but %s", slot.name, q.Name,
					t.request.Queue)
			case !t.inv.Cluster.Ours(q.Tags):
				t.problem(capacity.NotOurs,
					fmt.Sprintf("take %s out of it by hand, or hand the queue over by tagging %s with %s=%s", slot.name,
						q.ARN, capacity.TagCluster, t.inv.Cluster.Name),
					"queue %s does not carry our tag, so it is not changed", q.Name)
			}
		}
	}
	q, found := t.inv.Queue(t.request.Queue)
	for _, slot := range t.slots {
		if slot.group == nil || slices.Contains(q.GroupIDs, slot.group.ID) {
			continue
		}
		if of := slot.group.Tags[capacity.TagPartition]; of != "" && of != t.request.Queue {
			t.problem(capacity.OtherQueue, "give --queue "+of, "compute node group %s was made for queue %s", slot.name,
				of)
		}
	}
	if found && t.request.NodeGroup == "" && !t.inv.Cluster.Ours(q.Tags) && len(t.problems) == 0 {
		t.problem(capacity.NotOurs, "choose a queue that `pcs-capacity setup` made",
			"queue %s does not carry our tag, so it is not changed", q.Name)
	}
	if p, ok := t.partition(); ok && p.Provider != capacity.ProviderPCS {
		t.problem(capacity.WrongProvider, "remove it from the settings by hand",
			"partition %s of %s is not on PCS; there is nothing to tear down in AWS", p.Name, p.File)
	}
}

// askSlurm reads nodes, jobs and reservations of the slots. If Slurm does not answer, t.slurm says why.
func (s Setup) askSlurm(ctx context.Context, t *remains) error {
	if len(t.slots) == 0 {
		return nil
	}
	found, waiting, err := s.Slurm.Slots(ctx, t.request.Queue, t.slotNodes())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.slurm, t.waiting = err, waiting
	for i := range t.slots {
		t.slots[i].slurm = found[t.slots[i].name]
	}
	return nil
}

// slotNodes are the known nodes of the slots.
func (t *remains) slotNodes() map[string][]string {
	nodes := map[string][]string{}
	for _, slot := range t.slots {
		nodes[slot.name] = slot.nodes
	}
	return nodes
}

// checkJobs refuses to remove nodes with jobs, unless forced.
func (t *remains) checkJobs() {
	var jobs []string
	instances := 0
	for _, slot := range t.slots {
		jobs, instances = union(jobs, slot.slurm.Jobs), instances+slot.instances
	}
	gone := "jobs end with their nodes"
	switch {
	case t.unattended && t.slurm != nil:
		t.problem(capacity.SlurmSilent, "run this where Slurm answers", "Slurm does not answer: %s", t.slurm)
	case t.unattended && instances > 0:
		t.problem(capacity.NodesHaveInstances, "wait until they have ended", "these nodes have instances: %d",
			instances)
	case t.slurm != nil && instances > 0 && !t.request.Force:
		t.problem(capacity.SlurmSilent, "run this where Slurm answers, or add --force",
			"Slurm does not answer (%s), so it is not known whether jobs run on these nodes (instances: %d)", t.slurm,
			instances)
	case t.request.Provider.Guest(): // the nodes stay, and their jobs
	case len(jobs) > 0 && !t.request.Force:
		t.problem(capacity.JobsRun, "wait until they have ended, or add --force: "+gone, "%s running on these nodes", named(jobs))
	case len(jobs) > 0:
		t.warn("%s running on these nodes; %s", named(jobs), gone)
	}
	if t.slurm != nil {
		// By base name, which leads to the slots when nothing else is left of them.
		var bases []string
		for _, slot := range t.slots {
			bases = union(bases, []string{slot.base})
		}
		which := ""
		if p := t.request.Provider; p.Launches() || p.Guest() {
			which = fmt.Sprintf("--provider %s ", p)
		}
		for _, base := range bases {
			t.byHand = append(t.byHand,
				fmt.Sprintf("Slurm does not answer here; where it does, remove its reservations with\n  pcs-capacity teardown %s--queue %s --node-group %s", which, t.request.Queue, base))
		}
	}
	if t.deletesQueue() && t.waiting > 0 {
		wait := "1 job waits"
		if t.waiting > 1 {
			wait = fmt.Sprintf("%d jobs wait", t.waiting)
		}
		t.warn("partition %s goes, and %s in it; move them first: scontrol update jobid=ID partition=NAME", t.request.Queue, wait)
	}
}

// deletesQueue reports whether the queue goes: no single node group was requested, the queue is
// ours, and no node group stays in it.
func (t *remains) deletesQueue() bool {
	q, found := t.inv.Queue(t.request.Queue)
	return found && t.request.NodeGroup == "" && t.inv.Cluster.Ours(q.Tags) && len(t.stays(q)) == 0
}

// stays returns the ids of the queue's node groups that stay.
func (t *remains) stays(q pcs.Queue) []string {
	return without(q.GroupIDs, t.groupIDs()...)
}

func (t *remains) groupIDs() []string {
	var ids []string
	for _, slot := range t.slots {
		if slot.group != nil {
			ids = append(ids, slot.group.ID)
		}
	}
	return ids
}

// releases takes the node groups out of the queue, or deletes the queue.
func (t *remains) releases() Steps {
	q, found := t.inv.Queue(t.request.Queue)
	stays := t.stays(q)
	step := t.step(WhatQueue, q.Name, Update, "")
	switch {
	case !found || !t.inv.Cluster.Ours(q.Tags):
		return nil
	case t.deletesQueue():
		step.Verb = Delete
	case len(stays) == len(q.GroupIDs):
		return nil
	default:
		var names []string
		for _, id := range stays {
			g, _ := t.inv.Group(id)
			names = append(names, g.Name)
		}
		step.add("node groups", cmp.Or(strings.Join(names, ", "), "none"))
	}
	return Steps{step.with(func(ctx context.Context, w World) error {
		err := w.ReleaseQueue(ctx, t.inv.Cluster, q.Name, t.groupIDs(), step.Verb == Delete)
		if err == nil && t.unattended { // the next pass deletes the fence, and then the nodes go
			err = fmt.Errorf("queue %s has changed: %w", q.Name, pcs.ErrAtWork)
		}
		return err
	})}
}

// named is the subject of a sentence about jobs, with its verb.
func named(jobs []string) string {
	if len(jobs) == 1 {
		return "job " + jobs[0] + " is"
	}
	return "jobs " + strings.Join(jobs, ", ") + " are"
}
