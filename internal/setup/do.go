package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Setup makes reserved capacity usable in a cluster.
type Setup struct {
	PCS   *pcs.Client
	EC2   *ec2.Client
	Slurm Slurm // asked by teardown, and by setup on PCS: without it no fence is waited for
	// Groups are the Capacity Reservation groups, which only nodes on demand need.
	Groups Groups
	// Fence places the fences that the settings call for, as a pass of sync does. A roll over needs none: passes are
	// made anyway.
	Fence func(ctx context.Context) error
	Poll  time.Duration // the time between two polls of PCS; 0 for a growing one
	// Unattended is for passes of sync, which never wait for PCS (pcs.ErrAtWork). Settings, Slurm
	// reservations and launch templates stay when slots go, and so does a node group with
	// instances. Network interfaces are copied from the template.
	Unattended bool

	// Progress is called with each change of a thing: create, update, delete, drain, wait, done. It may be nil.
	Progress func(what, name, status string)
}

// Apply carries out a plan of setup or teardown. It can be killed at any point, then planned and applied again: names
// are unique in EC2 and PCS, so a later run finds everything by name. A plan with mismatches is refused.
func (s Setup) Apply(ctx context.Context, p *Plan) error {
	if wrong := p.Mismatches(); len(wrong) > 0 {
		return mismatchError(wrong)
	}

	w := clients{
		Provisioner: pcs.Provisioner{
			PCS:      s.PCS,
			EC2:      s.EC2,
			Poll:     s.Poll,
			NoWait:   s.Unattended,
			Progress: s.Progress,
		},
		Client: s.EC2,
		Slurm:  s.Slurm,
		groups: s.Groups,
		fence:  s.Fence,
	}
	for _, step := range p.Actions {
		// Provisioner tells what it does.
		tells := step.What == WhatNodeGroup || step.What == WhatQueue || step.What == pcs.WhatCluster
		if s.Progress != nil && step.Verb != Nothing &&
			!tells {
			s.Progress(step.What, step.Name, string(step.Verb))
		}

		if err := step.Do(ctx, w); err != nil {
			return err
		}
	}

	return nil
}

// clients are the actual World.
type clients struct {
	pcs.Provisioner
	*ec2.Client
	Slurm
	groups Groups
	fence  func(context.Context) error
}

func (w clients) EnsureGroup(ctx context.Context, name string, tags map[string]string) (capacity.ReservationGroup, error) {
	return ensureGroup(ctx, w.groups, name, tags)
}

func (w clients) DeleteGroup(ctx context.Context, name string) error {
	return w.groups.Delete(ctx, name)
}

func (w clients) PlaceFences(ctx context.Context) error { return w.fence(ctx) }

func (clients) LoadSettings(path string) (*config.Config, error) { return config.Load(path) }

func (clients) WritePlace(path string, place config.ClusterRef) error {
	return config.WriteClusterRef(path, place)
}

func (clients) WritePartition(path string, p capacity.PartitionSettings) error {
	return config.WritePartition(path, p)
}

// lockWait bounds teardown's wait for a running pass of sync.
const lockWait = time.Minute

func (clients) LockPasses(ctx context.Context, stateDir string) (func(), error) {
	return state.Dir(stateDir).Lock(ctx, state.PassLock, lockWait)
}

var errChanged = errors.New("it has changed since the plan was made")

// writePartition writes a partition's file, if the settings still say was of it; was has no name for none. A partition
// that loses something may have gone already.
func writePartition(
	w World, path, file string, was, p capacity.PartitionSettings, loses bool,
) error {
	c, err := w.LoadSettings(path)
	now, found := c.Partition(p.Name)
	switch {
	case loses && !found && (err == nil || errors.Is(err, fs.ErrNotExist)):
		return nil
	case err != nil:
		return err
	case found != (was.Name != ""), found && !reflect.DeepEqual(now, was):
		return fmt.Errorf("partition %q of %s: %w", p.Name, c.Path, errChanged)
	}

	return w.WritePartition(file, p)
}

// fencePatience bounds the wait for the nodes of a new node group in Slurm.
const fencePatience = 5 * time.Minute

var errNoFence = errors.New("see what `pcs-capacity sync` says")

