package lifecycle

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// The effects of a pass: each is one change, with all that is needed to make it. The codes are
// Done.Do. One with an empty sentence is not reported: what it changes is ours alone.

// PowerUp has Slurm launch nodes.
type PowerUp struct {
	Slot  string
	Nodes []string
	Why   string // ends the sentence
}

// Code is stable.
func (PowerUp) Code() string { return "power-up" }

// About is the slot.
func (e PowerUp) About() capacity.Subject { return aboutNodes(e.Slot, e.Nodes) }

// Sentence is for people.
func (e PowerUp) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("slot %s: %s %s up, %s", e.Slot, t.Verb("power", "powering"), hostlist.Compress(e.Nodes), e.Why)
}

// PowerDown has Slurm power nodes down when their jobs have ended.
type PowerDown struct {
	Slot   string
	Nodes  []string
	Reason string // of the nodes, in Slurm
	Why    string // ends the sentence
}

// Code is stable.
func (PowerDown) Code() string { return "power-down" }

// About is the slot.
func (e PowerDown) About() capacity.Subject { return aboutNodes(e.Slot, e.Nodes) }

// Sentence is for people.
func (e PowerDown) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("slot %s: %s %s down, %s", e.Slot, t.Verb("power", "powering"), hostlist.Compress(e.Nodes), e.Why)
}

func aboutNodes(slot string, nodes []string) capacity.Subject {
	return capacity.Subject{Slot: slot, Node: hostlist.Compress(nodes)}
}
