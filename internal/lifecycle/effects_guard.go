package lifecycle

import (
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// ChangeGuard changes a Slurm reservation of ours: a fence, a wait, or the guard over surplus nodes.
type ChangeGuard struct {
	Do   string // create, update, replace, delete
	R    capacity.SlurmReservation
	Slot string
	// Old is the name to delete once its replacement exists. Occupied: the replacement's name must be freed first.
	Old      string
	Occupied bool
	// ToAWS turns the times of R, which are in Slurm's clock, into AWS's.
	ToAWS time.Duration
}

// Code is create-fence, delete-wait, ….
func (e ChangeGuard) Code() string { return e.Do + "-" + string(e.kind()) }

// About is the slot.
func (e ChangeGuard) About() capacity.Subject { return aboutNodes(e.Slot, e.R.Nodes) }

// kind is the purpose of the Slurm reservation: fence, wait or surplus.
func (e ChangeGuard) kind() capacity.GuardKind { return e.R.Guard().Kind }

// Sentence is for people; its times are AWS's.
func (e ChangeGuard) Sentence(t capacity.Tense) string {
	nodes, r := hostlist.Compress(e.R.Nodes), e.R.ByClock(e.ToAWS)
	verb := t.Verb("move", "moved")
	switch e.Do {
	case "create":
		verb = t.Verb("place", "placed")
	case "delete":
		verb = t.Verb("remove", "removed")
	}
	what, why := r.Name, ""
	switch kind, removed := e.kind(), e.Do == "delete"; {
	case kind == "wait" && removed:
		what, why = "the wait "+r.Name, fmt.Sprintf("nothing holds jobs back from %s any more", nodes)
	case kind == "wait":
		what, why = "the wait "+r.Name, fmt.Sprintf("no job starts on %s before %s", nodes, capacity.FormatUTC(r.End))
	case kind == "surplus" && removed:
		why = fmt.Sprintf("jobs get %s again", nodes)
	case kind == "surplus":
		why = fmt.Sprintf("no job starts on %s: there are no instances for more nodes, or max_nodes allows no more", nodes)
	case removed:
		what, why = "the fence "+r.Name, "no reservation needs it"
	default:
		what, why = "the fence "+r.Name, fmt.Sprintf("no job runs on %s after %s", nodes, capacity.FormatUTC(r.Start))
		if !r.Infinite() {
			why += fmt.Sprintf(" until %s, when the next block opens", capacity.FormatUTC(r.End))
		}
	}
	return fmt.Sprintf("slot %s: %s %s, %s", e.Slot, verb, what, why)
}
