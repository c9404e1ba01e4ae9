package setup

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Apply does what the plan says. It looks again at each thing before it changes it,
// so that it can be killed at any point and run again: names are unique in EC2 and
// PCS, so a thing that an earlier run made is found by its name, and every change is
// compared with what is there first. A plan with mismatches is refused (*Refusal).
func (s Setup) Apply(ctx context.Context, p *Plan) error {
	if len(p.Mismatches) > 0 {
		return &Refusal{Mismatches: p.Mismatches}
	}
	template, err := s.EC2.EnsureLaunchTemplate(ctx, p.want.template)
	if err != nil {
		return err
	}
	s.tell(WhatTemplate, template.Name, "done")
	if p.want.provider == capacity.ProviderEC2 {
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
	now, _, err := s.PCS.Queue(ctx, p.want.cluster.ID, p.want.queue)
	if err != nil {
		return err
	}
	if err = provisioner.EnsureQueue(ctx, p.want.queueWith(now, []string{group.ID})); err != nil {
		return err
	}
	s.tell(WhatQueue, p.want.queue, "done")
	if s.Unattended {
		return nil
	}
	return writeFiles(p.want, s.tell)
}

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
