package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Apply does what the plan says. It looks again at each thing before it changes it,
// so that it can be killed at any point and run again: names are unique in EC2 and
// PCS, so a thing that an earlier run made is found by its name, and every change is
// compared with what is there first. A plan with mismatches is refused (*Refusal).
//
// On PCS the settings come first and the queue last: wherever it stops, there is no queue
// without settings, which the filter and sync go by, and without a fence.
func (s Setup) Apply(ctx context.Context, p *Plan) error {
	if len(p.Mismatches) > 0 {
		return &Refusal{Mismatches: p.Mismatches}
	}
	onPCS := p.want.provider != capacity.ProviderEC2
	if onPCS && !s.Unattended {
		if err := writeFiles(p.want, s.tell); err != nil {
			return err
		}
	}
	template, err := s.EC2.EnsureLaunchTemplate(ctx, p.want.template)
	if err != nil {
		return err
	}
	s.tell(WhatTemplate, template.Name, "done")
	if !onPCS { // the settings name the template, and slurm.conf has no node before them
		return writeFiles(p.want, s.tell)
	}
	group := p.want.group
	group.TemplateID, group.TemplateVersion = template.ID, template.Version
	provisioner := s.provisioner(p.want.dropUnknown)
	group, _, err = provisioner.EnsureNodeGroup(ctx, group, true)
	if err != nil {
		return err
	}
	s.tell(WhatNodeGroup, group.Name, "done")
	if err := s.fence(ctx, p.want); err != nil {
		return err
	}
	now, _, err := s.PCS.Queue(ctx, p.want.cluster.ID, p.want.queue)
	if err != nil {
		return err
	}
	if err = provisioner.EnsureQueue(ctx, p.want.queueWith(now, []string{group.ID})); err != nil {
		return err
	}
	s.tell(WhatQueue, p.want.queue, "done")
	return nil
}

// fencePatience is how long the nodes of a new node group may take to appear in Slurm.
const fencePatience = 5 * time.Minute

// fence has the fence placed over the nodes of the slot, and returns when it stands. A
// reservation without an end needs none.
func (s Setup) fence(ctx context.Context, want *wanted) error {
	slot := want.group.Name
	if s.Slurm == nil || want.reservation.End.IsZero() {
		return nil
	}
	s.tell(WhatFence, slot, "wait")
	for waited := time.Duration(0); ; waited += cmp.Or(s.Poll, fencePoll) {
		var passed error
		if s.Fence != nil {
			passed = s.Fence(ctx)
		}
		slots, _, err := s.Slurm.Slots(ctx, want.queue, map[string][]string{slot: nil})
		switch in := slots[slot]; {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && slices.ContainsFunc(in.Reservations, func(name string) bool { return strings.Contains(name, want.reservation.ID) }):
			s.tell(WhatFence, slot, "done")
			return nil
		case s.Unattended:
			return fmt.Errorf("no fence stands on the nodes of %s yet: %w", slot, pcs.ErrAtWork)
		case waited < cmp.Or(s.Patience, fencePatience):
		case err == nil && len(in.Nodes) == 0:
			return fmt.Errorf("Slurm shows no nodes of compute node group %s after %s, so no fence can stand on them, and they are not put into queue %s; see that slurmctld of the cluster runs (`scontrol show nodes`)",
				slot, capacity.FormatDuration(fencePatience), want.queue)
		default:
			return fmt.Errorf("no fence could be placed on the nodes of %s, so they are not put into queue %s: %w", slot, want.queue, cmp.Or(passed, err, errNoFence))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(cmp.Or(s.Poll, fencePoll)):
		}
	}
}

// fencePoll is the time between two looks at Slurm.
const fencePoll = 2 * time.Second

var errNoFence = errors.New("see what `pcs-capacity sync` says")

// queueWith is the wanted queue with these node groups; now is the queue as it is.
func (w *wanted) queueWith(now pcs.Queue, groups []string) pcs.Queue {
	return pcs.Queue{Name: w.queue, ClusterID: w.cluster.ID, GroupIDs: groups, SlurmSettings: w.queueSettings(now.SlurmSettings),
		Tags: map[string]string{capacity.TagCluster: w.cluster.Name}}
}

func (s Setup) provisioner(dropUnknown bool) pcs.Provisioner {
	return pcs.Provisioner{PCS: s.PCS, EC2: s.EC2, Poll: s.Poll, NoWait: s.Unattended, Progress: s.Progress, DropUnknown: dropUnknown}
}

func (s Setup) tell(what, name, status string) {
	if s.Progress != nil {
		s.Progress(what, name, status)
	}
}
