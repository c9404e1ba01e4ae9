package setup

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// The settings of Slurm with which nodes are lent, and get back to the lender.
const (
	preemptType  = "PreemptType"
	preemptMode  = "PreemptMode"
	priorityTier = "PriorityTier"
	byRequeue    = "REQUEUE"
)

// SparePreemption are settings for all of Slurm, SpareSettings those of a spare partition. A GraceTime is left to the
// site: see [slurm.Version.HasGraceTime].
var (
	SparePreemption = map[string]string{preemptType: "preempt/" + capacity.ByPartition, preemptMode: byRequeue}
	SpareSettings   = map[string]string{priorityTier: "0", preemptMode: byRequeue}
)

// spare returns the name of the partition's spare one: that of the settings, else the requested one; "" for none.
func (in *inspection) spare() string { return cmp.Or(in.settings().Spare, in.request.Spare) }

// isSpare reports whether a queue of ours is a spare one, and of which queue.
func (v *view) isSpare(q pcs.Queue) (lender string, is bool) {
	lender = q.Tags[capacity.TagPartition]
	return lender, v.Owns(q.Tags) && lender != "" && lender != q.Name
}

// spareQueues returns the spare queues of the queue.
func (v *view) spareQueues() []pcs.Queue {
	return slices.DeleteFunc(slices.Clone(v.Queues), func(q pcs.Queue) bool {
		lender, is := v.isSpare(q)
		return !is || lender != v.request.Queue
	})
}

// preemption returns how Slurm preempts jobs, and its partitions.
func (in *inspection) preemption() (p capacity.Preemption, partitions []capacity.SlurmPartition) {
	if in.OnEC2() {
		return in.request.Preemption, in.request.Partitions
	}

	for _, q := range in.Queues {
		tier, err := strconv.Atoi(q.SlurmSettings[priorityTier])
		if err != nil {
			tier = 1 // Slurm's default
		}

		partitions = append(partitions, capacity.SlurmPartition{Name: q.Name, PriorityTier: tier})
	}

	has := in.Cluster.SlurmSettings

	return capacity.ParsePreemption(has[preemptType], has[preemptMode]), partitions
}

// checkSpare finds what keeps the queue from lending its nodes.
func checkSpare(in inspection) (found findings) {
	asked := in.request.Spare
	has := in.settings().Spare

	switch {
	case asked == "" || asked == has:
		return found
	case has != "":
		found.problem(capacity.BadSettings, "leave out --spare, or run `pcs-capacity teardown --queue "+has+"` first",
			"partition %s lends its nodes through partition %s already, not through %s", in.request.Queue, has, asked)
	case !in.OnEC2() && !queueName.MatchString(asked):
		found.problem(capacity.BadName, "choose another --spare",
			"%q cannot name a PCS queue: it has 3 to 25 letters, digits and hyphens, and starts with a letter", asked)
	}

	p, partitions := in.preemption()
	found.Add(capacity.CheckLending(in.request.Queue, asked, p, partitions)...)

	if q, exists := in.Queue(asked); exists {
		if lender, is := in.isSpare(q); !is || lender != in.request.Queue {
			found.problem(capacity.NotOurs, "choose another --spare",
				"queue %s exists, and setup has not made it to lend nodes of queue %s", asked, in.request.Queue)
		}
	}

	return found
}

