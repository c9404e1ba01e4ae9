package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// PCS is a cluster of PCS, as setup, teardown and passes see it: a verb is over when PCS has done it. Slurm's nodes and
// partitions come from its node groups and queues.
type PCS struct {
	*Model
	Cluster pcs.Cluster
	Groups  []pcs.NodeGroup
	Queues  []pcs.Queue
	Fails   pcs.Failures  // node groups cannot be created, for these
	Shows   time.Duration // how long after a node group Slurm shows its nodes
}

// Inventory returns the whole cluster, whatever it is called.
func (p *PCS) Inventory(context.Context, string) (pcs.Inventory, error) {
	return read(p.EC2, "read a PCS cluster", "", func() pcs.Inventory {
		return pcs.Inventory{Cluster: p.Cluster, Groups: slices.Clone(p.Groups), Queues: slices.Clone(p.Queues)}
	})
}

// Clusters returns the only one.
func (p *PCS) Clusters(context.Context) ([]pcs.Cluster, error) {
	return read(p.EC2, "list PCS clusters", "", func() []pcs.Cluster { return []pcs.Cluster{p.Cluster} })
}

// Group returns a node group by its name, nil if there is none.
func (p *PCS) Group(name string) *pcs.NodeGroup {
	return checkName(p.Groups, func(g pcs.NodeGroup) bool { return g.Name == name })
}

// Queue returns a queue by its name, nil if there is none.
func (p *PCS) Queue(name string) *pcs.Queue {
	return checkName(p.Queues, func(q pcs.Queue) bool { return q.Name == name })
}

// errInvalid is PCS's error for an invalid request.
var errInvalid = errors.New("ValidationException")

// Slots returns the node groups of the names, each with the reservation that it was set up for.
func (p *PCS) Slots(_ context.Context, _ string, names []string) (map[string]string, error) {
	return read(p.EC2, "list node groups", "", func() map[string]string {
		found := map[string]string{}
		for _, g := range p.Groups {
			if slices.Contains(names, g.Name) {
				found[g.Name] = g.Tags[capacity.TagReservation]
			}
		}

		return found
	})
}

// Configure sets a node group up for a reservation.
func (p *PCS) Configure(_ context.Context, r pcs.ConfigureRequest) (changed bool, err error) {
	err = p.change(
		"configure",
		fmt.Sprintf("%s %s %s", r.Group, r.Reservation.ID, strings.Join(r.SubnetIDs, ",")),
		func() error {
			g := p.Group(r.Group)
			if g == nil {
				return fmt.Errorf("%w: there is no node group %s", errInvalid, r.Group)
			}

			changed = g.Tags[capacity.TagReservation] != r.Reservation.ID || !slices.Equal(g.SubnetIDs, r.SubnetIDs)
			g.Tags = map[string]string{capacity.TagReservation: r.Reservation.ID}
			g.SubnetIDs = r.SubnetIDs

			return nil
		},
	)

	return changed, err
}

// EnsureNodeGroup creates or updates a node group, and makes one anew that could not be created. PCS takes no launch
// template that EC2 does not have.
func (p *PCS) EnsureNodeGroup(
	_ context.Context,
	want pcs.NodeGroup,
	mayCreate bool,
) (g pcs.NodeGroup, changed bool, err error) {
	err = p.change("ensure node group", want.Name, func() error {
		now := p.Group(want.Name)
		anew := now == nil || now.Status == pcs.CreateFailed
		switch {
		case p.EC2.Template(want.TemplateID).ID == "" || want.TemplateVersion == "":
			return fmt.Errorf(
				"%w: there is no launch template %q version %q",
				errInvalid,
				want.TemplateID,
				want.TemplateVersion,
			)
		case anew && !mayCreate:
			return fmt.Errorf("%w: there is no node group %s", errInvalid, want.Name)
		case now != nil && !p.Cluster.Owns(now.Tags):
			return pcs.ErrNotOurs
		case anew:
			if err := p.deleteGroup(want.Name); err != nil {
				return err
			}

			p.Groups = append(p.Groups, pcs.NodeGroup{ID: "pcs_" + want.Name})
			now = &p.Groups[len(p.Groups)-1]
		case !now.Compare(want).Changed():
			g = *now
			return nil
		}

		id := now.ID
		*now = want
		changed = true
		now.ID = id

		now.ARN = "arn:" + id
		now.Status = pcs.Active
		now.Modified = p.Now()
		if p.Fails != nil {
			now.Status = pcs.CreateFailed
			now.Failures = p.Fails
			return fmt.Errorf("PCS could not create node group %s: %s", now.Name, now.Failures)
		}

		p.inSlurm()

		g = *now

		return nil
	})

	return g, changed, err
}

