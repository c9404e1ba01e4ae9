package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// world is a model of AWS, Slurm and the settings: what setup and teardown read of it is a value, and what they do
// changes it.
type world struct {
	*model.Model
	*model.Slurm
	*model.EC2
	*model.PCS
	config *config.Config
	file   settingsFile
	noPass error // of PlaceFences
	noWait error // of Pause
}

const (
	now1, next1 = "cr-0e2000000000000a1", "cr-0e2000000000000a2" // the block that is open, and the one after it
	etc         = "/etc/pcs-capacity/config.toml"
	ourMark     = "ml"
	subnet      = "subnet-0e200000000000a01"
)

var today = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func blockOf(id string, start, end int) capacity.Reservation {
	day := 24 * time.Hour

	r := capacity.Reservation{
		ID:           id,
		Kind:         capacity.CapacityBlock,
		State:        capacity.StateScheduled,
		InstanceType: "p5.48xlarge",
		AZID:         "use2-az1",
		AZ:           "us-east-2a",
		Total:        4,
		Available:    4,
		Platform:     "Linux/UNIX",
		Tenancy:      "default",
		Start:        today.Add(time.Duration(start) * day),
		End:          today.Add(time.Duration(end) * day),
	}
	if start <= 0 {
		r.State = capacity.StateActive
	}

	return r
}

func newWorld() *world {
	m := model.New(today)
	w := &world{
		Model: m,
		Slurm: m.Slurm,
		EC2:   m.EC2,
		PCS:   m.PCS,
		file:  settingsFile{path: config.PartitionPath(etc, "gpu"), owned: true},
	}
	w.VPC = []ec2.Subnet{{Subnet: capacity.Subnet{ID: subnet, AZID: "use2-az1"}, VPC: "vpc-1", Free: 100}}
	w.Reserve(blockOf(now1, -2, 5))
	w.Reserve(blockOf(next1, 5, 12))
	w.PCS.Cluster = pcs.Cluster{
		ID:           "pcs_ml",
		Name:         ourMark,
		Status:       pcs.Active,
		Size:         "SMALL",
		SlurmVersion: "25.05",
		SubnetIDs:    []string{subnet},
	}
	w.Groups = []pcs.NodeGroup{
		{
			ID:              "pcs_0",
			Name:            "compute",
			Status:          pcs.Active,
			PurchaseOption:  capacity.OnDemand,
			InstanceTypes:   []string{"c7i.4xlarge"},
			SubnetIDs:       []string{subnet},
			AMI:             "ami-1",
			InstanceProfile: "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes",
			TemplateID:      "lt-0",
			TemplateVersion: "1",
			Max:             4,
		},
	}
	w.Queues = []pcs.Queue{{ID: "pcs_q", Name: "cpu", Status: pcs.Active, GroupIDs: []string{"pcs_0"}}}
	w.Templates["ml-compute"] = capacity.LaunchTemplate{
		ID:               "lt-0",
		Name:             "ml-compute",
		Version:          "1",
		ImageID:          "ami-1",
		SecurityGroupIDs: []string{"sg-1"},
	}

	return w
}

// fenceOf is the name of a slot's fence in Slurm.
func fenceOf(slot, block string) string {
	return capacity.Guard{Kind: capacity.GuardFence, Slot: slot, Block: block, Owner: "0a1b2c3d"}.String()
}

func (w *world) fence(slot, block string) {
	w.Put(
		model.Reservation{
			Name:  fenceOf(slot, block),
			Start: w.Slurm.Now,
			Flags: []string{"MAINT", "IGNORE_JOBS"},
			Users: []string{"root"},
		},
	)
}

// launch has an instance of ours run for a node of a slot.
func (w *world) launch(slot string) {
	w.Add("gpu", slot, 1)
	w.Instances = append(w.Instances, capacity.Instance{
		ID: "i-" + slot, State: "running",
		Tags: map[string]string{
			capacity.TagCluster:   ourMark,
			capacity.TagPartition: "gpu",
			capacity.TagNode:      slot + "-1",
		},
	})
}

