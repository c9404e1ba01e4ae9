package setup

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// World is what setup and teardown change, and look at again before they do.
type World interface {
	// Slurm.
	Slurm
	PlaceFences(ctx context.Context) error
	// Pause waits until the next look at Slurm; without, nothing is waited for.
	Pause(ctx context.Context, to *pcs.Pace) error

	// EC2.
	EnsureLaunchTemplate(ctx context.Context, spec capacity.LaunchTemplateSpec) (capacity.LaunchTemplate, error)
	TagLaunchTemplate(ctx context.Context, id string, tags map[string]string) error
	DeleteLaunchTemplate(ctx context.Context, idOrName, cluster string) error
	InstancesByTag(ctx context.Context, tags map[string][]string) ([]capacity.Instance, error)
	Terminate(ctx context.Context, ids []string) error

	// PCS. Each waits until PCS is done.
	EnsureNodeGroup(ctx context.Context, want pcs.NodeGroup, mayCreate bool) (g pcs.NodeGroup, changed bool, err error)
	AwaitNodeGroup(ctx context.Context, want pcs.NodeGroup) (pcs.NodeGroup, error)
	DeleteNodeGroup(ctx context.Context, cluster pcs.Cluster, name string) error
	EnsureQueue(ctx context.Context, want pcs.Queue) error
	ReleaseQueue(ctx context.Context, cluster pcs.Cluster, name string, groups []string, deleteEmpty bool) error
	Tag(ctx context.Context, arn string, tags map[string]string) error

	// The settings, by the path of config.toml or of a file in conf.d.
	LoadSettings(path string) (*config.Config, error)
	WriteSettings(path string, place config.Place) error
	AddPlace(path string, place config.Place) error
	WritePartition(path string, p capacity.PartitionSettings) error
	RemovePartition(path string) error
	// LockPasses keeps passes of sync out.
	LockPasses(ctx context.Context, stateDir string) (unlock func(), err error)
}

// Verb is what a step does.
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
)

// Step is an action with what a plan shows of it. One without an object is not shown.
type Step struct {
	capacity.Action[World] `json:"-"`

	What    string   `json:"what"`
	Name    string   `json:"name"`
	Verb    Verb     `json:"action"`
	Details []Detail `json:"details"`
}

// Detail is a property in a step.
type Detail struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// with is the step with its deed.
func (s Step) with(do func(ctx context.Context, w World) error) Step {
	s.Do = do
	if s.What == "" {
		return s
	}
	s.Code = strings.ToLower(strings.ReplaceAll(string(s.Verb)+" "+s.What, " ", "-"))
	s.Text = string(s.Verb) + " " + s.What + " " + s.Name
	if s.Verb == Nothing {
		s.Text = "leave " + s.What + " " + s.Name + " as it is"
	}
	return s
}

// change appends a detail, with the present value if it differs.
func (s *Step) change(key, now, want string) {
	if now != "" && now != want {
		want = now + " → " + orNone(want)
	}
	s.add(key, want)
}

// add appends a detail unless its value is empty.
func (s *Step) add(key, value string) {
	if value != "" {
		s.Details = append(s.Details, Detail{key, value})
	}
}

// Steps are a plan, in the order in which it is carried out.
type Steps []Step

// Shown are the lines of the plan, without their deeds.
func (s Steps) Shown() Steps {
	lines := slices.DeleteFunc(slices.Clone(s), func(one Step) bool { return one.What == "" })
	for i := range lines {
		lines[i].Do = nil
	}
	return lines
}

// MarshalJSON writes the lines.
func (s Steps) MarshalJSON() ([]byte, error) {
	lines := listed([]Step(s.Shown()))
	for i := range lines {
		lines[i].Details = listed(lines[i].Details)
	}
	return json.Marshal(lines)
}
