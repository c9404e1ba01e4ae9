package lifecycle

import (
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// The effects of a pass: each is one change, with everything needed to make it. The codes are those of Done.Do. An
// effect with an empty sentence is not reported: it changes only our own files.

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

// PowerDown has Slurm power nodes down once their jobs have ended.
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

// ReturnNodes gives nodes back to Slurm, which powers them down and uses them again. The power-down ends their
// instances.
type ReturnNodes struct {
	Slot   string
	Nodes  []string
	Job    string // a job still completing there; "" if none is
	Reason string // of the nodes, in Slurm
	Why    string // ends the sentence
	// StillOff: return only nodes that are still powered down. They were read before the jobs, and another job may have
	// powered them up since.
	StillOff bool
}

// Code is stable.
func (ReturnNodes) Code() string { return "return-nodes" }

// About is the nodes, and the job.
func (e ReturnNodes) About() capacity.Subject {
	about := aboutNodes(e.Slot, e.Nodes)
	about.Job = e.Job
	return about
}

// Sentence is for people.
func (e ReturnNodes) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("slot %s: %s %s back to Slurm, %s", e.Slot, t.Verb("give", "gave"), hostlist.Compress(e.Nodes),
		e.Why)
}

// off leaves the nodes that are still powered down.
func (e ReturnNodes) off(now []capacity.Node) ReturnNodes {
	e.Nodes = (&Cluster{Nodes: now}).those(e.Nodes, func(n capacity.Node) bool { return n.PoweredDown() })
	return e
}

// EndInstance terminates an instance without a node.
type EndInstance struct {
	Slot string // by the node's name; "" if the settings have no such slot
	capacity.Orphan
}

// Code is stable.
func (EndInstance) Code() string { return "end-instance" }

// About is the node that the instance was launched for.
func (e EndInstance) About() capacity.Subject {
	return capacity.Subject{Slot: e.Slot, Node: e.Node, Reservation: e.Reservation}
}

// Sentence is for people.
func (e EndInstance) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("%s instance %s of node %s%s: %s", t.Verb("end", "ended"), e.Instance, e.Node, in(e.Reservation),
		e.Why)
}

// KeepNotMisplaced forgets what the Prolog of a node found.
type KeepNotMisplaced struct{ Node string }

// Code is stable.
func (KeepNotMisplaced) Code() string { return "keep-not-misplaced" }

// About is the node.
func (e KeepNotMisplaced) About() capacity.Subject { return capacity.Subject{Node: e.Node} }

// Sentence is empty: the file is ours alone.
func (KeepNotMisplaced) Sentence(capacity.Tense) string { return "" }

// Release cancels an ODCR of ours that serves no purpose.
type Release struct{ Needless }

// Code is stable.
func (Release) Code() string { return "release" }

// About is the ODCR.
func (e Release) About() capacity.Subject { return capacity.Subject{Reservation: e.ID} }

// Sentence is for people.
func (e Release) Sentence(t capacity.Tense) string {
	return t.Verb("give", "gave") + " back " + e.Needless.String()
}

// answer is the result of the call; why it failed is in the sentence too.
func (e Release) answer(err error) Answer {
	if e.Err = err; err != nil {
		return Answer{Err: err, Messages: []string{e.Sentence(capacity.Did)}}
	}
	return Answer{}
}

// KeepReleased removes ODCRs from the ledger, by id or token.
type KeepReleased struct {
	At    time.Time
	Names []string
}

// Code is stable.
func (KeepReleased) Code() string { return "keep-released" }

// About is nothing of Slurm's.
func (KeepReleased) About() capacity.Subject { return capacity.Subject{} }

// Sentence is empty: the ledger is ours alone.
func (KeepReleased) Sentence(capacity.Tense) string { return "" }

// SetUpSlot takes the next steps to give a block its compute node group on PCS. Setup carries it out and reports the
// steps.
type SetUpSlot struct{ Rolling }

// Code is stable.
func (SetUpSlot) Code() string { return "set-up-slot" }

// About is the block.
func (e SetUpSlot) About() capacity.Subject { return e.about() }

// Sentence is for people.
func (e SetUpSlot) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("%s %s in partition %s", t.Verb("set up", "setting up"), e.Block.ID, e.Partition)
}

// RemoveSlot takes the next steps to remove the compute node group of an ended block. Setup carries it out and
// reports the steps.
type RemoveSlot struct{ Rolling }

// Code is stable.
func (RemoveSlot) Code() string { return "remove-slot" }

// About is the block.
func (e RemoveSlot) About() capacity.Subject { return e.about() }

// Sentence is for people.
func (e RemoveSlot) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("%s compute node group %s of %s, which has ended", t.Verb("remove", "removing"), e.Slot, e.Block.ID)
}

// KeepSetbacks writes down why roll overs cannot go on.
type KeepSetbacks struct{ Setbacks map[string]state.Setback }

// Code is stable.
func (KeepSetbacks) Code() string { return "keep-setbacks" }

// About is nothing of Slurm's.
func (KeepSetbacks) About() capacity.Subject { return capacity.Subject{} }

// Sentence is empty: the file is ours alone.
func (KeepSetbacks) Sentence(capacity.Tense) string { return "" }

// KeepSample adds a sample for the report.
type KeepSample struct {
	state.Sample
	Last *state.Sample
	Poll time.Duration
}

// Code is stable.
func (KeepSample) Code() string { return "keep-sample" }

// About is nothing of Slurm's.
func (KeepSample) About() capacity.Subject { return capacity.Subject{} }

// Sentence is empty: the file is ours alone.
func (KeepSample) Sentence(capacity.Tense) string { return "" }

// KeepSnapshot writes the snapshot and the plan for their readers.
type KeepSnapshot struct {
	Setting string // that names the folder
	Dir     state.Dir
	Snap    *capacity.Snapshot
}

// Code is stable.
func (KeepSnapshot) Code() string { return "keep-snapshot" }

// About is nothing of Slurm's.
func (KeepSnapshot) About() capacity.Subject { return capacity.Subject{} }

// Sentence is empty: every pass does it.
func (KeepSnapshot) Sentence(capacity.Tense) string { return "" }

// KeepFacts writes the facts about reservations that running jobs may read.
type KeepFacts struct{ Facts map[string]state.Facts }

// Code is stable.
func (KeepFacts) Code() string { return "keep-facts" }

// About is nothing of Slurm's.
func (KeepFacts) About() capacity.Subject { return capacity.Subject{} }

// Sentence is empty: every pass does it.
func (KeepFacts) Sentence(capacity.Tense) string { return "" }

func aboutNodes(slot string, nodes []string) capacity.Subject {
	return capacity.Subject{Slot: slot, Node: hostlist.Compress(nodes)}
}