// spareSteps return the steps of the spare queue. Slurm preempts jobs before it has any in that queue.
func spareSteps(in inspection, want wanted, done *made) (steps []Step) {
	name := in.spare()
	if name == "" || in.OnEC2() {
		return nil
	}

	if p, _ := in.preemption(); p.Type == "" && !in.unattended {
		step := Step{What: pcs.WhatCluster, Name: in.Cluster.Name, Verb: Update}
		step.add(preemptType, SparePreemption[preemptType])
		step.add(preemptMode, SparePreemption[preemptMode])

		step.Do = func(ctx context.Context, w World) error {
			return w.ChangeClusterSettings(ctx, in.Cluster.Name, SparePreemption)
		}
		steps = append(steps, step)
	}

	q, exists := in.Queue(name)
	spare := pcs.Queue{
		Name:      name,
		ClusterID: in.Cluster.ID,
		Tags:      map[string]string{capacity.TagCluster: in.Cluster.Name, capacity.TagPartition: in.request.Queue},
	}
	step := queueNodesStep(in, want, q, exists, name)

	// What the site has changed since stays.
	if !exists {
		spare.SlurmSettings = SpareSettings
		step.add(priorityTier, SpareSettings[priorityTier])
		step.add(preemptMode, SpareSettings[preemptMode])
	}

	step.Do = unlessNothing(step.Verb, func(ctx context.Context, w World) error {
		spare.GroupIDs = []string{done.group.ID}
		return w.EnsureQueue(ctx, spare)
	})

	return append(steps, step)
}

// planSpareTeardown returns the steps that end the lending of a queue's nodes, whose spare queue the request names. The
// queue goes first: the settings lead to it.
func planSpareTeardown(v view, lender string) *Plan {
	p := &Plan{Cluster: v.Cluster, Queue: v.request.Queue, Problems: slices.Clone(v.Problems), seen: &v}
	about := capacity.Subject{Partition: v.request.Queue}
	p.ByHand = []string{}

	if p.stops(checkSpareJobs(v)) {
		return p
	}

	if q, found := v.Queue(v.request.Queue); found {
		step := Step{What: WhatQueue, Name: q.Name, Verb: Delete}
		step.Do = func(ctx context.Context, w World) error {
			return w.ReleaseQueue(ctx, v.Cluster, q.Name, q.GroupIDs, true)
		}
		p.add(about, step)
	}

	before, _ := v.request.Config.Partition(lender)
	if before.Spare != v.request.Queue {
		return p
	}

	after := before
	after.Spare = ""

	if !v.partitionFile.owned || before.File != v.partitionFile.path {
		var found findings

		found.problem(capacity.PartitionFile, "take `spare` out of it, and run this again",
			"partition %q is written in %s, which pcs-capacity did not write", before.Name, before.File)
		p.stops(found)

		return p
	}

	step := Step{What: WhatFile, Name: before.File, Verb: Update}
	step.addChange("spare", before.Spare, "")
	step.Do = func(_ context.Context, w World) error {
		return writePartition(w, v.request.Config.Path, before.File, before, after, true)
	}
	p.add(about, step)

	if v.OnEC2() {
		p.ByHand = append(p.ByHand, removeByHand("partition"))
	}

	return p
}

// checkSpareJobs refuses to remove a queue with jobs, unless forced: they end with it.
func checkSpareJobs(v view) (found findings) {
	const gone = "jobs end with their partition"

	switch jobs := v.jobs.Running; {
	case v.SlurmErr != nil && !v.request.Force:
		found.problem(capacity.SlurmSilent, "run this where Slurm answers, or add --force",
			"Slurm does not answer (%s), so jobs may be running in partition %s", v.SlurmErr, v.request.Queue)
	case len(jobs) > 0 && !v.request.Force:
		found.problem(capacity.JobsRun, "wait until they have ended, or add --force: "+gone,
			"%s running in partition %s", jobsSubject(jobs), v.request.Queue)
	case len(jobs) > 0:
		found.warn("%s running in partition %s; %s", jobsSubject(jobs), v.request.Queue, gone)
	}

	found.warnWaiting(v)

	return found
}

// lender returns the queue whose nodes the requested one lends; "" if it is no spare queue.
func (v *view) lender() string {
	for _, p := range v.request.Config.Partitions {
		if p.Spare == v.request.Queue {
			return p.Name
		}
	}

	q, _ := v.Queue(v.request.Queue)
	if lender, is := v.isSpare(q); is {
		return lender
	}

	return ""
}
