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

// Slurm is what teardown asks and tells slurmctld.
type Slurm interface {
	// Slots says what Slurm has of slots, by name, and how many jobs wait in a partition. nodes
	// are those of a slot whose names do not tell.
	Slots(ctx context.Context, partition string, nodes map[string][]string) (slots map[string]SlurmSlot, waiting int, err error)
	// Drain keeps new jobs off the nodes; those that run go on.
	Drain(ctx context.Context, nodes []string, reason string) error
	// DeleteReservation succeeds as well when there is none of this name.
	DeleteReservation(ctx context.Context, name string) error
}

// SlurmSlot is what Slurm has of a slot.
type SlurmSlot struct {
	Nodes []string
	// Jobs are those that have nodes of the slot, as squeue shows them.
	Jobs []string
	// Reservations are the names of our Slurm reservations for the slot.
	Reservations []string
}

// TeardownRequest is what teardown is asked for.
type TeardownRequest struct {
	// Provider is who launches the nodes; "" stands for PCS.
	Provider capacity.Provider
	// Mark is that of the cluster of self-managed Slurm.
	Mark string
	// Cluster is a PCS cluster, by name or id; "" takes it from Config.
	Cluster string
	Queue   string
	// NodeGroup is a base name, for both slots, or on PCS one slot; "" is all of the queue,
	// and the queue itself.
	NodeGroup string
	// Force goes on while jobs run, which end with their nodes.
	Force bool
	// DropUnknown allows to take node groups out of a queue of which PCS says more than this
	// program can express.
	DropUnknown bool

	// Config is what the settings say; nil if there are none.
	Config *config.Config
	// Former are slots of queues that the settings lost while their fences stayed: a run that
	// Slurm did not answer leaves them.
	Former []capacity.Partition
}

// TeardownPlan is what teardown will do.
type TeardownPlan struct {
	Cluster pcs.Cluster `json:"cluster"`
	Queue   string      `json:"queue"`
	Steps   []Step      `json:"steps"`
	// Mismatches are everything that is in the way. With any, nothing is applied.
	Mismatches []capacity.Mismatch `json:"mismatches"`
	// Warnings keep nothing from being done.
	Warnings []string `json:"warnings"`
	// ByHand is what is left to do for the administrator, a sentence each.
	ByHand []string `json:"by_hand"`

	tear *remains
}

// Done reports whether nothing of ours is left.
func (p *TeardownPlan) Done() bool { return len(p.Steps)+len(p.Mismatches) == 0 }

// Known reports whether the settings have what was asked for.
func (p *TeardownPlan) Known() bool {
	part, found := p.tear.partition()
	asked := p.tear.request.NodeGroup
	return found && (asked == "" || slices.ContainsFunc(part.NodeGroups, func(g config.NodeGroup) bool {
		return g.Name == asked || slices.Contains(capacity.SlotNames(capacity.ProviderPCS, g.Name), asked)
	}))
}

// There are the queues that settings and AWS have of ours.
func (p *TeardownPlan) There() []string {
	var names []string
	if c := p.tear.request.Config; c != nil {
		for _, part := range c.Partitions {
			names = append(names, part.Name)
		}
	}
	for _, q := range p.tear.inv.Queues {
		if p.tear.inv.Cluster.Ours(q.Tags) {
			names = union(names, []string{q.Name})
		}
	}
	slices.Sort(names)
	return names
}

// ErrJobsRun is returned when jobs run on nodes that are to go.
var ErrJobsRun = errors.New("jobs run there")

// PlanTeardown reads what there is of a queue, or of a node group in it, and says what
// to do to be rid of it. It changes nothing. An error means that something could not be
// read; what is in the way is in TeardownPlan.Mismatches.
func (s Setup) PlanTeardown(ctx context.Context, r TeardownRequest) (*TeardownPlan, error) {
	t, err := s.findRemains(ctx, r)
	if err != nil {
		return nil, err
	}
	p := t.plan()
	p.Cluster, p.Steps = listedCluster(p.Cluster), listedSteps(p.Steps)
	p.Mismatches, p.Warnings, p.ByHand = listed(p.Mismatches), listed(p.Warnings), listed(p.ByHand)
	return p, nil
}

// drainReason is what Slurm shows on the nodes.
const drainReason = "pcs-capacity teardown"

// plan lists what is there in the order in which it goes.
func (t *remains) plan() *TeardownPlan {
	p := &TeardownPlan{Cluster: t.inv.Cluster, Queue: t.request.Queue, tear: t}
	t.checkJobs()
	settings, err := t.settingsChange()
	if err != nil {
		t.problem("config-file", "make the file readable", "%s", err)
	}
	for _, slot := range t.slots {
		if len(slot.slurm.Nodes) > 0 {
			step := Step{What: WhatNodes, Name: slot.name, Action: Drain}
			step.add("nodes", strconv.Itoa(len(slot.slurm.Nodes)))
			p.Steps = append(p.Steps, step)
		}
	}
	if settings != nil {
		if step, ours := settings.step(); ours {
			p.Steps = append(p.Steps, step)
		} else {
			t.byHand = append(t.byHand, settings.byHand()...)
		}
	}
	for _, slot := range t.slots {
		for _, name := range slot.slurm.Reservations {
			p.Steps = append(p.Steps, Step{What: WhatFence, Name: name, Action: Delete})
		}
	}
	for _, slot := range t.slots {
		if slot.group == nil && slot.instances > 0 {
			step := Step{What: WhatInstances, Name: slot.name, Action: Terminate}
			step.add("instances", strconv.Itoa(slot.instances))
			p.Steps = append(p.Steps, step)
		}
	}
	if step, ok := t.queueStep(); ok {
		p.Steps = append(p.Steps, step)
	}
	for _, slot := range t.slots {
		if slot.group != nil {
			step := Step{What: WhatNodeGroup, Name: slot.name, Action: Delete}
			step.add("reservation", slot.group.Tags[capacity.TagReservation])
			if slot.instances > 0 {
				step.add("instances", strconv.Itoa(slot.instances))
			}
			p.Steps = append(p.Steps, step)
		}
	}
	for _, slot := range t.slots {
		if slot.template.ID != "" {
			p.Steps = append(p.Steps, Step{What: WhatTemplate, Name: slot.template.Name, Action: Delete})
		}
	}
	p.Mismatches, p.Warnings, p.ByHand = t.problems, t.warnings, t.byHand
	return p
}
