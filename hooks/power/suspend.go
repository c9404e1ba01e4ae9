package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

const (
	// suspendBudget bounds a run. Slurm calls SuspendProgram once for a power-down, so a run uses all of it before it
	// leaves an instance to the next launch of its node, or to sync.
	suspendBudget = 90 * time.Second
	// maxPause bounds the pauses between two attempts.
	maxPause = 15 * time.Second
	// clockSlack covers the error in comparing EC2's launch times, which have whole seconds, with the time of the call,
	// corrected by a Date header: both are off by less than a second.
	clockSlack = 2 * time.Second
	// unseenTime bounds how long EC2 may not show an instance by its tags: EC2 Developer Guide, "Eventual consistency",
	// names five minutes for what depends on a change.
	unseenTime = 5 * time.Minute
)

// PowerDown does the work of pcs-capacity-suspend, as SuspendProgram and as ResumeFailProgram. It terminates the
// instances of the nodes, and takes nodes that did not boot out of DOWN, even if a termination failed: the place in the
// block is paid for, and the next launch of a node terminates the leftovers. It touches only instances with our
// cluster's mark. Only nodes that did not boot, and an unknown mark, need slurmctld.
func PowerDown(ctx context.Context, h *Hook) error {
	ctx, cancel := context.WithTimeout(ctx, suspendBudget)
	defer cancel()

	nodes, err := hostlist.Expand(h.list)
	if err != nil {
		return fmt.Errorf("reading the nodes to power down: %w", err)
	}

	mark := h.knownMark()
	if mark == "" { // a hook that knows no mark can touch nothing
		err := h.retry(ctx, "ask Slurm for its cluster", func() (err error) {
			mark, _, err = h.describeCluster(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}

	var both sync.WaitGroup
	both.Go(func() { h.resetFailedNodes(ctx, nodes) })

	// Side by side with the reset: neither waits for the other's slow service.
	err = h.terminate(ctx, mark, nodes)

	both.Wait()

	return err
}

// retry tries again until it succeeds or ctx ends.
func (j *journal) retry(ctx context.Context, what string, try func() error) error {
	for pause := time.Second; ; pause = min(2*pause, maxPause) {
		err := try()
		if err == nil || ctx.Err() != nil {
			return err
		}

		j.Warn("trying again: "+what, "err", err)

		if sleep(ctx, pause) != nil {
			return err
		}
	}
}

// retryUndecided tries a call of AWS again until AWS decides it or ctx ends. It returns AWS's last answer, which says
// more than that there was no time left.
func (j *journal) retryUndecided(ctx context.Context, what string, try func() error) error {
	var err, undecided error

	_ = j.retry(ctx, what, func() error {
		err = try()
		if errors.Is(err, ec2.ErrUndecided) {
			undecided = err
			return err
		}

		return nil
	})

	if isUndecided(err) && undecided != nil {
		return undecided
	}

	return err
}

// terminate terminates the instances of nodes and records it. It finds them by their tags and in our records, because
// EC2 may not show a new instance by its tags yet. Nodes without an instance need nothing.
//
// A slow call must not hit a newer launch of the same nodes. Slurm powers a node up again no earlier than
// SuspendTimeout (30 s by default) after it called SuspendProgram, and only if it considers the node powered down. So
// an instance launched after this call belongs to a newer launch and is left alone.
func (h *Hook) terminate(ctx context.Context, mark string, nodes []string) error {
	records, err := h.State.Records()
	if err != nil {
		h.Warn("finding instances by their tags alone", "err", err)
	}

	var ours, ends []capacity.Instance

	err = h.retry(ctx, "list our instances", func() (err error) {
		ours, err = h.listInstances(ctx, mark)
		return err
	})

	// The offset is known from EC2's answer; without an answer nothing is compared with it.
	called := h.began.Add(h.Offset())
	if err == nil {
		ends = h.selectInstances(ours, records, mark, nodes, called)
		if len(ends) == 0 {
			h.Info("no instance to terminate")
			return nil
		}

		err = h.retry(ctx, "terminate instances", func() error { return h.Terminate(ctx, ends) })
	}

	record := state.Record{
		At:        called,
		Hook:      "suspend",
		Nodes:     hostlist.Compress(nodes),
		Instances: capacity.InstanceIDs(ends),
		Code:      string(capacity.OK),
		Message:   "terminated",
	}
	if err != nil {
		p, code := problemOf(err)
		record.Code = string(capacity.FailedOtherwise)
		record.EC2Code = code
		record.Message = p.Text()
	}

	h.record(record)

	return err
}

// selectInstances chooses the instances of nodes that a power-down terminates.
func (h *Hook) selectInstances(
	ours []capacity.Instance, records []state.Record, mark string, nodes []string, called time.Time,
) (ends []capacity.Instance) {
	// An instance that EC2 shows is judged by its tags, not by our record of it.
	recorded := recordedInstances(nodes, records, called)
	for _, i := range ours {
		delete(recorded, i.ID)

		switch {
		case i.Tags[capacity.TagCluster] != mark || i.Ended() || !slices.Contains(nodes, i.Tags[capacity.TagNode]):
		case i.Launched.After(called.Add(clockSlack)):
			h.Warn("left alone: launched after this call", "instance", i.ID)
		default:
			ends = append(ends, i)
		}
	}

	// EC2 does not show these yet. Terminate waits for them.
	for id, at := range recorded {
		ends = append(ends, capacity.Instance{ID: id, Launched: at})
	}

	slices.SortFunc(ends, func(a, b capacity.Instance) int { return cmp.Compare(a.ID, b.ID) })

	return ends
}

// recordedInstances returns the instances that our records name for nodes, launched within unseenTime before the call
// and not terminated since, with the times of the records.
func recordedInstances(nodes []string, records []state.Record, called time.Time) map[string]time.Time {
	found := map[string]time.Time{}
	for _, r := range records {
		switch {
		case r.At.Before(called.Add(-unseenTime)) || r.At.After(called):
		case r.Hook == "suspend" && r.Code == string(capacity.OK):
			for _, id := range r.Instances {
				delete(found, id)
			}
		case r.Hook == "resume":
			of, err := hostlist.Expand(r.Nodes)
			if err != nil {
				continue
			}

			for i, id := range r.Instances {
				// A failed launch is terminated whole, and its record may have fewer instances than nodes; otherwise
				// they are in the order of the nodes.
				touches := slices.ContainsFunc(of, func(n string) bool { return slices.Contains(nodes, n) })
				whole := r.Code != string(capacity.OK) && touches
				if whole || len(of) == len(r.Instances) && slices.Contains(nodes, of[i]) {
					found[id] = r.At
				}
			}
		}
	}

	return found
}

// resetFailedNodes powers down the nodes that Slurm has given up, after which Slurm uses them again
// (idle_on_node_suspend) and calls SuspendProgram for them, which finds them powering down and not given up.
func (h *Hook) resetFailedNodes(ctx context.Context, nodes []string) {
	var all []capacity.Node

	err := h.retry(ctx, "ask Slurm which nodes did not boot", func() (err error) {
		all, err = h.Nodes(ctx, nodes...)
		return err
	})
	lost := removeFunc(nodes, func(name string) bool {
		return !slices.ContainsFunc(all, func(n capacity.Node) bool { return n.Name == name && n.IsGivenUp() })
	})
	if err != nil || len(lost) == 0 {
		return
	}

	err = h.retry(ctx, "power nodes down", func() error {
		return h.PowerDownForce(ctx, lost, "ResumeTimeout reached: the instance did not register in time")
	})
	if err == nil {
		h.delayWaiting(ctx, lost) // only now: before the power-down the jobs still have their nodes
	}
}

// delayWaiting delays the jobs that waited for nodes which did not boot, and that Slurm has requeued: a broken image is
// still broken the next time.
func (h *Hook) delayWaiting(ctx context.Context, lost []string) {
	records, unknown := h.State.Records()
	jobs, unasked := h.BriefJobs(ctx)
	if err := errors.Join(unknown, unasked); err != nil {
		h.Warn("jobs of nodes that did not boot are not delayed", "nodes", hostlist.Compress(lost), "err", err)
		return
	}

	// The jobs are gone from the nodes, so only our record of the launch says which waited for them.
	last := lastLaunches(lost, records)

	var (
		waiting  []capacity.Job
		restarts []int
	)
	for _, job := range jobs {
		if !job.Pending() {
			continue
		}

		job.Nodes = removeFunc(lost, func(node string) bool { return !slices.Contains(last[node].Jobs, job.Shown) })
		if len(job.Nodes) > 0 {
			waiting = append(waiting, job)
			restarts = append(restarts, job.Restarts-1) // those of the run that has ended
		}
	}

	if len(waiting) == 0 {
		return
	}

	now := h.began.Add(h.Offset())
	record := state.Record{
		At:       now,
		Hook:     "resume",
		Nodes:    hostlist.Compress(lost),
		Jobs:     jobNames(waiting),
		Restarts: restarts,
		Code:     string(capacity.NotBooted),
		Message:  h.bootFailure(ctx, last[lost[0]].instance),
	}
	h.record(record)

	note := capacity.AdminNote{Text: fmt.Sprintf("nodes %s did not boot: %s", record.Nodes, record.Message)}
	failures := countFailures(append(records, record), now)
	h.delayJobs(ctx, waiting, waiting, delay{now: h.began, failures: failures}, note)
}

// bootFailure says why an instance did not boot, by its console; instance is "" if it is unknown.
func (h *Hook) bootFailure(ctx context.Context, instance string) string {
	const late = "the instance did not register with Slurm within ResumeTimeout; its "
	if instance == "" {
		return late + "image, its slurm.conf or its network may be broken"
	}

	says, err := h.BootFailure(ctx, instance)
	if err != nil {
		h.Warn("cannot read the console", "err", err)
	}

	if err != nil || says == "" {
		return late + "console says why: " +
			"`aws ec2 get-console-output --latest --output text --instance-id " + instance + "`"
	}

	return late + "console says: " + says
}

// lastLaunch holds the record of the last launch of a node that came to something, and its instance.
type lastLaunch struct {
	state.Record
	instance string
}

func lastLaunches(nodes []string, records []state.Record) map[string]lastLaunch {
	last := map[string]lastLaunch{}
	for _, r := range records {
		of, err := hostlist.Expand(r.Nodes)
		if r.Hook != "resume" || r.Code != string(capacity.OK) || err != nil || len(of) != len(r.Instances) {
			continue
		}

		for i, n := range of {
			if slices.Contains(nodes, n) {
				last[n] = lastLaunch{r, r.Instances[i]}
			}
		}
	}

	return last
}
