package setup

import (
	"encoding/json"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Effect is one change by setup or teardown with everything needed to make it, or an existing thing
// that stays (Nothing). Whatever may change after planning is a condition of the effect: the
// executor checks it, and stops if it does not hold.
type Effect interface {
	capacity.Effect
	// Steps are the lines of the effect in a plan.
	Steps() []Step
}

// Effects are a plan in the order of execution. JSON has its steps.
type Effects []Effect

// Steps are the lines of a plan.
func (e Effects) Steps() []Step {
	steps := []Step{}
	for _, one := range e {
		steps = append(steps, one.Steps()...)
	}
	return steps
}

// MarshalJSON writes the steps.
func (e Effects) MarshalJSON() ([]byte, error) {
	steps := e.Steps()
	for i := range steps {
		steps[i].Details = listed(steps[i].Details)
	}
	return json.Marshal(steps)
}

// Action is the verb of a step.
type Action string

// The actions.
const (
	Create  Action = "create"
	Update  Action = "update"
	Replace Action = "replace" // delete what could not be created, and create it
	Delete  Action = "delete"
	Drain   Action = "drain"
	Nothing Action = "nothing"
	// Terminate is EC2's word for instances.
	Terminate Action = "terminate"
)

// did are the actions in the past.
var did = map[Action]string{
	Create:    "created",
	Update:    "updated",
	Replace:   "replaced",
	Delete:    "deleted",
	Drain:     "drained",
	Terminate: "terminated",
}

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

// Step is a line of a plan, for people and programs.
type Step struct {
	What    string   `json:"what"`
	Name    string   `json:"name"`
	Action  Action   `json:"action"`
	Details []Detail `json:"details"`

	about capacity.Subject
}

// Detail is a property in a step.
type Detail struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Code is the action with its object: "create-compute-node-group".
func (s Step) Code() string {
	return strings.ToLower(strings.ReplaceAll(string(s.Action)+" "+s.What, " ", "-"))
}

// About is the subject of the step.
func (s Step) About() capacity.Subject { return s.about }

// Sentence says what the step does: "create queue gpu".
func (s Step) Sentence(t capacity.Tense) string {
	object := " " + s.What + " " + s.Name
	if s.Action == Nothing {
		return t.Verb("leave", "left") + object + " as it is"
	}
	return t.Verb(string(s.Action), did[s.Action]) + object
}

// Steps is the step itself.
func (s Step) Steps() []Step { return []Step{s} }

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

// steps are the lines of an effect with several.
type steps []Step

func (s steps) Steps() []Step { return s }

// Code is the first line's.
func (s steps) Code() string { return s.first().Code() }

// About is the first line's.
func (s steps) About() capacity.Subject { return s.first().About() }

// Sentence joins the lines' sentences.
func (s steps) Sentence(t capacity.Tense) string {
	var all []string
	for _, one := range s {
		all = append(all, one.Sentence(t))
	}
	return strings.Join(all, ", ")
}

func (s steps) first() Step {
	if len(s) == 0 {
		return Step{}
	}
	return s[0]
}

// The effects of setup.
type (
	// WriteSettings writes config.toml, or adds to it where the cluster is. Condition: there is none,
	// or it names no other.
	WriteSettings struct {
		Step
		Path  string
		Place config.Place
	}

	// WritePartition writes the file of a partition in conf.d. Condition: the settings say of the
	// partition what they said when the plan was made.
	WritePartition struct {
		Step
		// Config is the path of config.toml.
		Config    string
		Was       *capacity.PartitionSettings // nil for none
		Partition capacity.PartitionSettings
	}

	// WriteTemplate creates the launch template, or a new version of it. Condition: it carries our
	// tag, or is not there.
	WriteTemplate struct {
		Step
		Spec capacity.LaunchTemplateSpec
	}

	// WriteGroup creates, updates or replaces the compute node group, and waits until PCS is done;
	// for Nothing, it waits. Conditions: it carries our tag, it has no instances that the change
	// would replace, and what PCS says beyond this program's knowledge is not lost.
	WriteGroup struct {
		Step
		// Group lacks id and version of a launch template that is still to be written.
		Group pcs.NodeGroup
	}

	// PlaceFence has a pass of sync place the fence over the nodes of a slot, and waits until it
	// stands, for Nothing too.
	PlaceFence struct {
		Step
		Slot, Queue, Reservation string
	}

	// WriteQueue creates the queue, or puts the node group into it. Conditions: it carries our tag,
	// and what PCS says beyond this program's knowledge is not lost.
	WriteQueue struct {
		Step
		// Queue has no node group where that is still to be created.
		Queue pcs.Queue
	}
)

// The effects of teardown.
type (
	// WriteTag writes the queue's name on a node group or launch template of an older version, so
	// that it is found again when queue and settings are gone.
	WriteTag struct {
		Step
		// Of is the ARN of a node group, or the id of a launch template.
		Of   string
		Tags map[string]string
	}

	// DrainNodes keeps new jobs off the nodes of slots. Condition for what follows, unless Force:
	// no job has started there since the plan was made.
	DrainNodes struct {
		steps
		Queue string
		Slots []SlotNodes
		Force bool
	}

	// Forget removes the settings of what goes, and its Slurm reservations, under the lock of
	// passes: one between the two would place the fence again. Condition: the settings say of the
	// partition what they said when the plan was made. Of the reservations, it takes those that
	// there are now.
	Forget struct {
		steps
		// StateDir has the lock; "" where there are no settings.
		StateDir string
		// Config is the path of config.toml; "" leaves the settings as they are.
		Config string
		Was    capacity.PartitionSettings
		Left   capacity.PartitionSettings // without node groups, the file goes
		Queue  string
		Slots  []SlotNodes
	}

	// ReleaseQueue takes node groups out of the queue, or deletes it when nothing else is in it.
	// Condition: it carries our tag.
	ReleaseQueue struct {
		Step
		Cluster pcs.Cluster
		Groups  []string // ids
	}

	// TerminateInstances ends the instances that we launched for what goes, those that came after
	// the plan was made among them.
	TerminateInstances struct {
		steps
		Mark, Queue string
		Going       going
	}

	// DeleteGroup deletes a compute node group with its instances. Condition: it carries our tag.
	DeleteGroup struct {
		Step
		Cluster pcs.Cluster
	}

	// DeleteTemplate deletes a launch template. Condition: it carries our tag.
	DeleteTemplate struct {
		Step
		ID, Mark string
	}
)

// SlotNodes is a slot with the nodes that its name does not tell of, or that are to be drained.
type SlotNodes struct {
	Name  string
	Nodes []string
}

// byName are the nodes of slots.
func byName(slots []SlotNodes) map[string][]string {
	nodes := map[string][]string{}
	for _, slot := range slots {
		nodes[slot.Name] = slot.Nodes
	}
	return nodes
}