// placeFence waits until Slurm shows the nodes of a slot, has a pass of sync place the fence, and waits until
// Slurm shows it. An existing fence is placed again, over all nodes.
func placeFence(ctx context.Context, w World, queue, slot, reservation string) error {
	var (
		to     pcs.Pace
		passed error
	)
	for placed := false; ; {
		slots, _, err := w.Slots(ctx, queue, map[string][]string{slot: nil})
		if err == nil && len(slots[slot].Nodes) > 0 {
			placed = true

			passed = w.PlaceFences(ctx)
			if ctx.Err() == nil {
				slots, _, err = w.Slots(ctx, queue, map[string][]string{slot: nil})
			}
		}

		switch in := slots[slot]; {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && placed && in.Fenced(reservation):
			return nil
		case to.Waited() < fencePatience:
		case err == nil && len(in.Nodes) == 0:
			return fmt.Errorf(
				"Slurm shows no nodes of compute node group %s after %s, so no fence can stand on them, and they are "+
					"not put into queue %s; make sure that slurmctld of the cluster runs (`scontrol show nodes`)",
				slot, capacity.FormatDuration(fencePatience), queue)
		default:
			return fmt.Errorf("no fence could be placed on the nodes of %s, so they are not put into queue %s: %w",
				slot, queue, cmp.Or(passed, err, errNoFence))
		}

		if err := w.Pause(ctx, &to); errors.Is(err, pcs.ErrAtWork) {
			return fmt.Errorf("no fence stands on the nodes of %s yet: %w", slot, err)
		} else if err != nil {
			return err
		}
	}
}

const drainReason = "pcs-capacity teardown"

// drain keeps new jobs off the nodes of a slot. Unless forced, no job may have started since the plan was made.
func drain(ctx context.Context, w World, queue, slot string, nodes []string, force bool) error {
	if err := w.Drain(ctx, nodes, drainReason); err != nil || force {
		return err
	}

	now, _, err := w.Slots(ctx, queue, map[string][]string{slot: nodes})
	if jobs := now[slot].Jobs; err == nil && len(jobs) > 0 {
		return fmt.Errorf(
			"%w: %s started on %s meanwhile; run this again when they have ended, or return the nodes to service "+
				"with `scontrol update nodename=%s state=resume`",
			ErrJobsRun, strings.Join(jobs, ", "), slot, strings.Join(now[slot].Nodes, ","))
	}

	return err
}

// removeSettings removes what goes from the partition's settings, if they say what they said before, and the Slurm
// reservations that there are now. It keeps passes out: one between the two would place the fence again.
func (v *view) removeSettings(ctx context.Context, w World, before, left capacity.PartitionSettings) error {
	if v.SlurmErr == nil {
		unlock, err := w.LockPasses(ctx, v.request.Config.StateDir)
		if err != nil {
			return err
		}
		defer unlock()
	}

	if err := writePartition(w, v.request.Config.Path, before.File, before, left, true); err != nil ||
		v.SlurmErr != nil {
		return err
	}

	now, _, err := w.Slots(ctx, v.request.Queue, v.slotNodes())
	for _, slot := range v.slots {
		for _, name := range now[slot.Name].Reservations {
			if err == nil {
				err = w.DeleteReservation(ctx, name)
			}
		}
	}

	return err
}

// terminate ends the instances that we launched for what goes, also those that came after the plan was made.
func (v *view) terminate(ctx context.Context, w World) error {
	instances, err := v.instancesOnEC2(ctx, w)
	if err != nil {
		return err
	}

	return w.Terminate(ctx, instances)
}

// Slurm is slurmctld, as setup and teardown need it.
type Slurm interface {
	// Slots reads nodes, jobs and reservations of slots by name, and the jobs of a partition. nodes are nodes of a slot
	// whose names do not show it.
	Slots(
		ctx context.Context, partition string, nodes map[string][]string,
	) (slots map[string]SlurmSlot, jobs QueueJobs, err error)
	// Drain keeps new jobs off the nodes; running jobs go on.
	Drain(ctx context.Context, nodes []string, reason string) error
	// DeleteReservation succeeds, too, if there is no reservation of this name.
	DeleteReservation(ctx context.Context, name string) error
}

// SlurmClient is the Slurm of a cluster.
type SlurmClient struct{ *slurm.Client }

// Slots reads the slots.
func (s SlurmClient) Slots(
	ctx context.Context, partition string, nodes map[string][]string,
) (map[string]SlurmSlot, QueueJobs, error) {
	var seen slurmState

	reads, ctx := errgroup.WithContext(ctx) // each is a process that takes longer to start than slurmctld to answer
	reads.Go(func() (err error) { seen.Nodes, err = s.Nodes(ctx); return err })
	reads.Go(func() (err error) { seen.Partitions, err = s.Partitions(ctx); return err })
	reads.Go(func() (err error) { seen.Reservations, err = s.Reservations(ctx); return err })
	reads.Go(func() (err error) { seen.Jobs, err = s.Jobs(ctx); return err })

	if err := reads.Wait(); err != nil {
		return nil, QueueJobs{}, err
	}

	slots, jobs := seen.Slots(partition, nodes)

	return slots, jobs, nil
}

