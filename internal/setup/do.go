package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Apply carries out a plan of setup. It can be killed at any point, then planned and applied again:
// names are unique in EC2 and PCS, so a later run finds everything by name. A plan with mismatches
// is refused (*Refusal).
func (s Setup) Apply(ctx context.Context, p *Plan) error {
	return s.carryOut(ctx, p.Effects, p.Mismatches)
}

// Teardown carries out a plan of teardown. It can be killed at any point, then planned and carried
// out again. A plan with mismatches is refused (*Refusal).
func (s Setup) Teardown(ctx context.Context, p *TeardownPlan) error {
	return s.carryOut(ctx, p.Effects, p.Mismatches)
}

// carryOut is the executor: effects in order, until one fails.
func (s Setup) carryOut(ctx context.Context, effects Effects, mismatches []capacity.Problem) error {
	if len(mismatches) > 0 {
		return &Refusal{Mismatches: mismatches}
	}
	var all made
	for _, e := range effects {
		now, err := s.do(ctx, all.complete(e))
		if err != nil {
			return err
		}
		all = all.with(now)
	}
	return nil
}

// made are things made by effects, for later effects that need their ids.
type made struct {
	template capacity.LaunchTemplate
	group    pcs.NodeGroup
}

func (m made) with(now made) made {
	if now.template.ID != "" {
		m.template = now.template
	}
	if now.group.ID != "" {
		m.group = now.group
	}
	return m
}

// complete adds ids to an effect that were unknown when it was planned.
func (m made) complete(e Effect) Effect {
	switch e := e.(type) {
	case WriteGroup:
		if e.Group.TemplateVersion == "" {
			e.Group.TemplateID, e.Group.TemplateVersion = m.template.ID, m.template.Version
		}
		return e
	case WriteQueue:
		if len(e.Queue.GroupIDs) == 0 {
			e.Queue.GroupIDs = []string{m.group.ID}
		}
		return e
	}
	return e
}

// do carries out one effect.
func (s Setup) do(ctx context.Context, e Effect) (now made, err error) {
	switch e := e.(type) {
	case WriteSettings:
		err = s.writeSettings(e)
	case WritePartition:
		err = s.writePartition(e)
	case WriteTemplate:
		if e.Action != Nothing {
			now.template, err = s.EC2.EnsureLaunchTemplate(ctx, e.Spec)
		}
		s.done(e.Step, err)
	case WriteGroup:
		if to := s.provisioner(); e.Action == Nothing {
			now.group, err = to.AwaitNodeGroup(ctx, e.Group)
		} else {
			now.group, _, err = to.EnsureNodeGroup(ctx, e.Group, true)
		}
		s.done(e.Step, err)
	case PlaceFence:
		err = s.placeFence(ctx, e)
	case WriteQueue:
		if e.Action != Nothing {
			err = s.provisioner().EnsureQueue(ctx, e.Queue)
		}
		s.done(e.Step, err)
	case WriteTag:
		err = s.writeTag(ctx, e)
	case DrainNodes:
		err = s.drainNodes(ctx, e)
	case Forget:
		err = s.forget(ctx, e)
	case ReleaseQueue:
		if err = s.provisioner().
			ReleaseQueue(ctx, e.Cluster, e.Name, e.Groups, e.Action == Delete); err != nil {
			break
		}
		s.done(e.Step, nil)
		if s.Unattended { // the next pass deletes the fence, and then the nodes go
			err = fmt.Errorf("queue %s has changed: %w", e.Name, pcs.ErrAtWork)
		}
	case TerminateInstances:
		err = s.terminate(ctx, e)
	case DeleteGroup:
		err = s.provisioner().DeleteNodeGroup(ctx, e.Cluster, e.Name)
		s.done(e.Step, err)
	case DeleteTemplate:
		s.tell(e.What, e.Name, "delete")
		err = s.EC2.DeleteLaunchTemplate(ctx, e.ID, e.Mark)
	default:
		err = fmt.Errorf("no executor for %T", e)
	}
	return now, err
}

func (s Setup) provisioner() pcs.Provisioner {
	return pcs.Provisioner{
		PCS:      s.PCS,
		EC2:      s.EC2,
		Poll:     s.Poll,
		NoWait:   s.Unattended,
		Progress: s.Progress,
	}
}

func (s Setup) tell(what, name, status string) {
	if s.Progress != nil {
		s.Progress(what, name, status)
	}
}

// done reports the end of a step.
func (s Setup) done(step Step, err error) {
	if err == nil {
		s.tell(step.What, step.Name, "done")
	}
}

// errChanged is the error of an effect whose condition no longer holds.
var errChanged = errors.New("it has changed since the plan was made")

func (s Setup) writeSettings(e WriteSettings) error {
	if e.Action == Nothing {
		return nil
	}
	s.tell(WhatFile, e.Path, string(e.Action))
	if e.Action == Update {
		return config.AddPlace(e.Path, e.Place)
	}
	err := config.WriteNew(e.Path, e.Place)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	c, err := config.Load(e.Path) // another run has written it
	if err == nil && (c.Region != e.Place.Region || c.Cluster != e.Place.Cluster) {
		err = fmt.Errorf("%s: %w", e.Path, errChanged)
	}
	return err
}

