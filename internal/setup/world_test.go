package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// world is a model of AWS, Slurm and the settings: what setup and teardown read of it is a value,
// and their effects change it. It has no clock, no wire and no files.
type world struct {
	config       *config.Config
	file         partitionFile
	reservations map[string]capacity.Reservation
	groups       []pcs.NodeGroup
	queues       []pcs.Queue
	templates    map[string]capacity.LaunchTemplate // by name
	fences       map[string]string                  // by slot, the reservation that it is for
	drained      map[string]bool
	instances    map[string]string // of provider ec2: the slot, by id
	made         int
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
	r := capacity.Reservation{ID: id, Kind: capacity.CapacityBlock, State: capacity.StateScheduled, InstanceType: "p5.48xlarge", AZID: "use2-az1", AZ: "us-east-2a",
		Total: 4, Available: 4, Platform: "Linux/UNIX", Tenancy: "default", Start: today.Add(time.Duration(start) * day), End: today.Add(time.Duration(end) * day)}
	if start <= 0 {
		r.State = capacity.StateActive
	}
	return r
}

func newWorld() *world {
	w := &world{file: partitionFile{path: config.PartitionPath(etc, "gpu"), ours: true}, templates: map[string]capacity.LaunchTemplate{}, fences: map[string]string{}, drained: map[string]bool{},
		instances: map[string]string{}, reservations: map[string]capacity.Reservation{now1: blockOf(now1, -2, 5), next1: blockOf(next1, 5, 12)}}
	w.groups = []pcs.NodeGroup{{ID: "pcs_0", Name: "compute", Status: pcs.Active, PurchaseOption: capacity.OnDemand, InstanceTypes: []string{"c7i.4xlarge"}, SubnetIDs: []string{subnet},
		AMI: "ami-1", InstanceProfile: "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes", TemplateID: "lt-0", TemplateVersion: "1", Max: 4}}
	w.queues = []pcs.Queue{{ID: "pcs_q", Name: "cpu", Status: pcs.Active, GroupIDs: []string{"pcs_0"}}}
	return w
}

// clone is the world as a killed run leaves it to the next one.
func (w *world) clone() *world {
	c := *w
	c.groups, c.queues = slices.Clone(w.groups), slices.Clone(w.queues)
	c.templates, c.fences, c.drained, c.instances = maps.Clone(w.templates), maps.Clone(w.fences), maps.Clone(w.drained), maps.Clone(w.instances)
	return &c
}

func (w *world) id(prefix string) string {
	w.made++
	return prefix + strconv.Itoa(w.made+100)
}

func (w *world) inventory() pcs.Inventory {
	return pcs.Inventory{Cluster: pcs.Cluster{ID: "pcs_ml", Name: ourMark, Status: pcs.Active, Size: "SMALL", SlurmVersion: "25.05", SubnetIDs: []string{subnet}}, Groups: w.groups, Queues: w.queues}
}

func (w *world) group(name string) *pcs.NodeGroup {
	if at := slices.IndexFunc(w.groups, func(g pcs.NodeGroup) bool { return g.Name == name }); at >= 0 {
		return &w.groups[at]
	}
	return nil
}

func (w *world) queue(name string) *pcs.Queue {
	if at := slices.IndexFunc(w.queues, func(q pcs.Queue) bool { return q.Name == name }); at >= 0 {
		return &w.queues[at]
	}
	return nil
}

// digestOf stands for EC2's; the name is no part of it.
func digestOf(spec capacity.LaunchTemplateSpec) string {
	spec.Name = ""
	return fmt.Sprintf("%+v", spec)
}

// templateOf is a launch template in EC2 as the spec has it.
func templateOf(spec capacity.LaunchTemplateSpec) capacity.LaunchTemplate {
	return capacity.LaunchTemplate{Name: spec.Name, Tags: spec.Tags, ImageID: spec.ImageID, InstanceType: spec.InstanceType, InstanceProfile: spec.InstanceProfile,
		SecurityGroupIDs: []string{"sg-1"}, UserData: spec.UserData, ReservationID: spec.ReservationID, Digest: digestOf(spec)}
}