// Groups are Capacity Reservation groups, by their names.
type Groups interface {
	Find(ctx context.Context, name string) (group capacity.ReservationGroup, found bool, err error)
	Create(ctx context.Context, name string, tags map[string]string) (capacity.ReservationGroup, error)
	// Delete succeeds, too, if there is no such group.
	Delete(ctx context.Context, name string) error
}

// ensureGroup returns the group of a name, and creates it if there is none.
func ensureGroup(ctx context.Context, in Groups, name string, tags map[string]string) (capacity.ReservationGroup, error) {
	group, found, err := in.Find(ctx, name)
	switch {
	case err != nil:
		return group, err
	case !found:
		return in.Create(ctx, name, tags)
	case group.Tags[capacity.TagCluster] != tags[capacity.TagCluster]:
		return group, fmt.Errorf("capacity reservation group %s: %w", name, pcs.ErrNotOurs)
	}

	return group, nil
}

// World is read and changed by setup and teardown, which look again before they change.
type World interface {
	Slurm
	PlaceFences(ctx context.Context) error
	// Pause waits until the next look at Slurm; without, nothing is waited for.
	Pause(ctx context.Context, to *pcs.Pace) error

	// EC2.
	EnsureLaunchTemplate(ctx context.Context, spec capacity.LaunchTemplateSpec) (capacity.LaunchTemplate, error)
	DeleteLaunchTemplate(ctx context.Context, idOrName, cluster string) error
	FindInstances(ctx context.Context, q capacity.InstanceQuery) ([]capacity.Instance, error)
	Terminate(ctx context.Context, instances []capacity.Instance) error
	FindReservations(ctx context.Context, q ec2.ReservationQuery) ([]capacity.Reservation, error)
	CancelODCR(ctx context.Context, id string) error

	// EnsureGroup returns a Capacity Reservation group of ours, which it may create.
	EnsureGroup(ctx context.Context, name string, tags map[string]string) (capacity.ReservationGroup, error)
	DeleteGroup(ctx context.Context, name string) error

	// PCS. Each waits until PCS is done.
	EnsureNodeGroup(ctx context.Context, want pcs.NodeGroup, mayCreate bool) (g pcs.NodeGroup, changed bool, err error)
	DeleteNodeGroup(ctx context.Context, cluster pcs.Cluster, name string) error
	EnsureQueue(ctx context.Context, want pcs.Queue) error
	ChangeClusterSettings(ctx context.Context, cluster string, change map[string]string) error
	ReleaseQueue(ctx context.Context, cluster pcs.Cluster, name string, groups []string, deleteEmpty bool) error

	// The settings, by the path of config.toml or of a file in conf.d.
	LoadSettings(path string) (*config.Config, error)
	WritePlace(path string, place config.ClusterRef) error
	WritePartition(path string, p capacity.PartitionSettings) error
	// LockPasses keeps passes of sync out.
	LockPasses(ctx context.Context, stateDir string) (unlock func(), err error)
}

// Verb names what a step does.
type Verb string

// The verbs.
const (
	Create  Verb = "create"
	Update  Verb = "update"
	Replace Verb = "replace" // delete what could not be created, and create it
	Delete  Verb = "delete"
	Drain   Verb = "drain"
	Nothing Verb = "nothing" // it is there already
	// Terminate is EC2's word for instances.
	Terminate Verb = "terminate"
)

// The objects of steps.
const (
	WhatTemplate  = "launch template"
	WhatNodeGroup = pcs.WhatNodeGroup
	WhatQueue     = pcs.WhatQueue
	WhatFile      = "file"
	WhatNodes     = "Slurm nodes"
	WhatInstances = "instances"
	WhatFence     = "Slurm reservation"
	WhatGroup     = "capacity reservation group"
)

// Step is an action with what a plan shows of it.
type Step struct {
	capacity.Action[World] `json:"-"`

	What    string   `json:"what"`    // the kind of thing, one of the What constants
	Name    string   `json:"name"`    // the thing's name in EC2, PCS or Slurm, or a path
	Verb    Verb     `json:"action"`  // Nothing for a thing that is as it should be
	Details []Detail `json:"details"` // what it will have; "now → then" where that changes
}

// Detail is a property in a step.
type Detail struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// unlessNothing is for a step that may have nothing to change, and then does nothing.
func unlessNothing(verb Verb, do func(ctx context.Context, w World) error) func(context.Context, World) error {
	if verb == Nothing {
		return func(context.Context, World) error { return nil }
	}
	return do
}

// addChange appends a detail, with the present value if it differs.
func (s *Step) addChange(key, now, want string) {
	if now != "" && now != want {
		want = now + " → " + cmp.Or(want, "none")
	}

	s.add(key, want)
}

// add appends a detail, which is left out if its value is empty.
func (s *Step) add(key, value string) { s.Details = append(s.Details, Detail{key, value}) }
