package power

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Suspend is SuspendProgram and ResumeFailProgram: both terminate the instances of nodes
// that Slurm gives up, and the latter makes nodes that did not boot usable again. Only
// instances with our cluster's mark are touched.
type Suspend struct {
	Cluster string
	Slurm   Slurm
	EC2     EC2
	Records Records
	Log     *slog.Logger
	// Called is the machine's time when Slurm called the hook.
	Called time.Time
}

// SuspendBudget is the time that a run takes at most. Slurm calls a SuspendProgram once
// for a power-down, so all of it is used before an instance is left to the next launch of
// its node, or to sync.
const SuspendBudget = 90 * time.Second

// clockSlack covers what is not exact in comparing EC2's launch times, which have whole
// seconds, with the time of the call, which is corrected by a Date header: both are off
// by less than a second.
const clockSlack = 2 * time.Second

// Run terminates the instances of the nodes in a hostlist, and takes those which did not
// boot out of DOWN, whatever came of that: the place in the block is paid for, and the
// next launch of a node terminates what is left of the one before. What fails is tried
// again until ctx ends; slurmctld is needed for nodes that did not boot only.
func (s *Suspend) Run(ctx context.Context, hostlist string) error {
	nodes, err := s.Slurm.Expand(hostlist)
	if err != nil {
		return fmt.Errorf("reading the nodes to power down: %w", err)
	}
	var both sync.WaitGroup
	both.Go(func() {
		if err := s.insist(ctx, func() error { return s.returnNodes(ctx, nodes) }); err != nil {
			s.Log.Error("nodes that did not boot, if any, stay DOWN until `scontrol update` resumes them", "nodes", hostlist, "err", err)
		}
	})
	both.Go(func() { err = s.terminate(ctx, nodes) })
	both.Wait()
	return err
}

// longestPause bounds the pauses between two attempts.
const longestPause = 15 * time.Second

