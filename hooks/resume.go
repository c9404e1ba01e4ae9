package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Resume is ResumeProgram. With provider ec2 it launches the nodes; with provider pcs,
// where PCS launches them, it makes sure that their compute node groups are right.
type Resume struct {
	Settings capacity.Settings
	// Cluster is the value of our mark on everything that is launched.
	Cluster string
	Slurm   Slurm
	EC2     EC2
	// PCS is nil when no partition has provider pcs.
	PCS     PCS
	Records Records
	Log     *slog.Logger
	// MachineTime is time.Now.
	MachineTime func() time.Time
	// Budget is the time that launches take at most, from ResumeBudget. After two
	// thirds of it nothing new is launched.
	Budget time.Duration
}

// ResumeBudget is the time for a run, well below Slurm's ResumeTimeout: the nodes have
// to boot in what is left. 0 stands for Slurm's default.
func ResumeBudget(resumeTimeout time.Duration) time.Duration {
	if resumeTimeout <= 0 {
		resumeTimeout = 60 * time.Second // slurm.conf(5)
	}
	return min(resumeTimeout*3/4, 2*time.Minute)
}

// configureBudget is the time for changes of compute node groups: PCS replaces a launch
// template in minutes, and Slurm's ResumeTimeout does not wait for it.
const configureBudget = 15 * time.Minute

// launchesAtOnce keeps RunInstances below EC2's refill of 2 calls a second: EC2 API
// Reference, "Request throttling".
const launchesAtOnce = 4

// Run powers up the nodes of a hostlist; waits is SLURM_RESUME_FILE, as far as it could
// be read. When ctx ends (SIGTERM) no further launch begins, but one that is under way
// is finished, so that its nodes are mapped or sent down.
//
// Every node is launched, or goes through POWER_DOWN_FORCE, from which Slurm requeues
// its job at once. The error is for nodes with which neither could be done: they are
// left to ResumeTimeout. Running again with the same nodes is harmless: launches carry
// a ClientToken, and what an earlier run launched is adopted.
func (r *Resume) Run(ctx context.Context, hostlist string, waits []Waiting) error {
	work, cancel := context.WithTimeout(ctx, r.Budget*2/3)
	defer cancel()
	finish, cancelFinish := context.WithTimeout(context.WithoutCancel(ctx), r.Budget)
	defer cancelFinish()

	names, err := r.Slurm.Expand(hostlist)
	if err != nil {
		return fmt.Errorf("reading the nodes to power up: %w", err)
	}
	if names, err = r.Slurm.Expand(r.Slurm.Hostlist(names)); err != nil { // sorted, once each
		return fmt.Errorf("reading the nodes to power up: %w", err)
	}
	var launch, foreign []string
	slots := map[string]place{}
	for _, n := range names {
		at, ours := r.placeOf(n)
		switch {
		case !ours:
			foreign = append(foreign, n)
		case at.partition.Provider == capacity.ProviderPCS:
			slots[at.slot] = at
		default:
			launch = append(launch, n)
		}
	}
	if len(foreign) > 0 {
		r.Log.Warn("no node_group of the settings has these nodes; they are left alone", "nodes", r.Slurm.Hostlist(foreign))
	}
	var errs []error
	if len(slots) > 0 {
		errs = append(errs, r.configure(ctx, slots))
	}
	if len(launch) > 0 {
		errs = append(errs, r.launchNodes(work, finish, launch, waits))
	}
	return errors.Join(errs...)
}

func (r *Resume) now() time.Time { return r.MachineTime().Add(r.EC2.Offset()) }

// facts is what all launches of a run are decided on.
type facts struct {
	snap *capacity.Snapshot
	now  time.Time
	// live are our instances by the node that they were launched for.
	live map[string][]capacity.Instance
}

// outcome is what became of a group.
type outcome struct {
	group
	parts []launched
	err   error
}

