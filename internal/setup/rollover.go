package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// RollOver sets up and removes slots on PCS for the control loop, as setup and teardown do. It
// writes no settings: they limit what sync may use, and the service has no right to write them.
type RollOver struct {
	// Setup has the clients; what sync must not do is left out of it here.
	Setup  Setup
	Config *config.Config
}

// SetUp goes on to set up a block in the free slot of a node group, within its settings.
func (r RollOver) SetUp(ctx context.Context, partition string, group capacity.NodeGroup, block capacity.Reservation,
	anew bool) (did []string, err error) {
	r, end, err := r.alone(ctx, partition, slotOf(group, block))
	if err != nil || end == nil {
		return nil, err
	}
	defer end()
	s := r.unattended(&did)
	nodes := min(block.Size(), group.MaxNodes)
	request := Request{
		Provider:    capacity.ProviderPCS,
		Queue:       partition,
		NodeGroup:   group.Name,
		Reservation: block.ID,
		SubnetIDs:   subnetsFor(group, block),
		MaxNodes:    nodes,
		Dynamic:     group.Dynamic,
		Config:      r.Config,
		ConfigPath:  r.Config.Path,
	}
	plan, err := s.Plan(ctx, request)
	if err != nil {
		return nil, err
	}
	byHand := fmt.Sprintf("`pcs-capacity setup --reservation %s --queue %s --node-group %s` shows what to do",
		block.ID, partition, group.Name)
	if len(plan.Mismatches) > 0 {
		var words []string
		for _, m := range plan.Mismatches {
			words = append(words, m.Sentence)
		}
		return nil, fmt.Errorf("%s; %s", strings.Join(words, "; "), byHand)
	}
	for _, step := range plan.Steps() {
		if step.Verb == Replace && !anew {
			return nil, fmt.Errorf("PCS could not create compute node group %s: %s", step.Name, step.Details[0].Value)
		}
		if step.What == WhatNodeGroup && step.Verb == Create { // once, and not in each pass
			if size := block.Size(); nodes < size {
				did = append(did,
					fmt.Sprintf("warning: %d of the %d instances of %s stay unused: max_nodes of node group %s is %d",
						size-nodes, size, block.ID, group.Name, nodes))
			}
			for _, w := range plan.Warnings {
				did = append(did, "warning: "+w)
			}
		}
	}
	if err := s.Apply(ctx, plan); !errors.Is(err, pcs.ErrAtWork) { // else the next pass goes on
		return did, err
	}
	return did, nil
}

// slotOf returns the slot of a node group that is set up for a block, completely or in part; "" if none is.
func slotOf(group capacity.NodeGroup, block capacity.Reservation) string {
	for _, slot := range group.Slots {
		if slot.Holds == block.ID {
			return slot.Name
		}
	}
	return ""
}

// Remove goes on to remove a slot. While instances or jobs are there it does nothing.
func (r RollOver) Remove(ctx context.Context, partition, slot string) (did []string, err error) {
	r, end, err := r.alone(ctx, partition, slot)
	if err != nil || end == nil {
		return nil, err
	}
	defer end()
	s := r.unattended(&did)
	plan, err := s.PlanTeardown(ctx,
		Request{Provider: capacity.ProviderPCS, Queue: partition, NodeGroup: slot, Config: r.Config})
	if err != nil {
		return nil, err
	}
	var words []string
	for _, m := range plan.Mismatches {
		if m.Code != capacity.JobsRun && m.Code != capacity.NodesHaveInstances {
			words = append(words, m.Sentence+"; "+m.Fix)
		}
	}
	if len(plan.Mismatches) > 0 {
		if words == nil {
			return nil, nil
		}
		return nil, errors.New(strings.Join(words, "; "))
	}
	if err := s.Apply(ctx, plan); !errors.Is(err, pcs.ErrAtWork) && !errors.Is(err, ErrJobsRun) {
		return did, err
	}
	return did, nil
}

// alone keeps out setup and teardown, and reads the settings again: they may have changed since the pass began. end is nil while another
// one, or PCS with a change of an earlier pass, is at work, and where the settings have no such partition any more; the next pass goes on.
func (r RollOver) alone(ctx context.Context, partition, slot string) (now RollOver, end func(), err error) {
	if slot != "" {
		if busy, err := r.Setup.PCS.Busy(ctx, r.Config.Cluster, partition, slot); err != nil || busy {
			return r, nil, err
		}
	}
	unlock, err := state.Dir(r.Config.StateDir).Lock(ctx, state.SetupLock, 0)
	if errors.Is(err, state.ErrLocked) {
		return r, nil, nil
	}
	if err != nil {
		return r, nil, err
	}
	defer func() {
		if end == nil {
			unlock()
		}
	}()
	if r.Config, err = config.Load(r.Config.Path); err != nil {
		return r, nil, err
	}
	if p, found := r.Config.Partition(partition); !found || !p.RollOver {
		return r, nil, nil
	}
	return r, unlock, nil
}

// unattended returns setup as sync may use it, with a record of what it begins.
func (r RollOver) unattended(did *[]string) Setup {
	s := r.Setup
	s.Unattended = true
	s.Progress = func(what, name, status string) {
		if slices.Contains([]Verb{Create, Update, Delete}, Verb(status)) {
			*did = append(*did, fmt.Sprintf("%s %s %s", status, what, name))
		}
	}
	return s
}

// subnetsFor returns a node group's subnets in a block's zone; if there is none, all of them, which
// makes setup name the mismatch.
func subnetsFor(group capacity.NodeGroup, block capacity.Reservation) []string {
	var all, there []string
	for _, s := range group.Subnets {
		all = append(all, s.ID)
		if s.AZID == block.AZID {
			there = append(there, s.ID)
		}
	}
	if there == nil {
		return all
	}
	return there
}
