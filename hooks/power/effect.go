package power

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file declares the effects of power-up and power-down. The machines return them, and the executor carries them
// out.

// Adopt takes over instances that an earlier run launched for nodes. It changes nothing.
type Adopt struct{ Nodes []string }

// Terminate terminates instances.
type Terminate struct {
	Instances []string
	Nodes     []string
	Why       string
	// Recorded are instances that only our records name, with their launch times.
	Recorded map[string]time.Time
}

// AskImage asks for the platform of a launch template's image.
type AskImage struct{ Template string }

// Enlist enters an ODCR that is to be created into the ledger, if the settings allow its size; with a ReservationID
// it completes the entry.
type Enlist struct{ capacity.Held }

// Unlist removes an entry from the ledger.
type Unlist struct{ Token string }

// Hold creates an ODCR for a launch.
type Hold struct {
	capacity.HoldOrder
	Jobs []string
}

// Release cancels ODCRs, side by side. Their instances continue.
type Release struct{ Reservations []string }

// Launch is one RunInstances for nodes.
type Launch struct {
	capacity.Launch
	Nodes, Jobs []string
}

// MarkFull records that EC2 found no room for this many nodes in a reservation.
type MarkFull struct {
	Reservation string
	Nodes       int
}

// AskLeft lists all our instances, once in a run.
type AskLeft struct{ Nodes []string }

// AskStates asks for the states of instances.
type AskStates struct{ Instances []string }

// Wait waits for a second.
type Wait struct{}

// SetAddresses tells Slurm where launched nodes are.
type SetAddresses struct{ Addresses map[string]netip.Addr }

// Tell writes records, and messages to the terminals of jobs.
type Tell struct {
	Records []state.Record
	Notify  []string // jobs, never batch jobs
	Text    string
}

// Note only writes to the log.
type Note struct {
	Job, Text string
	Alarm     bool
}

// SendDown takes nodes away from their jobs, which Slurm requeues, and powers them down.
type SendDown struct {
	Nodes  []string
	Reason string
}

// AskJobs lists all jobs, AskRecords all records of hooks.
type (
	AskJobs    struct{}
	AskRecords struct{}
)

// Begin keeps a pending job from starting before a time of the controller's clock.
type Begin struct {
	Job string
	At  time.Time
}

// Comment writes the AdminComment of jobs, all in one call. Unread: do not read it back; Jobs shows the result later.
type Comment struct {
	Jobs   []string
	Text   string
	Unread bool
}

// AllowRequeue overrides the jobs' --requeue or --no-requeue.
type AllowRequeue struct {
	Jobs  []string
	Allow bool
}

// Requeue takes jobs off their nodes and holds them.
type Requeue struct{ Jobs []string }

// Cancel cancels jobs.
type Cancel struct{ Jobs []string }

// HoldJobs holds pending jobs until their owners or, with ByAdmin, an administrator releases them.
type HoldJobs struct {
	Jobs    []string
	ByAdmin bool
}

// GoOn lets a held job start in its other partitions. Its AdminComment comes before the release: a launch that
// refuses the job there writes the next one.
type GoOn struct{ Job, Partitions, Text string }

// AskGivenUp asks which of the nodes did not boot within ResumeTimeout.
type AskGivenUp struct{ Nodes []string }

// AskInstances lists all our instances.
type AskInstances struct{}

// Configure makes a PCS compute node group match a reservation.
type Configure struct {
	Slot        string
	Reservation capacity.Reservation
	Group       capacity.NodeGroup
}

// The codes.

