package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// lockWait is how long teardown waits for a pass of sync that is being made.
const lockWait = time.Minute

// Teardown does what the plan says. It can be killed at any point and run again: what
// is there is looked at before it is changed, and what is to go is marked first, so that
// it is found again when settings and queue are gone. Slurm's part comes before PCS's,
// which restarts slurmctld when nodes go.
func (s Setup) Teardown(ctx context.Context, p *TeardownPlan) error {
	t := p.tear
	if len(p.Mismatches) > 0 {
		return &Refusal{Mismatches: p.Mismatches}
	}
	for _, step := range []func(context.Context, *remains) error{s.mark, s.drain, s.forget, s.release, s.terminate, s.remove, s.sweep} {
		if err := step(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// mark writes the queue's name on node groups and launch templates that lack it.
func (s Setup) mark(ctx context.Context, t *remains) error {
	tags := map[string]string{capacity.TagPartition: t.request.Queue}
	for _, slot := range t.slots {
		if g := slot.group; g != nil && g.Tags[capacity.TagPartition] != t.request.Queue {
			if err := s.PCS.Tag(ctx, g.ARN, tags); err != nil {
				return err
			}
		}
		if lt := slot.template; lt.ID != "" && lt.Tags[capacity.TagPartition] != t.request.Queue {
			if err := s.EC2.TagLaunchTemplate(ctx, lt.ID, tags); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain keeps new jobs off, and then looks for those that started since the plan.
func (s Setup) drain(ctx context.Context, t *remains) error {
	if t.slurm != nil {
		return nil
	}
	for _, slot := range t.slots {
		if len(slot.slurm.Nodes) == 0 {
			continue
		}
		s.tell(WhatNodes, slot.name, "drain")
		if err := s.Slurm.Drain(ctx, slot.slurm.Nodes, drainReason); err != nil {
			return err
		}
	}
	if len(t.slots) == 0 || t.request.Force {
		return nil
	}
	now, _, err := s.Slurm.Slots(ctx, t.request.Queue, t.slotNodes())
	if err != nil {
		return err
	}
	for _, slot := range t.slots {
		name := slot.name
		if jobs := now[name].Jobs; len(jobs) > 0 {
			return fmt.Errorf("%w: %s started on %s meanwhile; run this again when they have ended, or give the nodes back with `scontrol update nodename=%s state=resume`",
				ErrJobsRun, strings.Join(jobs, ", "), name, strings.Join(now[name].Nodes, ","))
		}
	}
	return nil
}

// forget removes the settings and Slurm's reservations together: a pass of sync between
// the two would place the fence again.
func (s Setup) forget(ctx context.Context, t *remains) error {
	if t.slurm == nil && t.request.Config != nil {
		unlock, err := state.Dir(t.request.Config.StateDir).Lock(ctx, state.PassLock, lockWait)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := t.changeSettings(s.tell); err != nil {
		return err
	}
	if t.slurm != nil || s.Unattended || len(t.slots) == 0 {
		return nil
	}
	now, _, err := s.Slurm.Slots(ctx, t.request.Queue, t.slotNodes()) // a pass may have placed more since the plan
	if err != nil {
		return err
	}
	for _, slot := range t.slots {
		if err := s.unfence(ctx, now[slot.name]); err != nil {
			return err
		}
	}
	return nil
}

func (s Setup) unfence(ctx context.Context, slot SlurmSlot) error {
	for _, name := range slot.Reservations {
		s.tell(WhatFence, name, "delete")
		if err := s.Slurm.DeleteReservation(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// release takes the node groups out of the queue, or deletes the queue.
func (s Setup) release(ctx context.Context, t *remains) error {
	step, ok := t.queueStep()
	if !ok {
		return nil
	}
	if err := s.provisioner(t.request.DropUnknown).ReleaseQueue(ctx, t.inv.Cluster, t.request.Queue, t.groupIDs(), step.Action == Delete); err != nil {
		return err
	}
	s.tell(WhatQueue, t.request.Queue, "done")
	if s.Unattended { // the next pass deletes the fence, and then the nodes go
		return fmt.Errorf("queue %s has changed: %w", t.request.Queue, pcs.ErrAtWork)
	}
	return nil
}

// terminate ends the instances that we launched, as they are now: one may have come since
// the plan.
func (s Setup) terminate(ctx context.Context, t *remains) error {
	if t.request.Provider != capacity.ProviderEC2 {
		return nil
	}
	instances, err := s.instancesOnEC2(ctx, t)
	if err != nil {
		return err
	}
	for _, slot := range slices.Sorted(maps.Keys(instances)) {
		var ids []string
		for _, i := range instances[slot] {
			ids = append(ids, i.ID)
		}
		if err := s.EC2.Terminate(ctx, ids); err != nil {
			return err
		}
		s.tell(WhatInstances, slot, "done")
	}
	return nil
}

// remove deletes the node groups, and then what they were made from.
func (s Setup) remove(ctx context.Context, t *remains) error {
	for _, slot := range t.slots {
		if slot.group == nil {
			continue
		}
		if err := s.provisioner(t.request.DropUnknown).DeleteNodeGroup(ctx, t.inv.Cluster, slot.name); err != nil {
			return err
		}
		s.tell(WhatNodeGroup, slot.name, "done")
	}
	for _, slot := range t.slots {
		if slot.template.ID == "" {
			continue
		}
		s.tell(WhatTemplate, slot.template.Name, "delete")
		if err := s.EC2.DeleteLaunchTemplate(ctx, slot.template.ID, t.inv.Cluster.Name); err != nil {
			return err
		}
	}
	return nil
}

// sweep looks for Slurm reservations that a pass of sync has made again, as it does
// while a file of the administrator's still has the partition.
func (s Setup) sweep(ctx context.Context, t *remains) error {
	change, err := t.settingsChange()
	if err != nil || change == nil || change.ours || t.slurm != nil {
		return err
	}
	now, _, err := s.Slurm.Slots(ctx, t.request.Queue, t.slotNodes())
	if err != nil {
		return err
	}
	for _, slot := range now {
		if err := s.unfence(ctx, slot); err != nil {
			return err
		}
	}
	return nil
}