// templateByID is a launch template of ours.
func (w *world) templateByID(id string) capacity.LaunchTemplate {
	for _, t := range w.templates {
		if t.ID == id {
			return t
		}
	}
	return capacity.LaunchTemplate{ID: "lt-0", Name: "ml-compute", Version: "1", ImageID: "ami-1", SecurityGroupIDs: []string{"sg-1"}}
}

// fenceOf is the name of a slot's fence in Slurm.
func fenceOf(slot, block string) string {
	return capacity.Guard{Kind: capacity.GuardFence, Slot: slot, Block: block, Owner: "0a1b2c3d"}.String()
}

func askFor(reservation string) Request {
	return Request{Cluster: ourMark, Queue: "gpu", NodeGroup: "gpu", Reservation: reservation, Like: "compute", ConfigPath: etc}
}

func askForOnEC2(reservation string) Request {
	return Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu", NodeGroup: "gpu", Reservation: reservation, Like: "nodes", AMI: "ami-1", SubnetIDs: []string{subnet}, ConfigPath: etc}
}

// see is what setup reads of the world.
func (w *world) see(r Request) inspection {
	r.Config = w.config
	in := Setup{}.begin(r)
	in.Now, in.Region, in.Inventory, in.reservation, in.waits, in.file = today, "us-east-2", w.inventory(), w.reservations[r.Reservation], true, w.file
	in.VPC = []ec2.Subnet{{Subnet: capacity.Subnet{ID: subnet, AZID: "use2-az1"}, VPC: "vpc-1", Free: 100}}
	in.chosen, in.Known = in.VPC, w.reservations
	in.instanceType = ec2.InstanceType{Name: "p5.48xlarge"}
	in.launch.Image = ec2.Image{Platform: "Linux/UNIX"}
	in.launch.Network.Groups = map[string][]ec2.Rule{"sg-1": {{All: true, Peer: "sg-1"}, {Out: true, All: true, Peer: "sg-1"}}}
	in.source = w.templateByID("lt-0")
	if in.OnEC2() {
		in.Inventory = pcs.Inventory{Cluster: pcs.Cluster{Name: r.Mark}}
	} else {
		in.like = w.groups[0]
	}
	in.nameSlots()
	for i := range in.Slots {
		slot := &in.Slots[i]
		slot.Template = w.templates[pcs.TemplateName(in.Cluster.Name, slot.Name)]
		if slot.Group != nil {
			slot.Uses = w.templateByID(slot.Group.TemplateID)
		}
		if of := w.fences[slot.Name]; of != "" {
			slot.Slurm.Reservations = []string{fenceOf(slot.Name, of)}
		}
	}
	in.seeSlots()
	for _, id := range in.listedIDs() {
		if one := w.reservations[id]; site.Open(one, in.Now) {
			in.others = append(in.others, one)
		} else {
			in.ended = append(in.ended, id)
		}
	}
	in.planned = templateOf(in.templateSpec(""))
	return *in
}

// seeRemains is what teardown reads of the world.
func (w *world) seeRemains(r Request) inspection {
	r.Config = w.config
	t := Setup{}.begin(r)
	t.file, t.Inventory = w.file, w.inventory()
	if t.Provider != capacity.ProviderPCS {
		t.Inventory = pcs.Inventory{Cluster: pcs.Cluster{Name: r.Mark}}
	}
	var instances []capacity.Instance
	if t.OnEC2() {
		instances, _ = t.instancesOnEC2(context.Background(), w)
	}
	t.nameRemains(slices.Collect(maps.Values(w.templates)), instances)
	for i := range t.Slots {
		slot := &t.Slots[i]
		if slot.Group != nil || slot.Instances > 0 {
			slot.Slurm.Nodes = []string{slot.Name + "-1"}
		}
		if of := w.fences[slot.Name]; of != "" {
			slot.Slurm.Reservations = []string{fenceOf(slot.Name, of)}
		}
	}
	return *t
}

// What setup and teardown do to the world: the methods of World.