func (Adopt) Code() string        { return "adopt" }
func (Terminate) Code() string    { return "terminate" }
func (AskImage) Code() string     { return "ask-image" }
func (Enlist) Code() string       { return "enlist" }
func (Unlist) Code() string       { return "unlist" }
func (Hold) Code() string         { return "hold" }
func (Release) Code() string      { return "release" }
func (Launch) Code() string       { return "launch" }
func (MarkFull) Code() string     { return "mark-full" }
func (AskLeft) Code() string      { return "ask-left" }
func (AskStates) Code() string    { return "ask-states" }
func (Wait) Code() string         { return "wait" }
func (SetAddresses) Code() string { return "set-addresses" }
func (Tell) Code() string         { return "tell" }
func (Note) Code() string         { return "note" }
func (SendDown) Code() string     { return "send-down" }
func (AskJobs) Code() string      { return "ask-jobs" }
func (AskRecords) Code() string   { return "ask-records" }
func (Begin) Code() string        { return "begin" }
func (Comment) Code() string      { return "admin-comment" }
func (AllowRequeue) Code() string { return "allow-requeue" }
func (Requeue) Code() string      { return "requeue" }
func (Cancel) Code() string       { return "cancel" }
func (HoldJobs) Code() string     { return "hold-jobs" }
func (GoOn) Code() string         { return "go-on" }
func (AskGivenUp) Code() string   { return "ask-given-up" }
func (AskInstances) Code() string { return "ask-instances" }
func (Configure) Code() string    { return "configure" }

// The subjects.

func onNodes(names []string) capacity.Subject {
	return capacity.Subject{Node: hostlist.Compress(names)}
}

func onJobs(names []string) capacity.Subject {
	return capacity.Subject{Job: strings.Join(names, ",")}
}

func (e Adopt) About() capacity.Subject     { return onNodes(e.Nodes) }
func (e Terminate) About() capacity.Subject { return onNodes(e.Nodes) }
func (AskImage) About() capacity.Subject    { return capacity.Subject{} }
func (e Enlist) About() capacity.Subject    { return capacity.Subject{Reservation: e.ReservationID} }
func (Unlist) About() capacity.Subject      { return capacity.Subject{} }
func (e Hold) About() capacity.Subject      { return onJobs(e.Jobs) }
func (e Release) About() capacity.Subject {
	return capacity.Subject{Reservation: strings.Join(e.Reservations, ",")}
}
func (e MarkFull) About() capacity.Subject   { return capacity.Subject{Reservation: e.Reservation} }
func (e AskLeft) About() capacity.Subject    { return onNodes(e.Nodes) }
func (AskStates) About() capacity.Subject    { return capacity.Subject{} }
func (Wait) About() capacity.Subject         { return capacity.Subject{} }
func (e Tell) About() capacity.Subject       { return onJobs(e.Notify) }
func (e Note) About() capacity.Subject       { return capacity.Subject{Job: e.Job} }
func (e SendDown) About() capacity.Subject   { return onNodes(e.Nodes) }
func (AskJobs) About() capacity.Subject      { return capacity.Subject{} }
func (AskRecords) About() capacity.Subject   { return capacity.Subject{} }
func (e Begin) About() capacity.Subject      { return capacity.Subject{Job: e.Job} }
func (e Comment) About() capacity.Subject    { return onJobs(e.Jobs) }
func (e Requeue) About() capacity.Subject    { return onJobs(e.Jobs) }
func (e Cancel) About() capacity.Subject     { return onJobs(e.Jobs) }
func (e HoldJobs) About() capacity.Subject   { return onJobs(e.Jobs) }
func (e GoOn) About() capacity.Subject       { return capacity.Subject{Job: e.Job} }
func (e AskGivenUp) About() capacity.Subject { return onNodes(e.Nodes) }
func (AskInstances) About() capacity.Subject { return capacity.Subject{} }

func (e AllowRequeue) About() capacity.Subject { return onJobs(e.Jobs) }

func (e Configure) About() capacity.Subject {
	return capacity.Subject{Slot: e.Slot, Reservation: e.Reservation.ID}
}

func (e Launch) About() capacity.Subject {
	return capacity.Subject{Node: hostlist.Compress(e.Nodes), Job: strings.Join(e.Jobs, ","), Reservation: e.ReservationID}
}

func (e SetAddresses) About() capacity.Subject {
	var names []string
	for name := range e.Addresses {
		names = append(names, name)
	}
	return onNodes(names)
}

// The sentences.

func (e Adopt) Sentence(t capacity.Tense) string {
	return t.Verb("adopt", "adopted") + " what an earlier run launched"
}