func askFor(reservation string) Request {
	return Request{
		Cluster:     ourMark,
		Queue:       "gpu",
		NodeGroup:   "gpu",
		Reservation: reservation,
		Like:        "compute",
		ConfigPath:  etc,
	}
}

func askForOnEC2(reservation string) Request {
	return Request{
		Provider:    capacity.ProviderEC2,
		Mark:        ourMark,
		Queue:       "gpu",
		NodeGroup:   "gpu",
		Reservation: reservation,
		Like:        "ml-compute",
		AMI:         "ami-1",
		SubnetIDs:   []string{subnet},
		ConfigPath:  etc,
	}
}

// askOnDemand asks for two nodes on demand, for whose jobs capacity is held.
func askOnDemand() Request {
	r := askFor("")
	r.InstanceType = "p5.48xlarge"
	r.MaxNodes = 2

	return r
}

// heldFor is an ODCR that sync holds for a job of a node group.
func heldFor(group string) capacity.Reservation {
	return capacity.Reservation{
		ID:    "cr-0e2000000000000a9",
		Kind:  capacity.ODCR,
		State: capacity.StateActive,
		Total: 2,
		End:   today.Add(time.Hour),
		Tags: map[string]string{
			capacity.TagCluster:   ourMark,
			capacity.TagNodeGroup: group,
			capacity.TagHold:      "jobs 7/0",
		},
	}
}

// holding has settings that let capacity be held.
func holding(_ *testing.T, w *world) {
	w.withSettings()
	w.config.Reserve.MaxInstances = 16
}

// see is what setup reads of the world.
func (w *world) see(r Request) inspection {
	r.Config = w.config

	in, err := w.sources().inspect(context.Background(), r)
	if err != nil {
		panic(err)
	}

	in.partitionFile = w.file

	return *in
}

func (w *world) sources() sources {
	return sources{EC2: w.EC2, pcs: w.PCS, slurm: w, groups: w.Pools}
}

// seeRemains is what teardown reads of the world.
func (w *world) seeRemains(r Request) view {
	r.Config = w.config

	v, err := w.sources().findRemains(context.Background(), r)
	if err != nil {
		panic(err)
	}

	v.partitionFile = w.file

	return v
}

// What setup and teardown do to the world, beside the verbs of the model: the methods of World.

func (w *world) settings(verb, path string, do func()) error {
	return w.Do(model.Call{Verb: verb, Text: path, Change: true}, func() error { do(); return nil })
}

func (w *world) LoadSettings(string) (*config.Config, error) { return w.config, nil }

func (w *world) WritePlace(path string, place config.ClusterRef) error {
	return w.settings("write settings", path, func() {
		w.config = config.Default()
		w.config.Path, w.config.Region, w.config.Cluster = path, place.Region, place.Cluster
	})
}

func (w *world) WritePartition(path string, p capacity.PartitionSettings) error {
	return w.settings("write partition", path, func() {
		c := *w.config
		c.Partitions = slices.DeleteFunc(
			slices.Clone(c.Partitions),
			func(one capacity.PartitionSettings) bool { return one.Name == p.Name },
		)
		if len(p.Groups) > 0 {
			p.File = path
			c.Partitions = append(c.Partitions, p)
		}

		w.config = &c
	})
}

func (w *world) EnsureGroup(ctx context.Context, name string, tags map[string]string) (capacity.ReservationGroup, error) {
	return ensureGroup(ctx, w.Pools, name, tags)
}

func (w *world) DeleteGroup(ctx context.Context, name string) error { return w.Pools.Delete(ctx, name) }

func (w *world) LockPasses(context.Context, string) (func(), error) { return func() {}, nil }

func (w *world) Slots(
	ctx context.Context,
	partition string,
	nodes map[string][]string,
) (map[string]SlurmSlot, QueueJobs, error) {
	var (
		seen slurmState
		errs [4]error
	)

	seen.Nodes, errs[0] = w.Nodes(ctx)
	seen.Partitions, errs[1] = w.Partitions(ctx)
	seen.Reservations, errs[2] = w.Slurm.Reservations(ctx)
	seen.Jobs, _, errs[3] = w.JobsOf(ctx, nil, nil)
	slots, jobs := seen.Slots(partition, nodes)

	return slots, jobs, errors.Join(errs[:]...)
}

