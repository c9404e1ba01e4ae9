package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
)

// firstAnswer bounds the first call of a pass. The SDK gives up after three attempts and pauses of up
// to 2 and 4 s: a longer call means a dead endpoint, or no credentials.
const firstAnswer = 8 * time.Second

// allAnswers bounds all calls together.
const allAnswers = time.Minute

// observe reads AWS, all side by side; cluster waits for Slurm's answer, nil if there is none. After a failed read the
// snapshot holds older facts and keeps the older time, so it goes stale.
func (p *pass) observe(ctx context.Context, cluster func() (*Cluster, error)) {
	ctx, cancel := context.WithTimeout(ctx, allAnswers)
	defer cancel()

	old := p.view.old()
	query := p.query(old)

	var beside sync.WaitGroup
	if p.Offline == nil {
		beside.Go(func() { p.askInstances(ctx, cluster) })
	}

	if p.Offline == nil && len(query.Groups) > 0 {
		beside.Go(func() { p.impaired.Value, p.impaired.Err = p.EC2.Impaired(ctx) })
	}

	answers := facts.Read(ctx, p.EC2, query)
	if answers.Down != nil {
		cancel() // nor would the others be answered
	}

	beside.Wait()

	p.asked = answers.Asked

	now := p.now()
	kept := answers.Keep(p.view.Old, now)
	kept.Facts.Fences = p.ownFences(cluster)

	snap := capacity.Build(p.Settings, kept.Facts)
	snap.Missing = kept.Missing
	snap.Problems = append(p.view.Snap.Problems, kept.Problems...)
	snap.Region = p.EC2.Region()
	snap.TakenAt = now.UTC().Truncate(time.Second)
	snap.ClockOffset.Duration = p.EC2.Offset()

	p.view.Told = kept.Told

	p.view.FailedGroups = answers.FailedGroups
	p.failed = append(p.failed, kept.Unanswered...)
	p.view.NoAWS = len(kept.Unanswered) > 0
	if p.view.NoAWS { // the facts are as old as the last answers
		snap.TakenAt = old.TakenAt
		if p.EC2.Offset() == 0 {
			snap.ClockOffset = old.ClockOffset
		}
	}

	p.view.Snap = snap
	for _, words := range p.EC2.Withheld() {
		p.addProblem(capacity.AWSUnanswered, capacity.Subject{}, "", "%s; what was known before is kept", words)
	}
}

// ownFences returns the fences of these settings, as Slurm has them.
func (p *pass) ownFences(cluster func() (*Cluster, error)) (fences []capacity.SlurmReservation) {
	c, err := cluster()
	if err != nil || c == nil {
		return nil
	}

	for _, r := range c.Reservations {
		g := r.Guard()
		if r.IsOurs() && g.Kind == capacity.GuardFence && g.Owner == p.Owner {
			fences = append(fences, r)
		}
	}

	return fences
}

// query asks for what the settings name, and for the reservations that the last pass knew as open: a fence stands for
// them, whatever the settings say now.
func (p *pass) query(old *capacity.Snapshot) facts.Query {
	q := facts.Query{
		Templates:  p.Settings.ImageTemplates(),
		Held:       p.Held,
		Instances:  p.view.Old == nil,
		Offline:    p.Offline,
		FirstLimit: firstAnswer,
	}
	for _, part := range p.Settings.Partitions {
		q.Groups = append(q.Groups, part.Groups...)
		if part.Provider != capacity.ProviderPCS {
			continue
		}

		for _, g := range part.Groups {
			q.NodeGroups = append(q.NodeGroups, g.SlotNames(part.Provider)...)
		}
	}

	now := p.MachineTime().Add(old.ClockOffset.Duration)

	// A slot that has left the settings may still have nodes, and a fence over them.
	for _, v := range old.SlotStates(now) {
		if v.Slot.Nodes != "" {
			q.Reservations = append(q.Reservations, v.Reservation.ID)
		}
	}

	// A tag that somebody removed does not end a block: the reservations that it selected are asked for by id as well.
	for _, g := range q.Groups {
		for _, r := range old.Reservations {
			if g.Select != nil && g.Select.Matches(r) && r.IsLiveAt(now) {
				q.Reservations = append(q.Reservations, r.ID)
			}
		}
	}

	return q
}

// askInstances asks for the instances of the cluster that Slurm has named.
func (p *pass) askInstances(ctx context.Context, cluster func() (*Cluster, error)) {
	c, err := cluster()
	if err != nil || !p.mayHaveInstances(c) {
		return
	}

	// By name, so that instances of a cluster that was set up anew under the same name show up too.
	of := capacity.InstanceQuery{ClusterName: c.Name}
	if of.ClusterName == "" {
		of.Tags = map[string][]string{capacity.TagCluster: {c.Mark}}
	}

	p.instances.Value, p.instances.Err = p.EC2.FindInstances(ctx, of)
}

// mayHaveInstances reports whether a cluster, nil if unknown, may have instances that our hooks launched: now, or of
// partitions that it no longer has.
func (p *pass) mayHaveInstances(c *Cluster) bool {
	launches := slices.ContainsFunc(p.Settings.Partitions,
		func(s capacity.PartitionSettings) bool { return s.Provider.Launches() })

	return launches || c != nil && c.Name != "" && c.Mark != ""
}

// mismatches says why launches into a slot's current reservation would fail.
func mismatches(s View) (problems []capacity.Problem) {
	for _, v := range s.slotStates() {
		if v.Reservation.ID == "" || v.Former {
			continue
		}

		for _, m := range capacity.FilterLasting(capacity.Match(v.Reservation, *v.Group, s.Now)) {
			m.About.Partition = v.Partition.Name
			m.About.Slot = v.Slot.Name
			problems = append(problems, m)
		}
	}

	return problems
}
