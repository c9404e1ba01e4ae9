package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// PlanTeardown reads the remains of a queue, or of a node group in it, and returns the steps that remove them. It
// changes nothing. An error is a failed read; obstacles are among Plan.Problems.
func (s Setup) PlanTeardown(ctx context.Context, r Request) (*Plan, error) {
	v, err := s.sources().findRemains(ctx, r)
	if err != nil {
		return nil, err
	}

	return planTeardown(v).withoutNil(), nil
}

// findRemains reads everything left of a queue, or of a node group in it. A killed run may have left any part, so each
// thing is found independently: by the settings, by the queue, and by our tag with the queue's name.
func (s sources) findRemains(ctx context.Context, r Request) (v view, err error) {
	v = s.newView(r)

	onPCS := v.Provider == capacity.ProviderPCS
	guest := v.Provider.IsGuest()
	if onPCS {
		v.Region = s.Region()
	}

	err = v.readCluster(ctx, s)
	if err != nil || v.hasProblems() {
		return v, err
	}

	tags := map[string]string{capacity.TagCluster: v.Cluster.Name}
	if !onPCS {
		tags[capacity.TagPartition] = v.request.Queue
	} else if c := v.request.Config; c.Path != "" && c.Cluster != v.Cluster.Name && c.Cluster != v.Cluster.ID {
		v.warn("%s is for cluster %q, not for %s, so it is left alone", c.Path, c.Cluster, v.Cluster.Name)
		v.request.Config = config.Default()
	}

	if p := v.settings(); p.Name != "" && p.Provider != v.Provider {
		v.problem(capacity.WrongProvider, "use --provider "+string(p.Provider),
			"partition %q of %s has provider %q", p.Name, p.File, p.Provider)

		return v, nil
	}

	var (
		templates []capacity.LaunchTemplate
		instances []capacity.Instance
	)

	if !guest && !s.unattended { // sync keeps them
		templates, err = s.LaunchTemplatesByTag(ctx, tags)
	}

	if err == nil && v.OnEC2() {
		instances, err = v.instancesOnEC2(ctx, s)
	}

	if err != nil {
		return v, err
	}

	slots, found := v.goingSlots(templates, instances)
	v.slots = slots
	v.Add(found.Problems...)

	if onPCS && !s.unattended {
		err = v.readGroups(ctx, s)
	}

	err = cmp.Or(err, v.readSlurm(ctx, s))
	if s.unattended { // sync removes node groups and their places in queues, and nothing else
		v.request.Config = config.Default()
		for i := range v.slots {
			v.slots[i].Slurm.Reservations = nil
		}
	}

	return v, err
}

// readGroups reads the Capacity Reservation groups of slots whose nodes are launched into one, or were. One without our
// tag stays.
func (v *view) readGroups(ctx context.Context, s sources) error {
	for i := range v.slots {
		slot := &v.slots[i]
		if slot.Template.ReservationGroup == "" && v.settings().Group(slot.Base).Reserve != capacity.ReservePerJob {
			continue
		}

		group, found, err := s.groups.Find(ctx, capacity.HoldGroupName(v.Cluster.Name, slot.Name))
		if err != nil {
			return err
		}

		if found && v.Owns(group.Tags) {
			slot.Reservations = &group
		}
	}

	return nil
}

// instancesOnEC2 returns our instances that go.
func (v *view) instancesOnEC2(ctx context.Context, aws interface {
	FindInstances(ctx context.Context, q capacity.InstanceQuery) ([]capacity.Instance, error)
},
) ([]capacity.Instance, error) {
	ours, err := aws.FindInstances(ctx, capacity.InstanceQuery{
		Tags: map[string][]string{capacity.TagCluster: {v.request.Mark}, capacity.TagPartition: {v.request.Queue}},
	})
	if err != nil {
		return nil, fmt.Errorf("looking for instances of partition %s: %w", v.request.Queue, err)
	}

	going := slices.DeleteFunc(capacity.WithNodes(ours), func(i capacity.Instance) bool {
		_, goes := v.isRemoved(v.slotOf(i))
		return i.Ended() || i.Tags[capacity.TagNode] == "" || !goes
	})
	slices.SortFunc(going, func(a, b capacity.Instance) int {
		return cmp.Compare(a.Tags[capacity.TagNode], b.Tags[capacity.TagNode])
	})

	return going, nil
}