func (r *Resume) launchNodes(work, finish context.Context, nodes []string, waits []Waiting) error {
	jobs, err := r.Slurm.Jobs(work)
	if err != nil {
		// Without slurmctld's word on accounts nothing may be launched.
		_, err := r.failed(finish, outcome{group: group{nodes: nodes}, err: fmt.Errorf("asking Slurm for its jobs: %w", err)})
		return err
	}
	for _, j := range jobs {
		if j.Allocated { // a run by hand has no SLURM_RESUME_FILE
			waits = append(waits, Waiting{j.ID, j.Nodes})
		}
	}
	groups := launchGroups(nodes, waits, jobs)
	facts, err := r.facts(work, nodes)

	outcomes := make([]outcome, len(groups))
	var running errgroup.Group
	running.SetLimit(launchesAtOnce)
	for i, g := range groups {
		outcomes[i] = outcome{group: g, err: err}
		if err != nil {
			continue
		}
		running.Go(func() error {
			outcomes[i].parts, outcomes[i].err = r.launchGroup(work, finish, g, facts)
			return nil
		})
	}
	_ = running.Wait() // outcomes hold the errors
	r.address(finish, outcomes)

	var errs []error
	var held []Job
	for _, o := range outcomes {
		if o.err == nil {
			r.succeeded(o)
			continue
		}
		jobs, err := r.failed(finish, o)
		held, errs = append(held, jobs...), append(errs, err)
	}
	// Last: nothing waits for these.
	r.tagNodes(finish, outcomes)
	r.leaveToOwners(finish, held)
	return errors.Join(errs...)
}

// tagNodes writes the node names on the instances. Without it an instance is still
// known by its launch index, so a failure is only logged.
func (r *Resume) tagNodes(ctx context.Context, outcomes []outcome) {
	tags := map[string]map[string]string{}
	for _, o := range outcomes {
		for _, part := range o.parts {
			for node, i := range part.instances {
				if o.err == nil {
					tags[i.ID] = map[string]string{capacity.TagNode: node, capacity.TagName: node}
				}
			}
		}
	}
	if err := r.EC2.TagInstances(ctx, tags); err != nil {
		r.Log.Warn("tagging instances with their nodes", "err", err)
	}
}

// facts reads what launches are decided on.
func (r *Resume) facts(ctx context.Context, nodes []string) (*facts, error) {
	partitions := map[string]bool{}
	for _, n := range nodes {
		at, _ := r.placeOf(n)
		partitions[at.partition.Name] = true
	}
	snap, err := r.freshSnapshot(ctx, partitions, nil)
	if err != nil {
		return nil, err
	}
	ours, err := r.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: {r.Cluster}})
	if err != nil {
		return nil, err
	}
	f := &facts{snap: snap, now: r.now(), live: map[string][]capacity.Instance{}}
	for _, i := range ours {
		if node := i.Node(r.Slurm.Expand); slices.Contains(nodes, node) && !i.Ended() {
			f.live[node] = append(f.live[node], i)
		}
	}
	return f, nil
}

// address tells Slurm where all launched nodes are, in one call. It keeps trying while
// there is time: a launched node without its address is lost.
func (r *Resume) address(ctx context.Context, outcomes []outcome) {
	addresses := map[string]netip.Addr{}
	for i, o := range outcomes {
		for _, part := range o.parts {
			for node, instance := range part.instances {
				ip, err := netip.ParseAddr(instance.PrivateIP)
				if err != nil {
					outcomes[i].err = fmt.Errorf("instance %s has no private address: %w", instance.ID, err)
				}
				addresses[node] = ip
			}
		}
		if outcomes[i].err != nil {
			for _, node := range o.nodes {
				delete(addresses, node)
			}
		}
	}
	if len(addresses) == 0 {
		return
	}
	// What fails is still to be recorded and sent down.
	attempts, cancel := context.WithTimeout(ctx, r.Budget/4)
	defer cancel()
	var err error
	for {
		if err = r.Slurm.SetAddresses(attempts, addresses); err == nil {
			return
		}
		r.Log.Error("setting node addresses", "err", err)
		select {
		case <-attempts.Done():
			for i := range outcomes {
				if outcomes[i].err == nil {
					outcomes[i].err = err
				}
			}
			return
		case <-time.After(time.Second):
		}
	}
}

// succeeded records a group that was launched.
func (r *Resume) succeeded(o outcome) {
	for _, part := range o.parts {
		record := state.Record{At: r.now(), Hook: "resume", Partition: part.place.partition.Name, Nodes: r.Slurm.Hostlist(part.nodes),
			Jobs: o.shown(), Reservation: part.reservation, Code: string(capacity.OK), Message: "launched"}
		for _, n := range part.nodes {
			record.Instances = append(record.Instances, part.instances[n].ID)
		}
		r.record(record)
	}
}

func (r *Resume) record(record state.Record) {
	r.Log.Info(record.Message, "nodes", record.Nodes, "jobs", record.Jobs, "reservation", record.Reservation,
		"code", record.Code, "instances", record.Instances)
	if err := r.Records.AppendRecord(record); err != nil {
		r.Log.Error("keeping a record", "err", err)
	}
}