func (e Terminate) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("%s %s: %s", t.Verb("terminate", "terminated"), strings.Join(e.Instances, ", "), e.Why)
}

func (e AskImage) Sentence(t capacity.Tense) string {
	return t.Verb("ask", "asked") + " what the image of " + e.Template + " runs"
}

func (e Enlist) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("%s %d × %s in the ledger", t.Verb("enter", "entered"), e.Count, e.InstanceType)
}

func (e Unlist) Sentence(t capacity.Tense) string {
	return t.Verb("take", "took") + " an entry out of the ledger"
}

func (e Hold) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("%s %d × %s in %s until %s", t.Verb("hold", "held"), e.Count, e.InstanceType, e.AZID,
		capacity.FormatUTC(e.End))
}

func (e Release) Sentence(t capacity.Tense) string {
	return t.Verb("release", "released") + " " + strings.Join(e.Reservations, ", ")
}

func (e Launch) Sentence(t capacity.Tense) string {
	where := e.SubnetID
	if e.ReservationID != "" {
		where = e.ReservationID + ", " + where
	}
	return fmt.Sprintf("%s %d × %s in %s", t.Verb("launch", "launched"), e.Count, e.InstanceType, where)
}

func (e MarkFull) Sentence(t capacity.Tense) string {
	return fmt.Sprintf("%s that %s has no room for %d", t.Verb("note", "noted"), e.Reservation, e.Nodes)
}

func (e AskLeft) Sentence(t capacity.Tense) string {
	return t.Verb("look", "looked") + " for instances of older launches"
}

func (e AskStates) Sentence(t capacity.Tense) string {
	return t.Verb("ask", "asked") + " for the states of " + strings.Join(e.Instances, ", ")
}

func (Wait) Sentence(t capacity.Tense) string { return t.Verb("wait", "waited") }

func (e SetAddresses) Sentence(t capacity.Tense) string {
	return t.Verb("set", "set") + " the addresses of nodes"
}

func (e Tell) Sentence(t capacity.Tense) string {
	return t.Verb("tell", "told") + " jobs: " + e.Text
}

func (e Note) Sentence(capacity.Tense) string { return e.Text }

func (e SendDown) Sentence(t capacity.Tense) string {
	return t.Verb("send", "sent") + " nodes down: " + e.Reason
}

func (AskJobs) Sentence(t capacity.Tense) string {
	return t.Verb("ask", "asked") + " Slurm for its jobs"
}

func (AskRecords) Sentence(t capacity.Tense) string { return t.Verb("read", "read") + " the records" }

func (e Begin) Sentence(t capacity.Tense) string {
	return t.Verb("let", "let") + " the job begin at " + capacity.FormatUTC(e.At)
}

func (e Comment) Sentence(t capacity.Tense) string {
	return t.Verb("write", "wrote") + " the AdminComment: " + e.Text
}

func (e AllowRequeue) Sentence(t capacity.Tense) string {
	if !e.Allow {
		return t.Verb("disallow", "disallowed") + " a requeue"
	}
	return t.Verb("allow", "allowed") + " a requeue"
}

func (Requeue) Sentence(t capacity.Tense) string {
	return t.Verb("requeue and hold", "requeued and held")
}

func (Cancel) Sentence(t capacity.Tense) string { return t.Verb("cancel", "cancelled") }

func (e HoldJobs) Sentence(t capacity.Tense) string {
	by := "their owners"
	if e.ByAdmin {
		by = "an administrator"
	}
	return fmt.Sprintf("%s until %s can release the jobs", t.Verb("hold", "held"), by)
}

func (e GoOn) Sentence(t capacity.Tense) string {
	return t.Verb("let", "let") + " the job go on in " + e.Partitions
}

func (AskGivenUp) Sentence(t capacity.Tense) string {
	return t.Verb("ask", "asked") + " Slurm which nodes did not boot"
}

func (AskInstances) Sentence(t capacity.Tense) string {
	return t.Verb("ask", "asked") + " EC2 for our instances"
}

func (e Configure) Sentence(t capacity.Tense) string {
	return t.Verb("configure", "configured") + " compute node group " + e.Slot
}
