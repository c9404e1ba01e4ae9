package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file reads Slurm's jobs: those that can have nodes of ours, in every pass, and of all
// others, which may be a hundred times as many, what bears a word of ours, now and then.

// changeJobs does what a pass has to do with jobs, which it reads once: what a pass before left
// undone, endings at the fence, time limits, and what owners have to know.
func (p *pass) changeJobs(ctx context.Context) {
	if !mayChangeJobs(p.seen) {
		return
	}
	if err := p.readJobs(ctx); err != nil {
		err = fmt.Errorf("reading Slurm's jobs: %w", err)
		p.say(capacity.SlurmUnanswered, capacity.Subject{}, "", "%v; time limits and holds are as they were", err)
		p.fail(err)
		return
	}
	p.readMarks()
	p.seen.Marks = trusted(p.seen)
	p.learnJobs(p.carryOut(ctx, unfinished(p.seen)))
	p.learnJobs(p.carryOut(ctx, endings(p.seen)))
	p.learnJobs(p.carryOut(ctx, keepMarks(p.seen)))
	p.readBudgets(ctx, meteredPartitions(p.seen))
	p.decide(ctx, limits)
	p.carryOut(ctx, waiting(p.seen))
	p.carryOut(ctx, endedHolds(p.seen))
}

// mayChangeJobs reports whether a job can be too long, or held by us.
func mayChangeJobs(seen Seen) bool {
	return len(fencedNodes(seen)) > 0 || seen.launches() ||
		slices.ContainsFunc(seen.Snap.Reservations, func(r capacity.Reservation) bool { return !r.End.IsZero() })
}

// left are all jobs that this pass has not taken off their nodes.
func (s Seen) left() []capacity.Job {
	jobs := s.Jobs
	if len(s.Elsewhere) > 0 { // they may be many
		jobs = slices.Concat(jobs, s.Elsewhere)
	}
	return without(jobs, func(j capacity.Job) bool { return s.Off[j.Shown] })
}

// everywhere is every how many passes Watch looks at the jobs of all partitions.
const everywhere = 10

// Ours are those of Slurm's partitions whose jobs can have nodes of ours: the partitions of the
// settings, and others that share nodes with them or with slots that the settings had before.
func (c *Cluster) Ours(snap *capacity.Snapshot) []string {
	nodes := map[string]bool{}
	for _, p := range slices.Concat(snap.Partitions, snap.Former) {
		for _, g := range p.Groups {
			for _, s := range g.Slots {
				for _, n := range c.SlotNodes(s.Name) {
					nodes[n] = true
				}
			}
		}
	}
	var names []string
	for _, p := range c.Partitions {
		if _, ours := snap.Partition(p.Name); ours || slices.ContainsFunc(p.Nodes, func(n string) bool { return nodes[n] }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// readJobs reads the jobs that this pass is about. p.seen.Elsewhere are those in partitions that are
// none of ours: only what was done to a job before it was moved there, or what it asks of us, is
// of interest.
func (p *pass) readJobs(ctx context.Context) error {
	ours := p.seen.Cluster.Ours(p.seen.Snap)
	in := func(j capacity.Job) bool {
		for name := range strings.SplitSeq(j.Partition, ",") {
			if slices.Contains(ours, name) {
				return true
			}
		}
		return false
	}
	jobs, ended := []capacity.Job{}, []capacity.Job{}
	var err error
	if asked := append(slices.Clone(ours), p.AlsoOurs...); !p.OursOnly {
		jobs, ended, err = p.Slurm.Jobs(ctx, nil, func(j capacity.Job) bool { return in(j) || p.onOurs(j) || concerns(j) })
	} else if len(asked) > 0 {
		jobs, ended, err = p.Slurm.Jobs(ctx, asked, nil)
	}
	if err != nil {
		return err
	}
	p.seen.Ended = withoutChecks(ended)
	p.seen.Jobs = slices.DeleteFunc(withoutChecks(jobs), func(j capacity.Job) bool { // in place: they may be many
		ours := in(j) || p.onOurs(j)
		if !ours {
			p.seen.Elsewhere = append(p.seen.Elsewhere, j)
		}
		return !ours
	})
	if p.seen.Jobs == nil { // which says that they were not read
		p.seen.Jobs = []capacity.Job{}
	}
	return nil
}

// onOurs reports whether a job has nodes of ours. Its partition may have had them until a moment
// ago.
func (p *pass) onOurs(j capacity.Job) bool {
	return slices.ContainsFunc(j.Nodes, func(n string) bool { _, _, _, ours := p.Settings.PlaceOf(n); return ours })
}

// alsoOurs are the partitions of jobs that have nodes of ours.
func (p *pass) alsoOurs() []string {
	var names []string
	for _, j := range p.seen.Jobs {
		if !slices.Contains(names, j.Partition) && p.onOurs(j) {
			names = append(names, j.Partition)
		}
	}
	return names
}

// concerns reports whether a job that can have no node of ours bears a word of ours, or one
// for us.
func concerns(j capacity.Job) bool {
	wish, wrong := capacity.ParseWish(j.Comment)
	return strings.HasPrefix(j.AdminComment, "pcs-capacity: ") || wish.Names() || len(wrong) > 0
}