// insist repeats what fails, with growing pauses, until there is no time left. It returns
// the last error.
func (s *Suspend) insist(ctx context.Context, attempt func() error) error {
	for pause := time.Second; ; pause = min(2*pause, longestPause) {
		err := attempt()
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.Log.Warn("tried again", "err", err, "pause", pause)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// returnNodes powers nodes that Slurm gave up down, from which it uses them again
// (idle_on_node_suspend). Slurm then calls SuspendProgram for them, which finds them
// powering down and not given up.
func (s *Suspend) returnNodes(ctx context.Context, nodes []string) error {
	givenUp, err := s.Slurm.GivenUp(ctx, nodes)
	if err != nil {
		return fmt.Errorf("asking Slurm for the nodes' states: %w", err)
	}
	if len(givenUp) == 0 {
		return nil
	}
	s.Log.Warn("did not boot within ResumeTimeout; given back to Slurm", "nodes", s.Slurm.Hostlist(givenUp))
	if err := s.Slurm.PowerDownForce(ctx, givenUp, "ResumeTimeout reached: the instance did not register in time"); err != nil {
		return err
	}
	s.pace(ctx, givenUp)
	return nil
}

// NotBooted is the code of a launch whose instance did not boot.
const NotBooted = "not-booted"

// pace holds the jobs back that waited for nodes which did not boot, and which Slurm has
// requeued: an image that is broken is so the next time as well.
func (s *Suspend) pace(ctx context.Context, nodes []string) {
	pacer := pacer{s.Slurm, s.Records, s.Log}
	shown := pacer.launchedFor(nodes)
	if len(shown) == 0 {
		return
	}
	all, err := s.Slurm.Jobs(ctx)
	if err != nil {
		s.Log.Warn("jobs whose nodes did not boot are tried again at once", "jobs", shown, "err", err)
		return
	}
	jobs := slices.DeleteFunc(all, func(j capacity.Job) bool { return !j.Pending() || !slices.Contains(shown, j.Shown) })
	shown = shown[:0]
	for _, j := range jobs {
		shown = append(shown, j.Shown)
	}
	at, list := s.Called.Add(s.EC2.Offset()), s.Slurm.Hostlist(nodes)
	record := state.Record{At: at, Hook: "resume", Nodes: list, Jobs: shown, Code: NotBooted,
		Message: "the instance did not register with Slurm within ResumeTimeout; its image, its slurm.conf or its network may be broken"}
	if err := s.Records.AppendRecords(record); err != nil {
		s.Log.Error("keeping a record", "err", err)
	}
	failures := pacer.failures(jobs, at)
	begin := map[string]time.Time{}
	for _, j := range jobs {
		begin[j.Shown] = until(failures[j.Shown], s.Called, time.Time{})
	}
	pacer.delay(ctx, begin, nil)
	for _, j := range jobs {
		text := fmt.Sprintf("pcs-capacity: nodes %s did not boot: %s%s", list, record.Message, tried(failures[j.Shown], begin[j.Shown], s.Called))
		if err := s.Slurm.SetAdminComment(ctx, j.Shown, hook.Clip(hook.OneLine(text), capacity.MaxComment)); err != nil {
			s.Log.Warn("writing the job's AdminComment", "job", j.Shown, "err", err)
		}
	}
}

// terminate ends the instances of the nodes and records it. Nodes without one need nothing.
func (s *Suspend) terminate(ctx context.Context, nodes []string) error {
	var ids []string
	err := s.insist(ctx, func() (err error) {
		if ids, err = s.launched(ctx, nodes); err != nil || len(ids) == 0 {
			return err
		}
		return s.EC2.Terminate(ctx, ids)
	})
	record := state.Record{At: s.called(), Hook: "suspend", Nodes: s.Slurm.Hostlist(nodes), Code: string(capacity.OK), Instances: ids, Message: "terminated"}
	if err == nil && len(ids) == 0 {
		s.Log.Info("no instance to terminate", "nodes", record.Nodes)
		return nil
	}
	if err != nil {
		f := explain(err)
		record.Code, record.EC2Code, record.Message = "failed", f.ec2Code, f.message
	}
	s.Log.Info(record.Message, "nodes", record.Nodes, "instances", ids, "err", err)
	if recordErr := s.Records.AppendRecords(record); recordErr != nil {
		s.Log.Error("keeping a record", "err", recordErr)
	}
	return err
}

// called is the time of the call on AWS's clock, as far as it is known.
func (s *Suspend) called() time.Time { return s.Called.Add(s.EC2.Offset()) }

// launched are the instances of the nodes: those whose tags say so, and those that EC2 may
// not show by their tags yet, from our own records.
//
// A slow call must not hit a newer launch of the same nodes. Slurm powers a node up
// again no earlier than SuspendTimeout (30 s by default) after it called the
// SuspendProgram, and only nodes that it holds for powered down. So an instance that was
// launched after this call belongs to a newer launch and is left alone.
func (s *Suspend) launched(ctx context.Context, nodes []string) ([]string, error) {
	ours, err := s.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: {s.Cluster}})
	if err != nil {
		return nil, err
	}
	var ids []string
	seen := map[string]bool{}
	for _, i := range capacity.WithNodes(ours, s.Slurm.Expand) {
		seen[i.ID] = true
		node := i.Tags[capacity.TagNode]
		if i.Tags[capacity.TagCluster] != s.Cluster || i.Ended() || !slices.Contains(nodes, node) {
			continue
		}
		if i.Launched.After(s.called().Add(clockSlack)) {
			s.Log.Warn("left alone: launched after this call", "instance", i.ID, "node", node, "launched", i.Launched, "called", s.called())
			continue
		}
		ids = append(ids, i.ID)
	}
	for id, at := range s.recorded(nodes) {
		if !seen[id] {
			s.EC2.Remember(id, at)
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// unseenTime is how long EC2 may not show an instance by its tags: EC2 Developer Guide,
// "Eventual consistency", names five minutes for what depends on a change.
const unseenTime = 5 * time.Minute

// recorded are the instances that our records name for the nodes, launched within
// unseenTime before the call, with the time of the record; those that were terminated
// since are left out.
func (s *Suspend) recorded(nodes []string) map[string]time.Time {
	found := map[string]time.Time{}
	records, err := s.Records.Records()
	if err != nil {
		s.Log.Warn("going on with what tags say", "err", err)
	}
	for _, r := range records {
		switch {
		case r.At.Before(s.called().Add(-unseenTime)) || r.At.After(s.called()):
		case r.Hook == "suspend" && r.Code == string(capacity.OK):
			for _, id := range r.Instances {
				delete(found, id)
			}
		case r.Hook == "resume":
			of, err := s.Slurm.Expand(r.Nodes)
			if err != nil {
				continue
			}
			for i, id := range r.Instances {
				// A launch that failed is ended whole, and its record may have fewer
				// instances than nodes; else they are in the order of the nodes.
				mine := r.Code != string(capacity.OK) && slices.ContainsFunc(of, func(n string) bool { return slices.Contains(nodes, n) })
				if mine || len(of) == len(r.Instances) && slices.Contains(nodes, of[i]) {
					found[id] = r.At
				}
			}
		}
	}
	return found
}