func (s Setup) writePartition(e WritePartition) error {
	if e.Action != Nothing {
		now, err := config.Load(e.Config)
		if err != nil {
			return err
		}
		if err := unchanged(now, e.Partition.Name, e.Was); err != nil {
			return err
		}
		s.tell(WhatFile, e.Name, string(e.Action))
		if err := config.WritePartition(e.Name, e.Partition); err != nil {
			return err
		}
	}
	if _, err := config.Load(e.Config); err != nil {
		return fmt.Errorf("what was written cannot be read back: %w", err)
	}
	s.tell(WhatFile, filepath.Base(e.Name), "done")
	return nil
}

// unchanged compares a partition of the settings with an earlier reading; was is nil for none.
func unchanged(c *config.Config, name string, was *capacity.PartitionSettings) error {
	now, found := c.Partition(name)
	if found != (was != nil) || found && !reflect.DeepEqual(now, *was) {
		return fmt.Errorf("partition %q of %s: %w", name, c.Path, errChanged)
	}
	return nil
}

// fencePatience is how long the nodes of a new node group may take to appear in Slurm.
const fencePatience = 5 * time.Minute

var errNoFence = errors.New("see what `pcs-capacity sync` says")

// placeFence waits until Slurm shows the nodes of a slot, runs a pass of sync that places the
// fence, and waits until Slurm shows the fence. An existing fence is placed again, over all nodes.
func (s Setup) placeFence(ctx context.Context, e PlaceFence) error {
	s.tell(WhatFence, e.Slot, "wait")
	var to pcs.Pace
	var passed error
	placed := s.Fence == nil
	for {
		in, err := s.slotInSlurm(ctx, e)
		if err == nil && s.Fence != nil && len(in.Nodes) > 0 {
			if passed = s.Fence(ctx); ctx.Err() == nil {
				in, err = s.slotInSlurm(ctx, e)
				placed = true
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && placed && in.fenced(e.Reservation):
			s.done(e.Step, nil)
			return nil
		case s.Unattended:
			return fmt.Errorf("no fence stands on the nodes of %s yet: %w", e.Slot, pcs.ErrAtWork)
		case to.Waited() < cmp.Or(s.Patience, fencePatience):
		case err == nil && len(in.Nodes) == 0:
			return fmt.Errorf(
				"Slurm shows no nodes of compute node group %s after %s, so no fence can stand on them, and they are not put into queue %s; see that slurmctld of the cluster runs (`scontrol show nodes`)",
				e.Slot, capacity.FormatDuration(fencePatience), e.Queue)
		default:
			return fmt.Errorf("no fence could be placed on the nodes of %s, so they are not put into queue %s: %w",
				e.Slot, e.Queue, cmp.Or(passed, err, errNoFence))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(to.Next(s.Poll)):
		}
	}
}

func (s Setup) slotInSlurm(ctx context.Context, e PlaceFence) (SlurmSlot, error) {
	slots, _, err := s.Slurm.Slots(ctx, e.Queue, map[string][]string{e.Slot: nil})
	return slots[e.Slot], err
}

func (s Setup) writeTag(ctx context.Context, e WriteTag) error {
	if e.What == WhatTemplate {
		return s.EC2.TagLaunchTemplate(ctx, e.Of, e.Tags)
	}
	return s.PCS.Tag(ctx, e.Of, e.Tags)
}

// drainReason is the nodes' Reason in Slurm.
const drainReason = "pcs-capacity teardown"

func (s Setup) drainNodes(ctx context.Context, e DrainNodes) error {
	for _, slot := range e.Slots {
		s.tell(WhatNodes, slot.Name, "drain")
		if err := s.Slurm.Drain(ctx, slot.Nodes, drainReason); err != nil {
			return err
		}
	}
	if e.Force {
		return nil
	}
	now, _, err := s.Slurm.Slots(ctx, e.Queue, byName(e.Slots))
	if err != nil {
		return err
	}
	for _, slot := range e.Slots {
		if jobs := now[slot.Name].Jobs; len(jobs) > 0 {
			return fmt.Errorf(
				"%w: %s started on %s meanwhile; run this again when they have ended, or give the nodes back with `scontrol update nodename=%s state=resume`",
				ErrJobsRun, strings.Join(jobs, ", "), slot.Name, strings.Join(now[slot.Name].Nodes, ","))
		}
	}
	return nil
}

// lockWait is how long teardown waits for a running pass of sync.
const lockWait = time.Minute

func (s Setup) forget(ctx context.Context, e Forget) error {
	if e.StateDir != "" {
		unlock, err := state.Dir(e.StateDir).Lock(ctx, state.PassLock, lockWait)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := s.forgetSettings(e); err != nil || len(e.Slots) == 0 {
		return err
	}
	now, _, err := s.Slurm.Slots(ctx, e.Queue, byName(e.Slots))
	if err != nil {
		return err
	}
	for _, slot := range e.Slots {
		for _, name := range now[slot.Name].Reservations {
			s.tell(WhatFence, name, "delete")
			if err := s.Slurm.DeleteReservation(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s Setup) forgetSettings(e Forget) error {
	if e.Config == "" {
		return nil
	}
	c, err := config.Load(e.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, found := c.Partition(e.Was.Name); !found {
		return nil
	}
	if err := unchanged(c, e.Was.Name, &e.Was); err != nil {
		return err
	}
	if len(e.Left.Groups) == 0 {
		s.tell(WhatFile, e.Was.File, string(Delete))
		return config.RemovePartition(e.Was.File)
	}
	s.tell(WhatFile, e.Was.File, string(Update))
	return config.WritePartition(e.Was.File, e.Left)
}

func (s Setup) terminate(ctx context.Context, e TerminateInstances) error {
	instances, err := s.instancesOnEC2(ctx, e.Mark, e.Queue, e.Going)
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