func (w *world) LoadSettings(string) (*config.Config, error) { return w.config, nil }

func (w *world) WritePlace(path string, place config.Place) error {
	w.config = config.Default()
	w.config.Path, w.config.Region, w.config.Cluster = path, place.Region, place.Cluster
	return nil
}

func (w *world) WritePartition(path string, p capacity.PartitionSettings) error {
	w.setPartition(path, p)
	return nil
}

func (w *world) LockPasses(context.Context, string) (func(), error) { return func() {}, nil }

func (w *world) Slots(_ context.Context, _ string, nodes map[string][]string) (map[string]site.SlurmSlot, int, error) {
	slots := map[string]site.SlurmSlot{}
	for name, listed := range nodes {
		slot := site.SlurmSlot{Nodes: listed}
		if w.group(name) != nil || len(w.instances) > 0 {
			slot.Nodes = union(listed, []string{name + "-1"})
		}
		if of := w.fences[name]; of != "" {
			slot.Reservations = []string{fenceOf(name, of)}
		}
		slots[name] = slot
	}
	return slots, 0, nil
}

func (w *world) Drain(_ context.Context, nodes []string, _ string) error {
	for _, node := range nodes {
		w.drained[strings.TrimSuffix(node, "-1")] = true
	}
	return nil
}

func (w *world) DropReservation(_ context.Context, name string) error {
	g, _ := capacity.ParseGuard(name)
	delete(w.fences, g.Slot)
	return nil
}

// PlaceFences is a pass: it fences the nodes of the settings' reservations.
func (w *world) PlaceFences(context.Context) error {
	p, _ := w.partition()
	for _, g := range w.groups {
		if id := g.Tags[capacity.TagReservation]; slices.Contains(p.Group("gpu").ReservationIDs, id) {
			w.fences[g.Name] = id
		}
	}
	return nil
}

func (w *world) Pause(_ context.Context, to *pcs.Pace) error {
	to.Next(time.Minute)
	return nil
}

func (w *world) EnsureLaunchTemplate(_ context.Context, spec capacity.LaunchTemplateSpec) (capacity.LaunchTemplate, error) {
	t := templateOf(spec)
	t.ID, t.Version = w.templates[t.Name].ID, w.templates[t.Name].Version
	if t.ID == "" {
		t.ID = w.id("lt-")
	}
	version, _ := strconv.Atoi(t.Version)
	t.Version = strconv.Itoa(version + 1)
	w.templates[t.Name] = t
	return t, nil
}

func (w *world) DeleteLaunchTemplate(_ context.Context, id, _ string) error {
	for _, g := range w.groups {
		if g.TemplateID == id {
			return fmt.Errorf("%s is made from it", g.Name)
		}
	}
	delete(w.templates, w.templateByID(id).Name)
	return nil
}

func (w *world) InstancesByTag(context.Context, map[string][]string) (all []capacity.Instance, _ error) {
	for id, slot := range w.instances {
		all = append(all, capacity.Instance{ID: id, Tags: map[string]string{capacity.TagNode: slot + "-1"}})
	}
	return all, nil
}

func (w *world) Terminate(_ context.Context, ids []string) error {
	for _, id := range ids {
		delete(w.instances, id)
	}
	return nil
}

func (w *world) EnsureNodeGroup(_ context.Context, want pcs.NodeGroup, _ bool) (pcs.NodeGroup, bool, error) {
	if w.templateByID(want.TemplateID).ID != want.TemplateID || want.TemplateVersion == "" {
		return want, false, fmt.Errorf("there is no launch template %q version %q", want.TemplateID, want.TemplateVersion)
	}
	w.groups = slices.DeleteFunc(slices.Clone(w.groups), func(g pcs.NodeGroup) bool { return g.Name == want.Name && g.Status == pcs.CreateFailed })
	g := w.group(want.Name)
	if g == nil {
		w.groups = append(w.groups, pcs.NodeGroup{Name: want.Name, ID: w.id("pcs_")})
		g = w.group(want.Name)
	}
	id := g.ID
	*g = want
	g.ID, g.ARN, g.Status = id, "arn:"+id, pcs.Active
	return *g, true, nil
}

