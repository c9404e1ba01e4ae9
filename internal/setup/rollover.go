package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// RollOver sets up and removes slots on PCS for the control loop, as setup and teardown do. It
// writes no settings: they limit what sync may use, and the service has no right to write them.
type RollOver struct {
	Setup  Setup // Setup has the clients; what sync must not do is left out of it here
	Config *config.Config
}

// SetUp goes on to set up a block in the free slot of a node group, within its settings.
func (r RollOver) SetUp(
	ctx context.Context, partition string, group capacity.NodeGroup, block capacity.Reservation, anew bool,
) (did []string, err error) {
	slot := "" // that is set up for the block, completely or in part
	if at := slices.IndexFunc(group.Slots, func(s capacity.Slot) bool { return s.Occupant == block.ID }); at >= 0 {
		slot = group.Slots[at].Name
	}

	return r.apply(ctx, partition, slot, func(s Setup, c *config.Config) (plan *Plan, said []string, err error) {
		nodes := min(block.Size(), group.MaxNodes)

		var subnets []string
		for _, s := range group.Subnets {
			subnets = append(subnets, s.ID)
		}

		plan, err = s.Plan(ctx, Request{
			Provider:    capacity.ProviderPCS,
			Queue:       partition,
			NodeGroup:   group.Name,
			Reservation: block.ID,
			SubnetIDs:   subnets,
			MaxNodes:    nodes,
			Dynamic:     group.Dynamic,
			Config:      c,
			ConfigPath:  c.Path,
		})
		if err == nil && len(plan.Mismatches()) > 0 {
			err = fmt.Errorf("%w; see `pcs-capacity setup --reservation %s --queue %s --node-group %s`",
				mismatchError(plan.Mismatches()), block.ID, partition, group.Name)
		}

		if err != nil {
			return nil, nil, err
		}

		for _, step := range plan.Actions {
			if step.Verb == Replace && !anew {
				return nil, nil, fmt.Errorf("PCS could not create compute node group %s: %s", step.Name,
					step.Details[0].Value)
			}

			if step.What != WhatNodeGroup || step.Verb != Create { // once, and not in each pass
				continue
			}

			if size := block.Size(); nodes < size {
				said = append(said,
					fmt.Sprintf("warning: %d of the %d instances of %s stay unused: max_nodes of node group %s is %d",
						size-nodes, size, block.ID, group.Name, nodes))
			}

			for _, w := range plan.Texts(capacity.Note) {
				said = append(said, "warning: "+w)
			}
		}

		return plan, said, nil
	})
}

// Remove goes on to remove a slot. While instances or jobs are there it does nothing.
func (r RollOver) Remove(ctx context.Context, partition, slot string) (did []string, err error) {
	return r.apply(ctx, partition, slot, func(s Setup, c *config.Config) (*Plan, []string, error) {
		plan, err := s.PlanTeardown(ctx,
			Request{
				Provider:  capacity.ProviderPCS,
				Queue:     partition,
				NodeGroup: slot,
				Config:    c,
			})
		if err != nil || len(plan.Mismatches()) == 0 {
			return plan, nil, err
		}

		plan.Problems = slices.DeleteFunc(plan.Mismatches(), func(p capacity.Problem) bool {
			return p.Code == capacity.JobsRun || p.Code == capacity.NodesHaveInstances
		})
		if len(plan.Problems) == 0 { // it waits
			return nil, nil, nil
		}

		return plan, nil, nil
	})
}

// apply carries out a plan as sync may, and returns what was begun. It keeps out setup and teardown, and reads the
// settings again: they may have changed since the pass began. It does nothing without a plan, while another one, or PCS
// with a change of an earlier pass, is at work, and where the settings have no such partition any more; the next pass
// goes on.
func (r RollOver) apply(
	ctx context.Context, partition, slot string, plan func(s Setup, c *config.Config) (*Plan, []string, error),
) (did []string, err error) {
	if slot != "" {
		if busy, err := r.Setup.PCS.Busy(ctx, r.Config.Cluster, partition, slot); err != nil || busy {
			return nil, err
		}
	}

	unlock, err := state.Dir(r.Config.StateDir).Lock(ctx, state.SetupLock, 0)
	if errors.Is(err, state.ErrLocked) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	defer unlock()

	c, err := config.Load(r.Config.Path)
	if err != nil {
		return nil, err
	}

	if p, found := c.Partition(partition); !found || !p.RollOver {
		return nil, nil
	}

	s := r.Setup
	s.Unattended = true
	s.Fence = func(context.Context) error { return nil } // passes are made anyway
	s.Progress = func(what, name, status string) {
		if slices.Contains([]Verb{Create, Update, Delete}, Verb(status)) {
			did = append(did, fmt.Sprintf("%s %s %s", status, what, name))
		}
	}

	p, said, err := plan(s, c)
	if err != nil || p == nil {
		return nil, err
	}

	did = said

	if err = s.Apply(ctx, p); errors.Is(err, pcs.ErrAtWork) || errors.Is(err, ErrJobsRun) {
		err = nil // the next pass goes on
	}

	return did, err
}