// PlaceFences is a pass: it fences the nodes of the settings' reservations.
func (w *world) PlaceFences(context.Context) error {
	p, _ := w.partition()
	for _, g := range w.Groups {
		if id := g.Tags[capacity.TagReservation]; w.noPass == nil &&
			slices.Contains(p.Group("gpu").ReservationIDs, id) {
			w.fence(g.Name, id)
		}
	}

	return w.noPass
}

func (w *world) Pause(_ context.Context, to *pcs.Pace) error {
	w.AdvanceTo(w.Model.Now().Add(to.Next(time.Minute)))
	return w.noWait
}

func (w *world) partition() (capacity.PartitionSettings, bool) {
	if w.config == nil {
		return capacity.PartitionSettings{}, false
	}
	return w.config.Partition("gpu")
}

// killed is the panic of a run that is killed.
type killed struct{}

// carryOut does what a plan says, unless it is killed before its change of that number; 0 is none. It returns how many
// changes it has made.
func (w *world) carryOut(steps []Step, dieAt int, after func(model.Call)) (changes int, err error) {
	w.Before = func(c model.Call) error {
		if c.Change {
			if changes++; changes == dieAt {
				panic(killed{})
			}
		}

		return nil
	}
	w.After = func(c model.Call) error {
		if c.Change && after != nil {
			after(c)
		}
		return nil
	}
	defer func() {
		w.Before, w.After = nil, nil

		if r := recover(); r != nil && r != (killed{}) {
			panic(r)
		}
	}()

	for _, step := range steps {
		if err := step.Do(context.Background(), w); err != nil {
			return changes, fmt.Errorf("%s: %w", step.Text, err)
		}
	}

	return changes, nil
}

// setUp carries out setup to its end.
func (w *world) setUp(t *testing.T, r Request) {
	t.Helper()

	p := plan(w.see(r))
	if len(p.Mismatches()) > 0 {
		t.Fatal(p.Mismatches())
	}

	if _, err := w.carryOut(p.Actions, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// unsafe says what must never be: a node group in the queue without its fence or without settings,
// nodes without a launch template, settings whose fence was taken away.
func (w *world) unsafe() string {
	p, _ := w.partition()
	ids := p.Group("gpu").ReservationIDs
	for _, q := range w.Queues {
		for _, id := range q.GroupIDs {
			inventory, _ := w.Inventory(context.Background(), "")

			g, found := inventory.Group(id)
			block := g.Tags[capacity.TagReservation]
			_, fenced := w.Fences[fenceOf(g.Name, block)]

			if g.Name == "gpu" { // on demand
				fenced = p.Group("gpu").Reserve == capacity.ReservePerJob

				ids = append(ids, block)
			}

			switch {
			case !found:
				return "queue " + q.Name + " has a node group that is gone"
			case g.Name == "compute":
			case !fenced:
				return g.Name + " is in the queue without the fence of " + block
			case !slices.Contains(ids, block):
				return g.Name + " is in the queue without settings of " + block
			}
		}
	}

	if q := w.Queue("scavenge"); q != nil && (w.Cluster.SlurmSettings[preemptType] == "" || q.SlurmSettings == nil) {
		return "jobs of the spare queue keep their nodes"
	}

	for _, g := range w.Groups {
		if w.Template(g.TemplateID).ID == "" {
			return g.Name + " has no launch template"
		}

		name := capacity.HoldGroupName(ourMark, g.Name)
		if into := w.Template(g.TemplateID).ReservationGroup; g.Name == "gpu" {
			if _, exists := w.Pools.All[name]; !exists || !strings.HasSuffix(into, "/"+name) {
				return g.Name + " launches into " + into
			}
		}
	}

	return ""
}