// inSlurm gives node groups their nodes in Slurm, and these the partitions of their queues.
func (p *PCS) inSlurm() {
	s := p.Slurm
	queues := map[string]string{}
	s.partitions = nil
	for _, q := range p.Queues {
		s.partitions = append(s.partitions, q.Name)
		for _, id := range q.GroupIDs {
			queues[id] = q.Name
		}
	}

	for _, g := range p.Groups {
		has := 0
		for _, n := range s.All {
			if n.Slot == g.Name {
				n.Partition = queues[g.ID]
				has++
			}
		}

		if has != g.Max {
			s.All = slices.DeleteFunc(s.All, func(n *Node) bool { return n.Slot == g.Name })
			s.Add(queues[g.ID], g.Name, g.Max)

			for _, n := range s.All[len(s.All)-g.Max:] {
				n.VisibleAt = s.Now.Add(p.Shows)
			}
		}
	}
}

// DeleteNodeGroup deletes a node group of ours with its nodes. PCS deletes none that is in a queue.
func (p *PCS) DeleteNodeGroup(_ context.Context, _ pcs.Cluster, name string) error {
	return p.change("delete node group", name, func() error { return p.deleteGroup(name) })
}

func (p *PCS) deleteGroup(name string) error {
	g := p.Group(name)
	switch {
	case g == nil:
		return nil
	case !p.Cluster.Owns(g.Tags):
		return pcs.ErrNotOurs
	case slices.ContainsFunc(p.Queues, func(q pcs.Queue) bool { return slices.Contains(q.GroupIDs, g.ID) }):
		return fmt.Errorf("%w: node group %s is in a queue", errInvalid, name)
	}

	p.Slurm.All = slices.DeleteFunc(p.Slurm.All, func(n *Node) bool { return n.Slot == name })
	p.Groups = slices.DeleteFunc(p.Groups, func(g pcs.NodeGroup) bool { return g.Name == name })

	return nil
}

// EnsureQueue creates a queue, or adds node groups and settings to it.
func (p *PCS) EnsureQueue(_ context.Context, want pcs.Queue) error {
	return p.change("ensure queue", want.Name, func() error {
		q := p.Queue(want.Name)
		switch {
		case slices.ContainsFunc(want.GroupIDs, func(id string) bool {
			there := slices.ContainsFunc(p.Groups, func(g pcs.NodeGroup) bool { return g.ID == id })
			return !there
		}):
			return fmt.Errorf("%w: queue %s has a node group that is not there", errInvalid, want.Name)
		case q == nil:
			p.Queues = append(p.Queues, want)
			q = &p.Queues[len(p.Queues)-1]
			q.ID = "pcs_q" + want.Name
			q.Status = pcs.Active
			q.GroupIDs = nil
		case !p.Cluster.Owns(q.Tags):
			return pcs.ErrNotOurs
		}

		groups := slices.Concat(q.GroupIDs, want.GroupIDs)
		slices.Sort(groups)

		q.GroupIDs = slices.Compact(groups)
		if want.SlurmSettings != nil {
			q.SlurmSettings = want.SlurmSettings
		}

		p.inSlurm()

		return nil
	})
}

// ChangeClusterSettings sets settings of Slurm for the whole cluster.
func (p *PCS) ChangeClusterSettings(_ context.Context, _ string, change map[string]string) error {
	return p.change("change cluster settings", p.Cluster.Name, func() error {
		p.Cluster.SlurmSettings = pcs.ChangedSettings(p.Cluster.SlurmSettings, change)
		return nil
	})
}

// ReleaseQueue takes node groups out of a queue of ours, and deletes one that is empty then.
func (p *PCS) ReleaseQueue(_ context.Context, _ pcs.Cluster, name string, groups []string, deleteEmpty bool) error {
	return p.change("release queue", name, func() error {
		q := p.Queue(name)
		switch {
		case q == nil:
			return nil
		case !p.Cluster.Owns(q.Tags):
			return pcs.ErrNotOurs
		}

		q.GroupIDs = slices.DeleteFunc(
			slices.Clone(q.GroupIDs),
			func(id string) bool { return slices.Contains(groups, id) },
		)
		if deleteEmpty && len(q.GroupIDs) == 0 {
			p.Queues = slices.DeleteFunc(p.Queues, func(q pcs.Queue) bool { return q.Name == name })
		}

		p.inSlurm()

		return nil
	})
}
