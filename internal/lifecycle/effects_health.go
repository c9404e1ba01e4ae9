package lifecycle

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// CheckNode submits the job that runs the site's health command on a node.
type CheckNode struct {
	Slot string
	NodeCheck
}

// Code is stable.
func (CheckNode) Code() string { return "check-node" }

// About is the node.
func (e CheckNode) About() capacity.Subject { return capacity.Subject{Slot: e.Slot, Node: e.Node} }

// Sentence is for people.
func (e CheckNode) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("slot %s: %s %s on %s", e.Slot, t.Verb("run", "running"), e.Program, e.Node)
}

// CancelCheck cancels such a job.
type CancelCheck struct{ Job string }

// Code is stable.
func (CancelCheck) Code() string { return "cancel-check" }

// About is the job.
func (e CancelCheck) About() capacity.Subject { return capacity.Subject{Job: e.Job} }

// Sentence is empty: the job is no user's.
func (CancelCheck) Sentence(capacity.Tense) string { return "" }

// DrainFailed drains a node on which the health command has failed, and records the evidence for AWS Support; the
// last of the failures is the new one.
type DrainFailed struct{ state.HealthCase }

// Code is stable.
func (DrainFailed) Code() string { return "drain-node" }

// About is the node.
func (e DrainFailed) About() capacity.Subject { return capacity.Subject{Slot: e.Slot, Node: e.Node} }

// Sentence is for people.
func (e DrainFailed) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("slot %s: %s %s, %s", e.Slot, t.Verb("drain", "drained"), e.Node, e.why())
}

func (e DrainFailed) why() string { return "health command: " + failure(e.Failures[len(e.Failures)-1]) }

// Relaunch powers up a node that was powered down because it failed the health command.
type Relaunch struct{ Slot, Node string }

// Code is stable.
func (Relaunch) Code() string { return "power-up" }

// About is the node.
func (e Relaunch) About() capacity.Subject { return capacity.Subject{Slot: e.Slot, Node: e.Node} }

// Sentence is for people.
func (e Relaunch) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("slot %s: %s %s up, to look at it again", e.Slot, t.Verb("power", "powering"), e.Node)
}

// KeepHealth records the health of a slot's nodes.
type KeepHealth struct{ *state.Health }

// Code is stable.
func (KeepHealth) Code() string { return "keep-health" }

// About is the slot.
func (e KeepHealth) About() capacity.Subject { return capacity.Subject{Slot: e.Slot} }

// Sentence is empty: the file is ours alone.
func (KeepHealth) Sentence(capacity.Tense) string { return "" }