func (w *world) AwaitNodeGroup(_ context.Context, want pcs.NodeGroup) (pcs.NodeGroup, error) {
	if g := w.group(want.Name); g != nil {
		return *g, nil
	}
	return want, errors.New("there is none")
}

func (w *world) DeleteNodeGroup(_ context.Context, _ pcs.Cluster, name string) error {
	g := w.group(name)
	if g == nil {
		return nil
	}
	for _, q := range w.queues {
		if slices.Contains(q.GroupIDs, g.ID) {
			return fmt.Errorf("%s is in queue %s", name, q.Name)
		}
	}
	w.groups = slices.DeleteFunc(w.groups, func(g pcs.NodeGroup) bool { return g.Name == name })
	return nil
}

func (w *world) EnsureQueue(_ context.Context, want pcs.Queue) error {
	q := w.queue(want.Name)
	if q == nil {
		one := want
		one.ID, one.Status, one.GroupIDs = w.id("pcs_q"), pcs.Active, nil
		w.queues = append(w.queues, one)
		q = w.queue(one.Name)
	}
	q.GroupIDs, q.SlurmSettings = union(q.GroupIDs, want.GroupIDs), want.SlurmSettings
	return nil
}

func (w *world) ReleaseQueue(_ context.Context, _ pcs.Cluster, name string, groups []string, deleteEmpty bool) error {
	q := w.queue(name)
	q.GroupIDs = slices.DeleteFunc(slices.Clone(q.GroupIDs), func(id string) bool { return slices.Contains(groups, id) })
	if deleteEmpty && len(q.GroupIDs) == 0 {
		w.queues = slices.DeleteFunc(w.queues, func(q pcs.Queue) bool { return q.Name == name })
	}
	return nil
}

func (w *world) partition() (capacity.PartitionSettings, bool) {
	if w.config == nil {
		return capacity.PartitionSettings{}, false
	}
	return w.config.Partition("gpu")
}

func (w *world) setPartition(file string, p capacity.PartitionSettings) {
	c := *w.config
	c.Partitions = slices.DeleteFunc(slices.Clone(c.Partitions), func(one capacity.PartitionSettings) bool { return one.Name == p.Name })
	if len(p.Groups) > 0 {
		p.File = file
		c.Partitions = append(c.Partitions, p)
	}
	w.config = &c
}

// carryOut does what a plan says, up to a number of steps.
func (w *world) carryOut(steps []Step, most int, after func(Step)) error {
	for i, step := range steps {
		if i == most {
			return errKilled
		}
		if err := step.Do(context.Background(), w); err != nil {
			return fmt.Errorf("%s: %w", step.Text, err)
		}
		after(step)
	}
	return nil
}

var errKilled = errors.New("killed")

// setUp carries out setup to its end.
func (w *world) setUp(t *testing.T, r Request) {
	t.Helper()
	p := plan(w.see(r))
	if len(p.Mismatches) > 0 {
		t.Fatal(p.Mismatches)
	}
	if err := w.carryOut(p.Actions, -1, func(Step) {}); err != nil {
		t.Fatal(err)
	}
}

// unsafe says what must never be: a node group in the queue without its fence or without settings,
// nodes without a launch template, settings whose fence was taken away.
func (w *world) unsafe() string {
	p, _ := w.partition()
	ids := p.Group("gpu").ReservationIDs
	for _, q := range w.queues {
		for _, id := range q.GroupIDs {
			g, found := w.inventory().Group(id)
			block := g.Tags[capacity.TagReservation]
			switch {
			case !found:
				return "queue " + q.Name + " has a node group that is gone"
			case g.Name == "compute":
			case w.fences[g.Name] != block:
				return g.Name + " is in the queue without the fence of " + block
			case !slices.Contains(ids, block):
				return g.Name + " is in the queue without settings of " + block
			}
		}
	}
	for _, g := range w.groups {
		if w.templateByID(g.TemplateID).ID != g.TemplateID {
			return g.Name + " has no launch template"
		}
	}
	return ""
}
